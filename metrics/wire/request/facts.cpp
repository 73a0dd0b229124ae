#include "metrics/wire/request/facts.hpp"

#include <algorithm>
#include <bit>
#include <experimental/simd>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

namespace {

constexpr Script ascii_script(unsigned char c) {
  if (c >= '0' && c <= '9') return Script::digits;
  const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
  return letter || blank ? Script::letters : Script::punctuation;
}

struct Block {
  char32_t first;  // The block reaches up to the next block's first.
  Script script;
};

/// The Unicode blocks above ASCII, joined where a tokenizer spends about the same on them.
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
    {0xFB10, Script::abjad_indic_thai},  // Armenian, Hebrew and Arabic forms
    {0xFE00, Script::other},             // Variation selectors
    {0xFE30, Script::cjk},               // Compatibility forms
    {0xFE70, Script::abjad_indic_thai},  //
    {0xFF00, Script::cjk},               // Halfwidth and fullwidth forms
    {0xFFF0, Script::other},             // Specials, ancient scripts, emoji
    {0x20000, Script::cjk},              // Ideographs, extensions B and on
    {0x40000, Script::other},            //
};

constexpr Script script_by_block(char32_t code_point) {
  const auto* const behind = std::upper_bound(std::begin(blocks), std::end(blocks), code_point,
                                              [](char32_t wanted, const Block& block) { return wanted < block.first; });
  return (behind - 1)->script;
}

/// An entry stands for 16 code points of the basic plane: no block begins or ends within one.
constexpr auto scripts_of_16 = [] {
  std::array<Script, 0x1000> table{};
  for (std::size_t i = 0x8; i < table.size(); ++i) table[i] = script_by_block(static_cast<char32_t>(i << 4));
  return table;
}();
static_assert(std::ranges::all_of(blocks, [](const Block& block) { return block.first % 16 == 0; }));

namespace simd = std::experimental;

/// ASCII has no sign, and signed bytes are compared by one instruction.
using Bytes = simd::native_simd<signed char>;
constexpr std::ptrdiff_t block = Bytes::size();

Bytes load(const unsigned char* at) { return {reinterpret_cast<const signed char*>(at), simd::element_aligned}; }

auto lie_within(const Bytes& bytes, char first, char last) {
  constexpr int most = 127;  // All up to `last` are moved there, and what is above becomes negative.
  return bytes + static_cast<signed char>(most - last) > static_cast<signed char>(most - (last - first) - 1);
}

std::uint64_t sum_of(const Bytes& counts) {
  using Wide = simd::fixed_size_simd<short, Bytes::size()>;
  return static_cast<std::uint64_t>(simd::reduce(simd::static_simd_cast<Wide>(counts)));
}

/// Returns a bit for each byte of a block.
std::uint64_t bits_of(const Bytes::mask_type& mask) { return mask.__to_bitset().to_ullong(); }

/// True if a backslash and this letter stand for a character of the letter's own class.
bool keeps_its_class(char letter) { return undone_letter(letter) != 0 && letter != 'b'; }

/// So many bytes are counted one by one before the next attempt to count whole blocks.
constexpr std::ptrdiff_t stride = 32;

// The classes lie side by side in one register, eight bits each: a counter in memory costs several times as much.
static_assert(script_count <= 8 && stride < 0x100, "a ninth class of script needs a wider counter");
constexpr std::uint64_t packed(Script script) { return std::uint64_t{1} << (8 * static_cast<unsigned>(script)); }
constexpr auto packed_ascii = [] {
  std::array<std::uint64_t, 0x80> table{};
  for (unsigned c = 0; c < table.size(); ++c) table[c] = packed(ascii_script(static_cast<unsigned char>(c)));
  return table;
}();

/// Returns how many bytes follow the first of a code point above ASCII.
unsigned bytes_behind(unsigned char lead) {
  return static_cast<unsigned>(code_point_size(static_cast<char>(lead)) - 1);
}

}  // namespace

Script script_of(char32_t code_point) {
  if (code_point < 0x80) return ascii_script(static_cast<unsigned char>(code_point));
  return code_point < 0x10000 ? scripts_of_16[code_point >> 4] : script_by_block(code_point);
}

/// Counts blocks of ASCII, with a counter for each place in a block.
class ScriptCounter::Ascii {
 public:
  explicit Ascii(ScriptCounter& sum) : sum_(sum) {}
  Ascii(const Ascii&) = delete;
  Ascii& operator=(const Ascii&) = delete;
  ~Ascii() { add_up(); }

  /// Counts the first bytes of a block.
  void add(const Bytes& bytes, std::ptrdiff_t size = block) {
    if (size == block) return add(bytes, size, Bytes::mask_type(true));
    add(bytes, size, places() < static_cast<signed char>(size));
  }
  /// Counts whole blocks, and returns where the first one with other bytes begins, or less than a block is left.
  const unsigned char* add_blocks(const unsigned char* at, const unsigned char* end) {
    while (end - at >= block) {
      if (blocks_ == most_blocks) add_up();
      const auto* const begin = at;
      const auto* const stop = at + std::min<std::ptrdiff_t>((end - at) / block, most_blocks - blocks_) * block;
      for (Bytes bytes; at != stop && !simd::any_of((bytes = load(at)) < 0); at += block)
        count(bytes, Bytes::mask_type(true));
      size_ += static_cast<std::uint64_t>(at - begin);
      blocks_ += static_cast<int>((at - begin) / block);
      if (at != stop) break;
    }
    return at;
  }
  /// Counts the last bytes of a block.
  void add_last(const Bytes& bytes, std::ptrdiff_t size) {
    add(bytes, size, places() >= static_cast<signed char>(block - size));
  }

 private:
  static Bytes places() {
    return Bytes([](auto place) { return static_cast<signed char>(place); });
  }
  static constexpr int most_blocks = 127;  // A counter holds no more.

  void add(const Bytes& bytes, std::ptrdiff_t size, const Bytes::mask_type& counted) {
    if (blocks_ == most_blocks) add_up();
    ++blocks_;
    size_ += static_cast<std::uint64_t>(size);
    count(bytes, counted);
  }
  void count(const Bytes& bytes, const Bytes::mask_type& counted) {
    const auto letter = lie_within(bytes | ' ', 'a', 'z');
    const auto blank = lie_within(bytes, '\t', '\r') || bytes == ' ';
    where((letter || blank) && counted, letters_) += 1;
    where(lie_within(bytes, '0', '9') && counted, digits_) += 1;
  }
  void add_up() {
    const std::uint64_t letters = sum_of(letters_), digits = sum_of(digits_);
    sum_.count(Script::letters) += letters;
    sum_.count(Script::digits) += digits;
    sum_.count(Script::punctuation) += size_ - letters - digits;
    letters_ = digits_ = 0;
    size_ = 0;
    blocks_ = 0;
  }

  ScriptCounter& sum_;
  Bytes letters_ = 0, digits_ = 0;
  std::uint64_t size_ = 0;
  int blocks_ = 0;
};

/// Counts blocks of ASCII, and returns where the first one with another byte begins. Less than a block by itself stays.
const unsigned char* ScriptCounter::add_ascii(const unsigned char* at, const unsigned char* end) {
  if (end - at < block || simd::any_of(load(at) < 0)) return at;
  Ascii ascii(*this);
  at = ascii.add_blocks(at, end);
  if (at == end || end - at >= block) return at;
  // The last block overlaps the one before.
  const Bytes bytes = load(end - block);
  if (simd::any_of(bytes < 0)) return at;
  ascii.add_last(bytes, end - at);
  return end;
}

const char* ScriptCounter::add_written(const char* at, const char* end) {
  std::uint64_t escapes = 0;
  Ascii ascii(*this);
  while (end - at >= block) {
    const Bytes bytes = load(reinterpret_cast<const unsigned char*>(at));
    // As in wire/json/text.hpp; of signed bytes, all but ASCII lies below the blank, too.
    std::uint64_t stops = bits_of((bytes ^ ('"' ^ ' ')) <= ' ' || bytes == '\\');
    std::ptrdiff_t size = block;
    for (; stops != 0; ++escapes) {
      const int stop = std::countr_zero(stops);
      if (stop + 1 == block || at[stop] != '\\' || !keeps_its_class(at[stop + 1])) {
        size = stop;
        break;
      }
      stops &= ~(std::uint64_t{3} << stop);
    }
    if (size == 0) break;
    ascii.add(bytes, size);
    at += size;
  }
  count(Script::punctuation) -= escapes;  // The backslashes are counted with the rest.
  return at;
}

void ScriptCounter::add(std::string_view piece) {
  const auto* at = reinterpret_cast<const unsigned char*>(piece.data());
  const auto* const end = at + piece.size();
  while (at != end) {
    at = add_ascii(at, end);
    std::uint64_t sums = 0;
    const auto* const stop = at + std::min(end - at, stride);
    while (at < stop) {
      const unsigned char c = *at;
      if (c < 0x80) {
        sums += packed_ascii[c];
        ++at;
      } else if (c >= 0xC0 && end - at > bytes_behind(c)) {
        const unsigned behind = bytes_behind(c);
        char32_t code_point = c & (0x3FU >> behind);
        for (unsigned i = 1; i <= behind; ++i) code_point = (code_point << 6) | (at[i] & 0x3FU);
        sums += packed(script_of(code_point));
        at += behind + 1;
      } else {
        add_cut(*at++);
      }
    }
    for (std::size_t i = 0; i < script_count; ++i) counts_[i] += (sums >> (8 * i)) & 0xFF;
  }
}

void ScriptCounter::add_cut(unsigned char c) {
  if (c >= 0xC0) {
    bytes_missing_ = bytes_behind(c);
    unfinished_ = c & (0x3FU >> bytes_missing_);
  } else if (bytes_missing_ > 0) {
    unfinished_ = (unfinished_ << 6) | (c & 0x3FU);
    if (--bytes_missing_ == 0) ++count(script_of(unfinished_));
  }
}

}  // namespace weir::metrics::wire
