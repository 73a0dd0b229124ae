#include "metrics/wire/dialects/request_members.hpp"

#include <algorithm>
#include <array>

namespace weir::metrics::wire {

namespace {

constexpr unsigned bit(Api api) { return 1U << static_cast<unsigned>(api); }

constexpr unsigned chat = bit(Api::openai_chat);
constexpr unsigned completions = bit(Api::openai_completions);
constexpr unsigned responses = bit(Api::openai_responses);
constexpr unsigned anthropic = bit(Api::anthropic_messages);
constexpr unsigned generate = bit(Api::tgi_generate) | bit(Api::sglang_generate);  // One path.
constexpr unsigned llamacpp = bit(Api::llamacpp_completion);
constexpr unsigned kobold = bit(Api::kobold_generate);
constexpr unsigned ollama_chat = bit(Api::ollama_chat);
constexpr unsigned ollama_generate = bit(Api::ollama_generate);
constexpr unsigned ollama = ollama_chat | ollama_generate;
constexpr unsigned every = ~0U;

using Place = RequestPlace;
using From = RequestSource;

constexpr std::size_t place_count = static_cast<std::size_t>(Place::tool_tree) + 1;
constexpr RequestMember nothing{Place::ignored, "", Place::ignored, every};

/// In the order of RequestPlace.
constexpr RequestMember members[] = {
    {Place::root, "model", Place::model, every},
    {Place::root, "stream", Place::stream, every & ~kobold},
    {Place::root, "stream_options", Place::stream_options, chat | completions},
    {Place::root, "timings_per_token", Place::timings_per_token, chat | completions},
    {Place::root, "previous_response_id", Place::stored_context, responses},
    {Place::root, "conversation", Place::stored_context, responses},

    {Place::root, "max_tokens", Place::max_tokens, chat | completions | anthropic | llamacpp},
    {Place::root, "max_completion_tokens", Place::preferred_max_tokens, chat},
    {Place::root, "max_output_tokens", Place::max_tokens, responses},
    {Place::root, "n_predict", Place::preferred_max_tokens, llamacpp},
    {Place::root, "max_length", Place::max_tokens, kobold},
    {Place::root, "n", Place::n, chat | completions | llamacpp | kobold},
    {Place::root, "n_cmpl", Place::n, llamacpp},
    {Place::root, "temperature", Place::temperature, chat | completions | responses | anthropic | llamacpp | kobold},

    {Place::root, "messages", Place::messages, chat | anthropic | ollama_chat},
    {Place::root, "input", Place::messages, responses},
    {Place::root, "tools", Place::tools, chat | responses | anthropic | ollama_chat, From::tools},
    {Place::root, "functions", Place::tools, chat, From::tools},
    {Place::root, "system", Place::system, chat | anthropic | ollama_generate, From::system},
    {Place::root, "instructions", Place::system, responses, From::system},
    {Place::root, "prompt", Place::prompt, completions | llamacpp | kobold | ollama_generate},
    {Place::root, "memory", Place::text, kobold, From::system},
    {Place::root, "suffix", Place::text, completions | ollama_generate, From::suffix},
    {Place::root, "context", Place::token_ids, ollama_generate, From::context},
    {Place::root, "images", Place::images, kobold | ollama_generate, From::images},

    {Place::root, "inputs", Place::text, generate},
    {Place::root, "parameters", Place::options, generate},
    {Place::root, "text", Place::prompt, generate, From::text},
    {Place::root, "input_ids", Place::prompt, generate, From::input_ids},
    {Place::root, "image_data", Place::images, generate, From::sglang_images},
    {Place::root, "sampling_params", Place::sampling_params, generate},
    {Place::root, "options", Place::options, ollama},

    {Place::stream_options, "include_usage", Place::include_usage, every},

    {Place::options, "max_new_tokens", Place::max_tokens, generate},
    {Place::options, "best_of", Place::n, generate},
    {Place::options, "do_sample", Place::do_sample, generate},
    {Place::options, "top_k", Place::top_k, generate},
    {Place::options, "top_p", Place::top_p, generate},
    {Place::options, "typical_p", Place::typical_p, generate},
    {Place::options, "temperature", Place::temperature, every},
    {Place::options, "num_predict", Place::max_tokens, ollama},

    {Place::sampling_params, "max_new_tokens", Place::max_tokens, every},
    {Place::sampling_params, "n", Place::n, every},
    {Place::sampling_params, "temperature", Place::temperature, every},

    {Place::part, "text", Place::text, every},
    {Place::part, "refusal", Place::text, every},
    {Place::part, "thinking", Place::text, every},
    {Place::part, "name", Place::text, anthropic},
    {Place::part, "input", Place::text_tree, anthropic},
    {Place::part, "content", Place::content, anthropic},

    {Place::message, "content", Place::content, every},
    {Place::message, "reasoning_content", Place::text, chat},
    {Place::message, "reasoning", Place::text, chat},
    {Place::message, "thinking", Place::text, ollama_chat},
    {Place::message, "tool_calls", Place::text_tree, every},
    {Place::message, "function_call", Place::text_tree, chat},
    {Place::message, "images", Place::images, ollama_chat},
    // Items of the Responses API that are no messages.
    {Place::message, "name", Place::text, responses},
    {Place::message, "arguments", Place::text, responses},
    {Place::message, "output", Place::content, responses},
    {Place::message, "summary", Place::content, responses},

    // llama.cpp's prompt with images: an object.
    {Place::prompt, "prompt_string", Place::text, llamacpp},
    {Place::prompt, "multimodal_data", Place::images, llamacpp},
};

/// Where the members of each place begin, and behind the last place the end: a key is looked for among few.
constexpr auto first_of = [] {
  std::array<std::uint8_t, place_count + 1> first{};
  for (const RequestMember& member : members) ++first[static_cast<std::size_t>(member.in) + 1];
  for (std::size_t i = 1; i < first.size(); ++i) first[i] = static_cast<std::uint8_t>(first[i] + first[i - 1]);
  return first;
}();
static_assert(std::ranges::is_sorted(members, {}, &RequestMember::in));

}  // namespace

const RequestMember& member_of(Place in, std::string_view key, Api api) {
  const auto place = static_cast<std::size_t>(in);
  for (std::size_t i = first_of[place]; i < first_of[place + 1]; ++i) {
    if (members[i].key == key && (members[i].apis & bit(api)) != 0) return members[i];
  }
  return nothing;
}

}  // namespace weir::metrics::wire
