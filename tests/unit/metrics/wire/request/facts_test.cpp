#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "metrics/wire/json/text.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::wire {
namespace {

using Counts = std::array<std::uint64_t, script_count>;

std::string utf8(char32_t c) {
  std::string bytes;
  const auto add = [&](char32_t byte) { bytes += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6)), add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12)), add(0x80 | ((c >> 6) & 0x3F)), add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18)), add(0x80 | ((c >> 12) & 0x3F)), add(0x80 | ((c >> 6) & 0x3F)), add(0x80 | (c & 0x3F));
  }
  return bytes;
}

Counts counts_of(std::string_view text) {
  ScriptCounter counter;
  counter.add(text);
  return counter.counts();
}

TEST(ScriptOf, KnowsTheBlocks) {
  const std::pair<char32_t, Script> cases[] = {
      {U'a', Script::letters},
      {U'Z', Script::letters},
      {U' ', Script::letters},
      {U'\n', Script::letters},
      {U'\r', Script::letters},
      {U'@', Script::punctuation},
      {U'[', Script::punctuation},
      {U'`', Script::punctuation},
      {U'{', Script::punctuation},
      {U'/', Script::punctuation},
      {U':', Script::punctuation},
      {U'\x08', Script::punctuation},
      {U'\x0E', Script::punctuation},
      {U'0', Script::digits},
      {U'9', Script::digits},
      {U'é', Script::latin_extended},
      {0x36F, Script::latin_extended},
      {0x370, Script::cyrillic_greek},
      {U'Ж', Script::cyrillic_greek},
      {0x52F, Script::cyrillic_greek},
      {0x530, Script::abjad_indic_thai},
      {U'ع', Script::abjad_indic_thai},
      {U'ก', Script::abjad_indic_thai},
      {0x10FF, Script::abjad_indic_thai},
      {0x1100, Script::cjk},
      {U'ế', Script::latin_extended},
      {U'…', Script::other},
      {U'→', Script::other},
      {U'、', Script::cjk},
      {U'ん', Script::cjk},
      {U'水', Script::cjk},
      {U'한', Script::cjk},
      {U'，', Script::cjk},
      {0xFB06, Script::latin_extended},
      {0xFB13, Script::abjad_indic_thai},
      {0xFFFD, Script::other},
      {U'🙂', Script::other},
      {0x20000, Script::cjk},
      {0x40000, Script::other},
      {0x10FFFF, Script::other},
  };
  for (const auto& [c, script] : cases) EXPECT_EQ(script_of(c), script) << static_cast<std::uint32_t>(c);
}

TEST(ScriptCounter, CountsEveryCodePointByItsScript) {
  std::string text;
  Counts wanted{};
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 7) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    text += utf8(c);
    ++wanted[static_cast<std::size_t>(script_of(c))];
  }
  EXPECT_EQ(counts_of(text), wanted);
}

// Texts have long runs of one script and single code points of others, in every alignment to the counter's strides.
TEST(ScriptCounter, CountsTheSameHoweverATextIsCut) {
  std::mt19937_64 random(5);
  const char32_t some[] = {U'a', U' ', U'7', U'{', U'é', U'Ж', U'ع', U'水', U'🙂'};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    Counts wanted{};
    while (text.size() < 200) {
      const char32_t c = some[random() % std::size(some)];
      for (std::uint64_t n = random() % 5 == 0 ? random() % 80 : 1; n > 0; --n) {
        text += utf8(c);
        ++wanted[static_cast<std::size_t>(script_of(c))];
      }
    }
    ASSERT_EQ(counts_of(text), wanted);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      ScriptCounter counter;
      counter.add(std::string_view(text).substr(0, cut));
      counter.add(std::string_view(text).substr(cut));
      ASSERT_EQ(counter.counts(), wanted) << cut;
    }
    ScriptCounter bytes;
    for (const char& byte : text) bytes.add({&byte, 1});
    ASSERT_EQ(bytes.counts(), wanted);
  }
}

/// Reads a string as add_written() does, a byte at a time; returns how much of it was read.
std::size_t read_written(std::string_view text, Counts& counts) {
  std::size_t at = 0;
  while (at < text.size()) {
    char c = text[at];
    std::size_t size = 1;
    if (c == '\\' && at + 1 < text.size()) {
      c = undone_letter(text[at + 1]);
      size = 2;
      if (c == 0 || c == '\b') break;
    } else if (c == '\\' || c == '"' || static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x80) {
      break;
    }
    ++counts[static_cast<std::size_t>(script_of(static_cast<unsigned char>(c)))];
    at += size;
  }
  return at;
}

// Texts are long enough for the counters of a block's bytes to be summed more than once.
TEST(ScriptCounter, CountsWrittenTextAsFarAsItIsAsciiWithEscapesOfOneLetter) {
  std::mt19937_64 random(11);
  std::size_t ends_within = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t longest = round % 50 == 0 ? 9000 : 100;
    const std::uint64_t seldom = 1 + random() % 40;
    std::string text;
    while (text.size() < longest) {
      const auto kind = random() % (seldom * 8);
      if (kind < 6) {
        text += {'\\', "\"\\/bfnrt"[random() % 8]};
      } else if (kind == 6 && random() % 8 == 0) {
        text += std::string_view("\"\\\n\x01\x1F\x80\xFF\x00\\u", 10).substr(random() % 9, 2);
      } else {
        text += static_cast<char>(' ' + random() % 0x60);
        if (text.back() == '"' || text.back() == '\\') text.back() = '7';
      }
    }
    Counts wanted{};
    const std::size_t most = read_written(text, wanted);
    ScriptCounter counter;
    const auto read =
        static_cast<std::size_t>(counter.add_written(text.data(), text.data() + text.size()) - text.data());
    ASSERT_LE(read, most);
    ASSERT_TRUE(read == most || text.size() - read < 64) << read << " of " << most;
    Counts of_read{};
    ASSERT_EQ(read_written(text.substr(0, read), of_read), read) << "an escape is cut";
    ASSERT_EQ(counter.counts(), of_read);
    ends_within += read + 64 < text.size() ? 1 : 0;
  }
  EXPECT_GT(ends_within, 200U);
}

TEST(ScriptCounter, CountsAnyNumberOfCharactersOfOneClass) {
  for (const auto& [c, script] :
       {std::pair('a', Script::letters), std::pair('7', Script::digits), std::pair('-', Script::punctuation)}) {
    for (std::size_t size = 0; size < 10'000; size += 97) {
      const std::string text(size, c);
      Counts wanted{};
      wanted[static_cast<std::size_t>(script)] = size;
      ASSERT_EQ(counts_of(text), wanted) << c << size;
      ScriptCounter written;
      const char* const end = text.data() + size;
      const char* const read = written.add_written(text.data(), end);
      wanted[static_cast<std::size_t>(script)] = static_cast<std::uint64_t>(read - text.data());
      ASSERT_EQ(written.counts(), wanted) << c << size;
      ASSERT_LT(end - read, 64);
    }
  }
}

TEST(ScriptCounter, CountsEachCharacterWhereverItLiesInABlock) {
  for (int c = 0; c < 0x80; ++c) {
    for (std::size_t at = 0; at < 40; ++at) {
      std::string text(40, 'a');
      text[at] = static_cast<char>(c);
      Counts wanted{};
      wanted[static_cast<std::size_t>(Script::letters)] = 39;
      ++wanted[static_cast<std::size_t>(script_of(static_cast<char32_t>(c)))];
      ASSERT_EQ(counts_of(text), wanted) << c << " at " << at;
    }
  }
}

}  // namespace
}  // namespace weir::metrics::wire
