// Text for the lab: words to make prompts of, tokens to answer with, and a tokenizer that both sides can count with.
//
// The tokenizer is no engine's: a fixed rule that gives about four characters a token on English prose, so that numbers
// of tokens are known without a vocabulary file. Real tokenizers differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lab/engine/random.hpp"

namespace weir::lab::engine {

/// Tokens of a text: a run of Latin letters counts one for each five begun, of digits one for each three begun, of
/// other alphabets one for each two begun; CJK and punctuation one each; emoji two; a run of more than one blank, or a
/// line break, one. A single space is part of the word behind it. Bytes that are no UTF-8 count one each.
std::uint64_t count_tokens(std::string_view text);

/// Lower-case English words without punctuation.
std::span<const std::string_view> prompt_words();

/// A text of words and sentences that count_tokens() counts as exactly `tokens`.
std::string prompt_text(std::uint64_t tokens, Random& random);

/// One token of an answer, as text and as it stands between the quotes of a JSON string.
struct AnswerToken {
  std::string_view text;
  std::string_view json;
};

/// The `index`-th token of the answer named by `seed`: words, punctuation, some of them not ASCII. Never empty.
AnswerToken answer_token(std::uint64_t seed, std::uint64_t index);

}  // namespace weir::lab::engine
