// What a request's body has said, once it is whole.
#include <algorithm>
#include <limits>

#include "metrics/wire/request/reader.hpp"

namespace weir::metrics::wire {

namespace {

/// Without a code point that the limit has cut.
std::string whole_code_points(std::string text) {
  std::size_t lead = text.size();
  while (lead > 0 && (static_cast<unsigned char>(text[lead - 1]) & 0xC0) == 0x80) --lead;
  if (lead == 0) return text;
  const auto first = static_cast<unsigned char>(text[lead - 1]);
  const std::size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (text.size() - (lead - 1) < wanted) text.resize(lead - 1);
  return text;
}

}  // namespace

/// TGI samples as soon as anything is asked for that only sampling knows; others where there is a temperature.
bool RequestReader::Sampling::greedy(Api api) const {
  if (api != Api::tgi_generate) return temperature && *temperature <= 0;
  return !do_sample && temperature.value_or(1) == 1 && !top_k && !top_p && !typical_p;
}

/// Of the two that share /generate, by what is asked: TGI's has `inputs`.
Api RequestReader::spoken() const {
  if (api_ != Api::tgi_generate || source(From::prompt).begun) return api_;
  return source(From::text).begun || source(From::input_ids).begun ? Api::sglang_generate : api_;
}

void RequestReader::fill(RequestFacts& facts) const {
  facts.api = spoken();
  const bool ollama = facts.api == Api::ollama_chat || facts.api == Api::ollama_generate;
  if (facts.api != Api::tgi_generate || stream_in_body_) facts.stream |= stream_.value_or(ollama);
  facts.model = whole_code_points(model_);
  facts.tools = tools_;
  facts.stored_context = stored_context_;
  facts.usage_requested = usage_requested_;
  facts.stream_options = stream_options_;
  facts.token_timings = token_timings_;
  facts.empty_object = empty_;
  facts.text.tool_bytes = tool_bytes_;

  std::uint64_t prompts = 0;
  std::uint64_t token_ids = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const bool sglang = static_cast<From>(i) >= From::sglang_images;
    if (sglang && facts.api == Api::tgi_generate) continue;
    const Source& one = sources_[i];
    prompts += one.prompts();
    token_ids += one.token_ids;
    facts.images += one.images;
    facts.text.messages += one.messages;
    for (std::size_t s = 0; s < script_count; ++s) facts.text.code_points[s] += one.scripts.counts()[s];
  }
  if (token_ids > 0) facts.prompt_token_ids = token_ids;

  const Sampling& sampling = facts.api == Api::sglang_generate ? sglang_ : sampling_;
  facts.max_tokens = sampling.preferred_max_tokens ? sampling.preferred_max_tokens : sampling.max_tokens;
  if (facts.max_tokens > most_tokens) facts.max_tokens.reset();  // No limit at all.
  facts.greedy = sampling.greedy(facts.api);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t n = std::clamp<std::uint64_t>(sampling.n.value_or(1), 1, most);
  facts.prompts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(prompts, 1, most));
  facts.n = static_cast<std::uint32_t>(std::min(n * facts.prompts, most));
}

}  // namespace weir::metrics::wire
