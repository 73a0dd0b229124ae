// The table of all dialects. A new dialect is a file beside this one, a word in metrics/vocabulary.hpp, and its name
// here, twice.
#pragma once

#include <array>

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire::dialects {

extern const Dialect openai_chat, openai_completions, openai_responses, anthropic_messages, tgi_generate,
    sglang_generate, llamacpp_completion, kobold_generate, ollama_chat, ollama_generate, openai_embeddings, rerank,
    score, other;

/// All dialects, in the order of Api. The first of several on a route gets it.
inline constexpr std::array<const Dialect*, api_names.size()> all{
    &openai_chat,     &openai_completions,  &openai_responses, &anthropic_messages, &tgi_generate,
    &sglang_generate, &llamacpp_completion, &kobold_generate,  &ollama_chat,        &ollama_generate,
    &openai_embeddings, &rerank, &score, &other};

}  // namespace weir::metrics::wire::dialects
