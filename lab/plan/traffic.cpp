#include "lab/plan/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lab/engine/words.hpp"
#include "lab/load/workload.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::lab::plan {

std::vector<TraceEntry> read_trace_file(const std::string& path) {
  auto trace = load::read_trace_file(path);
  if (trace.size() < 100 || trace.back().at <= 0)
    throw std::runtime_error(path + ": arrivals need 100 entries that are not all of one moment");
  return trace;
}

std::vector<TraceEntry> part_of(std::span<const TraceEntry> trace, std::size_t count, std::size_t first) {
  const double turn = trace.back().at * static_cast<double>(trace.size()) / static_cast<double>(trace.size() - 1);
  std::vector<TraceEntry> part(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = first + i, turns = place / trace.size();
    part[i] = trace[place % trace.size()];
    part[i].at += turn * static_cast<double>(turns);
  }
  return part;
}

std::vector<TracedRequest> requests_of(std::span<const TraceEntry> trace, std::size_t count, std::uint64_t seed,
                                       double text_spread, bool in_order) {
  engine::Random random(seed);
  const std::size_t drawn = random.below(trace.size());
  const std::size_t first = in_order ? 0 : drawn;
  const auto part = part_of(trace, count, first);
  std::vector<TracedRequest> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    const TraceEntry& entry = part[i];
    TracedRequest& request = requests[i];
    request.at = entry.at - trace[first].at;
    request.prompt_tokens = entry.prompt_tokens;
    request.output_tokens = entry.output_tokens;
    const double written = static_cast<double>(entry.prompt_tokens) / 1.5 * std::exp(text_spread * random.normal());
    const auto words = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(written)));
    const std::string text = engine::prompt_text(words, random);
    const std::string body = load::request_body(load::Api::chat, "sim-7b", {&text, 1}, {1024, true});
    metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions");
    inspector.feed(body);
    request.facts = std::make_shared<const metrics::wire::RequestFacts>(inspector.finish());
  }
  return requests;
}

double rate_of(std::span<const TracedRequest> requests) {
  const auto last = std::ranges::find_if(requests.rbegin(), requests.rend(), [](const auto& r) { return !r.parent; });
  const double seconds = last->at - requests.front().at;
  return seconds > 0 ? static_cast<double>(requests.size() - 1) / seconds : 1;
}

double capacity_of(std::span<const engine::EngineSettings> engines, std::span<const TracedRequest> requests) {
  double sum = 0;
  for (const auto& settings : engines) sum += capacity_of(settings, requests);
  return sum;
}

}  // namespace weir::lab::plan
