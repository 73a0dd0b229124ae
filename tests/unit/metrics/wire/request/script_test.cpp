#include "metrics/wire/request/script.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

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

}  // namespace
}  // namespace weir::metrics::wire
