#include "metrics/wire/script.hpp"

#include <algorithm>

namespace weir::metrics::wire {

namespace {

constexpr std::size_t at(Script script) { return static_cast<std::size_t>(script); }

constexpr Script ascii_script(unsigned char c) {
  if (c >= '0' && c <= '9') return Script::digits;
  const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
  return letter || blank ? Script::letters : Script::punctuation;
}

constexpr auto ascii = [] {
  std::array<std::uint8_t, 128> table{};
  for (unsigned c = 0; c < table.size(); ++c)
    table[c] = static_cast<std::uint8_t>(ascii_script(static_cast<unsigned char>(c)));
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
  if (code_point < 0x80) return static_cast<Script>(ascii[code_point]);
  const auto* const behind = std::upper_bound(std::begin(blocks), std::end(blocks), code_point,
                                              [](char32_t wanted, const Block& block) { return wanted < block.first; });
  return (behind - 1)->script;
}

void ScriptCounter::add(std::string_view piece) {
  for (const char byte : piece) {
    const auto c = static_cast<unsigned char>(byte);
    if (c < 0x80) {
      ++counts_[ascii[c]];
    } else if (c >= 0xC0) {
      bytes_missing_ = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
      unfinished_ = c & (0x3FU >> bytes_missing_);
    } else if (bytes_missing_ > 0) {
      unfinished_ = (unfinished_ << 6) | (c & 0x3FU);
      if (--bytes_missing_ == 0) ++counts_[at(script_of(unfinished_))];
    }
  }
}

}  // namespace weir::metrics::wire
