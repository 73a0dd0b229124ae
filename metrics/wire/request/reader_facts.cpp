// Turns what a request's body has said into facts, once the body is whole.
#include <algorithm>
#include <limits>

#include "metrics/utf8.hpp"
#include "metrics/wire/request/reader.hpp"

namespace weir::metrics::wire {

/// Returns the request's dialect: where several share its route, the members tell.
Api RequestReader::api_by_members() const {
  const auto told = dialect_of(api_).told_by_sources;
  if (told == nullptr) return api_;
  RequestSources there = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].begun) there = static_cast<RequestSources>(there | only(static_cast<From>(i)));
  }
  return told(there);
}

/// Members come in any order, so each is hashed by itself.
void RequestReader::tell_conversation(RequestFacts& facts) const {
  if (opening_.key() == nullptr) return;
  SipHash all(opening_.key()->numbers);
  all.add(facts.model);
  for (const From from : {From::system, From::prompt, From::text}) {
    if (contains(dialect_of(facts.api).foreign_sources, from)) continue;
    const auto value = from == from_ ? opening_.value() : sources_[static_cast<std::size_t>(from)].opening;
    all.add(value.has_value() ? "\xFF" : "\xFE");  // No UTF-8 has these bytes.
    all.add(value.value_or(0));
  }
  facts.conversation = all.value();
}

std::shared_ptr<const PromptPrefix> RequestReader::take_prefix(std::uint64_t seed) {
  if (!prefix_ || prefix_->chain_member() == nullptr) return nullptr;
  if (no_prefix_ || said_.stored_context) return nullptr;
  if (model_.size() == longest_model) return nullptr;  // Other models may begin so, too.
  if (sources_[static_cast<std::size_t>(From::context)].token_ids > 0) return nullptr;
  const Dialect& dialect = dialect_of(api_by_members());
  const auto prompt = static_cast<const RequestMember*>(prefix_->chain_member())->from;
  if (contains(dialect.foreign_sources, prompt)) return nullptr;
  if (sources_[static_cast<std::size_t>(prompt)].prompts() > 1) return nullptr;
  UniversalHash all(prefix_->key());
  all.add(model_);
  all.add(dialect.renders_prompt ? "\xFF" : "\xFE");  // No UTF-8 has these bytes.
  all.add(seed);
  return prefix_->take(all);
}

void RequestReader::fill(RequestFacts& facts) const {
  facts.api = api_by_members();
  const Dialect& dialect = dialect_of(facts.api);
  const Streams streams = dialect.route(route_.path).streams;
  const bool asked = stream_.value_or(streams == Streams::unless_declined);
  facts.stream = streams == Streams::always || (streams != Streams::never && asked);
  facts.model = model_.substr(0, model_.size() - cut_at_end(model_));
  facts.model_twice = models_named_ > 1;
  facts.tools = said_.tools;
  facts.stored_context = said_.stored_context;
  facts.stores = said_.stores;
  if (names_ != Names{}) facts.names = names_;
  facts.usage_requested = said_.usage_requested;
  facts.stream_options = said_.stream_options;
  facts.token_timings = said_.token_timings;
  facts.empty_object = said_.empty;
  facts.text.tool_bytes = said_.tool_bytes;

  std::uint64_t prompts = 0;
  std::uint64_t token_ids = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (contains(dialect.foreign_sources, static_cast<From>(i))) continue;
    const Source& one = sources_[i];
    if (!one.begun) continue;
    prompts += one.prompts();
    token_ids += one.token_ids;
    facts.images += one.images;
    facts.text.messages += one.messages;
    facts.user_messages = std::max(facts.user_messages, one.user_messages);
    for (std::size_t s = 0; s < script_count; ++s) facts.text.code_points[s] += one.scripts.counts()[s];
  }
  if (token_ids > 0) facts.prompt_token_ids = token_ids;
  // Ollama's context has earlier turns, as ids.
  if (said_.stored_context || sources_[static_cast<std::size_t>(From::context)].token_ids > 0) facts.user_messages = 0;
  if (facts.user_messages > 0 && token_ids == 0) tell_conversation(facts);

  const Sampling& sampling = dialect.has_sampling_params ? nested_sampling_ : sampling_;
  facts.max_tokens = sampling.preferred_max_tokens ? sampling.preferred_max_tokens : sampling.max_tokens;
  if (facts.max_tokens > most_tokens) facts.max_tokens.reset();  // Such a number is no limit.
  facts.greedy = dialect.greedy(sampling);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t n = std::clamp<std::uint64_t>(sampling.n.value_or(1), 1, most);
  facts.prompts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(prompts, 1, most));
  facts.n = static_cast<std::uint32_t>(std::min(n * facts.prompts, most));
}

}  // namespace weir::metrics::wire
