#include "metrics/wire/script.hpp"

#include <algorithm>

namespace weir::metrics::wire {

namespace {

constexpr Script ascii_script(unsigned char c) {
  if (c >= '0' && c <= '9') return Script::digits;
  const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
  return letter || blank ? Script::letters : Script::punctuation;
}

constexpr std::size_t packed_bits = 21;
constexpr std::uint64_t most_packed = (std::uint64_t{1} << packed_bits) - 1;

constexpr auto packed_ascii = [] {
  static_assert(Script::letters < Script{3} && Script::punctuation < Script{3} && Script::digits < Script{3});
  std::array<std::uint64_t, 128> table{};
  for (unsigned c = 0; c < table.size(); ++c) {
    table[c] =
        std::uint64_t{1} << (packed_bits * static_cast<std::size_t>(ascii_script(static_cast<unsigned char>(c))));
  }
  return table;
}();

struct Block {
  char32_t first;  // Up to the next block's first.
  Script script;
};

/// Unicode blocks above ASCII, joined where they cost a tokenizer about the same.
constexpr Block blocks[] = {
    {0x0080, Script::latin_extended},    // Latin-1, Latin extended, IPA, combining marks
    {0x0370, Script::cyrillic_greek},    //
    {0x0530, Script::abjad_indic_thai},  // Armenian, Hebrew, Arabic, Indic, Thai, Tibetan, Georgian
    {0x1100, Script::cjk},               // Hangul Jamo
    {0x1200, Script::abjad_indic_thai},  // Ethiopic to Vedic
    {0x1C80, Script::cyrillic_greek},    // Cyrillic extended C
    {0x1C90, Script::abjad_indic_thai},  //
    {0x1D00, Script::latin_extended},    // Phonetic, Latin extended additional
    {0x1F00, Script::cyrillic_greek},    // Greek extended
    {0x2000, Script::other},             // Punctuation, symbols, arrows, boxes
    {0x2C60, Script::latin_extended},    //
    {0x2C80, Script::cyrillic_greek},    // Coptic
    {0x2D00, Script::abjad_indic_thai},  //
    {0x2DE0, Script::cyrillic_greek},    // Cyrillic extended A
    {0x2E00, Script::other},             //
    {0x2E80, Script::cjk},               // Radicals, kana, ideographs, Yi
    {0xA4D0, Script::abjad_indic_thai},  //
    {0xA640, Script::cyrillic_greek},    //
    {0xA6A0, Script::abjad_indic_thai},  //
    {0xA720, Script::latin_extended},    //
    {0xA800, Script::abjad_indic_thai},  //
    {0xA960, Script::cjk},               // Hangul Jamo extended A
    {0xA980, Script::abjad_indic_thai},  //
    {0xAB30, Script::latin_extended},    //
    {0xAB70, Script::abjad_indic_thai},  //
    {0xAC00, Script::cjk},               // Hangul
    {0xD800, Script::other},             //
    {0xF900, Script::cjk},               // Compatibility ideographs
    {0xFB00, Script::latin_extended},    // Ligatures
    {0xFB13, Script::abjad_indic_thai},  // Armenian, Hebrew and Arabic forms
    {0xFE00, Script::other},             // Variation selectors
    {0xFE30, Script::cjk},               // Compatibility forms
    {0xFE70, Script::abjad_indic_thai},  //
    {0xFF00, Script::cjk},               // Halfwidth and fullwidth forms
    {0xFFF0, Script::other},             // Specials, ancient scripts, emoji
    {0x20000, Script::cjk},              // Ideographs, extensions B and on
    {0x40000, Script::other},            //
};

}  // namespace

Script script_of(char32_t code_point) {
  if (code_point < 0x80) return ascii_script(static_cast<unsigned char>(code_point));
  if (code_point >= 0x3000 && code_point < 0xA000) return Script::cjk;  // Most of what is not Latin.
  const auto* const behind = std::upper_bound(std::begin(blocks), std::end(blocks), code_point,
                                              [](char32_t wanted, const Block& block) { return wanted < block.first; });
  return (behind - 1)->script;
}

void ScriptCounter::add(std::string_view piece) {
  const auto* at = reinterpret_cast<const unsigned char*>(piece.data());
  const auto* const end = at + piece.size();
  while (at != end) {
    // The three classes of ASCII are summed side by side in one register: a counter in memory costs five times as much.
    std::uint64_t packed = 0;
    const auto* const stop = at + std::min<std::ptrdiff_t>(end - at, most_packed);
    while (at != stop && *at < 0x80) packed += packed_ascii[*at++];
    for (std::size_t i = 0; i < 3; ++i) counts_[i] += (packed >> (i * packed_bits)) & most_packed;
    while (at != end && *at >= 0x80) add_byte(*at++);
  }
}

void ScriptCounter::add_byte(unsigned char c) {
  if (c >= 0xC0) {
    bytes_missing_ = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    unfinished_ = c & (0x3FU >> bytes_missing_);
  } else if (bytes_missing_ > 0) {
    unfinished_ = (unfinished_ << 6) | (c & 0x3FU);
    if (--bytes_missing_ == 0) ++counts_[static_cast<std::size_t>(script_of(unfinished_))];
  }
}

}  // namespace weir::metrics::wire
