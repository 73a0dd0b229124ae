// Text for the lab: words for prompts, tokens for answers, and a tokenizer with which both sides can count.
//
// The tokenizer is no engine's. It is a fixed rule that gives about four characters a token on English prose, so that
// numbers of tokens are known without a vocabulary file. Real tokenizers differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/engine/random.hpp"

namespace weir::lab::engine {

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
