#include "metrics/wire/dialects/members.hpp"

#include <string_view>
#include <vector>

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire {

namespace {

AnswerMembers of_all_dialects() {
  std::vector<AnswerMember> all{{AnswerPlace::root, "error", AnswerPlace::error}};
  for (const Dialect* dialect : dialects::all) {
    all.insert(all.end(), dialect->answer_members.begin(), dialect->answer_members.end());
    for (const AnswerFigures& figures : dialect->answer_figures) {
      for (const FigureMember& figure : figures.members)
        all.push_back({figures.in, figure.key, AnswerPlace::number, nullptr, &figure});
    }
  }
  return AnswerMembers(std::move(all));
}

}  // namespace

const AnswerMembers& answer_members() {
  static const AnswerMembers all = of_all_dialects();
  return all;
}

namespace {

using Place = RequestPlace;

/// Every dialect has these members by these names.
constexpr RequestMember common[] = {
    {Place::root, "model", Place::model},
    {Place::root, "stream", Place::stream},
    {Place::part, "text", Place::text},
    {Place::part, "refusal", Place::text},
    {Place::part, "thinking", Place::text},
    {Place::message, "content", Place::content},
    {Place::message, "role", Place::role},
    {Place::message, "tool_calls", Place::text_tree},
    {Place::message, "name", Place::label},
    {Place::message, "tool_call_id", Place::label},
    {Place::root, "cache_salt", Place::seed_tree},  // vLLM's and SGLang's.
    {Place::root, "extra_key", Place::seed_tree},   // SGLang's.
    {Place::root, "lora_path", Place::seed_tree},   // SGLang's.
    {Place::root, "lora", Place::seed_tree},        // llama.cpp's.
    {Place::root, "chat_template", Place::seed_tree},
    {Place::root, "chat_template_kwargs", Place::seed_tree},
    {Place::root, "documents", Place::seed_tree},
    {Place::root, "reasoning_effort", Place::seed_tree},
    {Place::root, "add_special_tokens", Place::seed_tree},           // The prompt begins with them.
    {Place::root, "data_parallel_rank", Place::seed_tree},           // SGLang's. Each has a cache of its own.
    named(Place::root, "id_slot", Place::seed_tree, NamedBy::slot),  // llama.cpp's. Likewise.
    named(Place::root, "session_params", Place::stored_context, NamedBy::nothing),  // SGLang's.
    named(Place::stored_context, "id", Place::ignored, NamedBy::conversation),
    named(Place::root, "input_file_id", Place::ignored, NamedBy::stored),
    named(Place::root, "user", Place::ignored, NamedBy::user),
    named(Place::root, "session_id", Place::ignored, NamedBy::session_id),
    named(Place::root, "safety_identifier", Place::ignored, NamedBy::safety_identifier),
    named(Place::root, "prompt_cache_key", Place::ignored, NamedBy::prompt_cache_key),
    {Place::root, "prompt_logprobs", Place::whole_prompt},         // vLLM's.
    {Place::root, "truncate_prompt_tokens", Place::whole_prompt},  // vLLM's.
    {Place::root, "use_beam_search", Place::whole_prompt_if},      // vLLM's, which reports no cached tokens then.
    {Place::root, "cache_prompt", Place::cache_prompt},            // llama.cpp's.
};

/// The engines render nothing of these, whatever the dialect, and many differ from request to request. A dialect that
/// reads one has it in its own table. A name that is missing here costs prompts that differ in it their common prefix.
constexpr std::string_view not_rendered[] = {
    // OpenAI's and Anthropic's.
    "best_of",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "metadata",
    "n",
    "prediction",
    "presence_penalty",
    "prompt_cache_retention",
    "seed",
    "service_tier",
    "stop",
    "stop_sequences",
    "store",
    "stream_options",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_p",
    // vLLM's and Aphrodite's.
    "allowed_token_ids",
    "bad_words",
    "early_stopping",
    "guided_choice",
    "guided_decoding_backend",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "guided_whitespace_pattern",
    "ignore_eos",
    "include_stop_str_in_output",
    "kv_transfer_params",
    "length_penalty",
    "logits_processors",
    "min_p",
    "min_tokens",
    "priority",
    "repetition_penalty",
    "request_id",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_token_ids",
    "structured_outputs",
    "vllm_xargs",
    // SGLang's.
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "custom_labels",
    "custom_logit_processor",
    "custom_params",
    "ebnf",
    "log_metrics",
    "no_stop_trim",
    "regex",
    "return_hidden_states",
    "return_logprob",
    "return_text_in_logprobs",
    "rid",
    "separate_reasoning",
    "stream_reasoning",
    "token_ids_logprob",
    "top_logprobs_num",
    // llama.cpp's.
    "dry_allowed_length",
    "dry_base",
    "dry_multiplier",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "dynatemp_exponent",
    "dynatemp_range",
    "grammar",
    "min_keep",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "n_discard",
    "n_indent",
    "n_keep",
    "n_predict",
    "n_probs",
    "post_sampling_probs",
    "repeat_last_n",
    "repeat_penalty",
    "response_fields",
    "return_progress",
    "return_tokens",
    "samplers",
    "t_max_predict_ms",
    "timings_per_token",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    // Ollama's and KoboldCpp's.
    "format",
    "genkey",
    "keep_alive",
    "max_length",
    "quiet",
    "rep_pen",
    "rep_pen_range",
    "rep_pen_slope",
    "sampler_order",
    "sampler_seed",
    "stop_sequence",
    "tfs",
    "top_a",
    "trim_stop",
    "typical",
};

RequestMembers members_of(const Dialect& dialect) {
  std::vector<RequestMember> all(dialect.request_members.begin(), dialect.request_members.end());
  all.insert(all.end(), std::begin(common), std::end(common));
  for (const auto name : not_rendered) all.push_back({Place::root, name, Place::ignored});
  return RequestMembers(all);
}

std::vector<RequestMembers> by_api() {
  std::vector<RequestMembers> all;
  all.reserve(std::size(dialects::all));
  for (const Dialect* dialect : dialects::all) all.push_back(members_of(*dialect));
  return all;
}

}  // namespace

const RequestMembers& request_members(Api api) {
  static const std::vector<RequestMembers> all = by_api();
  return all[static_cast<std::size_t>(api)];
}

}  // namespace weir::metrics::wire
