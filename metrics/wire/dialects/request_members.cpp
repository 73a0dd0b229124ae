#include "metrics/wire/dialects/request_members.hpp"

#include <vector>

#include "metrics/wire/dialects/table.hpp"

namespace weir::metrics::wire {

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
    {Place::root, "add_special_tokens", Place::seed_tree},         // The prompt begins with them.
    {Place::root, "prompt_logprobs", Place::whole_prompt},         // vLLM's.
    {Place::root, "truncate_prompt_tokens", Place::whole_prompt},  // vLLM's.
    {Place::root, "cache_prompt", Place::cache_prompt},            // llama.cpp's.
};

RequestMembers members_of(const Dialect& dialect) {
  std::vector<RequestMember> all(dialect.request_members.begin(), dialect.request_members.end());
  all.insert(all.end(), std::begin(common), std::end(common));
  return RequestMembers(std::move(all));
}

std::vector<RequestMembers> by_api() {
  std::vector<RequestMembers> all;
  for (const Dialect* dialect : dialects::all) all.push_back(members_of(*dialect));
  return all;
}

}  // namespace

const RequestMembers& request_members(Api api) {
  static const std::vector<RequestMembers> all = by_api();
  return all[static_cast<std::size_t>(api)];
}

}  // namespace weir::metrics::wire
