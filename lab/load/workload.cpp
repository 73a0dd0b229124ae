#include "lab/load/workload.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <utility>

#include "lab/engine/words.hpp"

namespace weir::lab::load {

Workload::Workload(WorkloadSettings settings)
    : settings_(std::move(settings)), lengths_(settings_.seed), arrivals_(~settings_.seed) {}

/// Draws a normal number. Values below one token are drawn again, as LLMPerf does.
std::uint64_t Workload::draw(double mean, double stddev) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const double drawn = std::round(mean + stddev * lengths_.normal());
    if (drawn >= 1) return static_cast<std::uint64_t>(drawn);
  }
  return 1;
}

std::optional<Planned> Workload::next() {
  Planned planned;
  planned.number = count_++;
  const auto& trace = settings_.trace;
  if (trace.empty()) {
    planned.prompt_tokens = draw(settings_.input_tokens, settings_.input_stddev);
    planned.output_tokens = draw(settings_.output_tokens, settings_.output_stddev);
  } else {
    if (settings_.trace_arrivals && planned.number >= trace.size()) return std::nullopt;
    const TraceEntry& entry = trace[planned.number % trace.size()];
    planned.prompt_tokens = entry.prompt_tokens;
    planned.output_tokens = entry.output_tokens;
    if (settings_.trace_arrivals) planned.at = entry.at / settings_.trace_speed;
  }
  if (settings_.rate) planned.at = at_ += arrivals_.exponential() / *settings_.rate;
  return planned;
}

std::string Workload::prompt(const Planned& planned) const {
  engine::Random random(settings_.seed * 0x9e3779b97f4a7c15u + planned.number);
  return engine::prompt_text(planned.prompt_tokens, random);
}

std::string_view path_of(Api api) {
  switch (api) {
    case Api::chat:
      return "/v1/chat/completions";
    case Api::completions:
      return "/v1/completions";
    case Api::tgi:
      return "/generate_stream";
  }
  return "";
}

std::string request_body(Api api, std::string_view model, std::string_view prompt, std::uint64_t max_tokens,
                         bool usage) {
  boost::json::object body;
  if (api == Api::tgi) {
    body["inputs"] = prompt;
    body["parameters"] = boost::json::object{{"max_new_tokens", max_tokens}, {"details", usage}};
    return boost::json::serialize(body);
  }
  if (!model.empty()) body["model"] = model;
  if (api == Api::chat) {
    body["messages"] = boost::json::array{boost::json::object{{"role", "user"}, {"content", prompt}}};
  } else {
    body["prompt"] = prompt;
  }
  body["max_tokens"] = max_tokens;
  body["stream"] = true;
  if (usage) body["stream_options"] = boost::json::object{{"include_usage", true}};
  return boost::json::serialize(body);
}

}  // namespace weir::lab::load
