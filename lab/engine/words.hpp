// Text for the lab: words for prompts, tokens for answers, and a tokenizer with which both sides can count.
//
// The tokenizer is no engine's. It is a fixed rule that gives about four characters a token on English prose, so that
// numbers of tokens are known without a vocabulary file. Real tokenizers differ.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

namespace weir::lab::engine {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Returns a number in [0, n), n > 0. The bias of the remainder is below n / 2^64.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// Returns a normal number with mean 0 and deviation 1 (Box and Muller; the second value is discarded).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Returns an exponential number with mean 1.
  double exponential() { return -std::log(1.0 - uniform()); }

 private:
  std::uint64_t state_;
};

/// Counts the tokens of a text. A run of Latin letters counts one for each five begun; a run of digits one for each
/// three begun; a run of another alphabet one for each two begun. CJK and punctuation count one each, an emoji two. A
/// run of more than one blank, or a line break, counts one; a single space is part of the word behind it. Bytes that
/// are no UTF-8 count one each.
std::uint64_t count_tokens(std::string_view text);

/// Cuts a text into count_tokens() pieces, which together are the text. A single space goes with the piece behind it.
std::vector<std::string_view> pieces_of(std::string_view text);

/// Returns a text of words and sentences that count_tokens() counts as exactly `tokens`.
std::string prompt_text(std::uint64_t tokens, Random& random);

/// Returns the `index`-th token of the answer named by `seed`, as it stands between the quotes of a JSON string. It is
/// never empty. Tokens are words and punctuation, and some are not ASCII.
std::string_view answer_token(std::uint64_t seed, std::uint64_t index);

}  // namespace weir::lab::engine
