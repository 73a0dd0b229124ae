// A request log of a simulated run, whose truth is known.
#pragma once

#include <algorithm>
#include <cstdio>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lab/plan/simulation.hpp"
#include "metrics/wire/json/writer.hpp"
#include "metrics/wire/request/prefix_chain.hpp"

namespace weir::lab::forecast {

inline std::string wall_clock(double seconds) {
  const auto micros = static_cast<long long>(seconds * 1e6 + 0.5);
  char text[40];
  std::snprintf(text, sizeof text, "2026-01-01T%02lld:%02lld:%02lld.%06lldZ", micros / 3'600'000'000 % 24,
                micros / 60'000'000 % 60, micros / 1'000'000 % 60, micros % 1'000'000);
  return text;
}

/// Writes the lines as weir does, in the order in which requests ended. Conversations of several turns have groups, and
/// with `prefixes` lines have the marks of their prompts.
inline std::string log_of(std::span<const plan::TracedRequest> requests, const plan::Results& results,
                          bool prefixes = false) {
  std::vector<std::pair<double, std::string>> lines;
  std::vector<std::uint64_t> turns(requests.size(), 1);
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    const plan::Served& served = results.requests[i];
    if (requests[i].parent) turns[i] = turns[*requests[i].parent] + 1;
    if (!served.ttft) continue;
    const auto after_first = static_cast<double>(requests[i].output_tokens - 1);
    const double queue = served.asked_at.back() - served.arrived;
    const double e2e = *served.ttft + served.tpot.value_or(0) * after_first;
    metrics::wire::JsonWriter line;
    line.open('{').key("v").count(1).key("time").text(wall_clock(served.arrived));
    line.key("role").text("primary").key("api").text("openai.chat").key("pool").text("chat");
    line.key("replica").text("gpu" + std::to_string(served.asked.back()));
    line.key("outcome").text("ok").key("served").boolean(true).key("max_tokens").count(1024);
    line.key("prompt_tokens").count(requests[i].prompt_tokens).key("cached_tokens").count(served.cached_tokens);
    line.key("output_tokens").count(requests[i].output_tokens);
    line.key("queue_s").fixed(queue, 6).key("ttft_s").fixed(*served.ttft - queue, 6);
    line.key("tpot_s").fixed(served.tpot, 6).key("e2e_s").fixed(e2e, 6);
    if (prefixes && requests[i].prefix) {
      line.key("prefixes").open('[');
      for (const auto& mark : metrics::wire::marks_of(*requests[i].prefix, {1, 2}))
        line.open('[').count(mark.position).count(std::uint64_t{mark.key}).close(']');
      line.close(']');
    }
    char group[20];
    std::snprintf(group, sizeof group, "%016llx", static_cast<unsigned long long>(requests[i].session));
    line.key("group").known_text(requests[i].session == 0 ? "" : group).key("turn").count(turns[i]).close('}');
    lines.emplace_back(served.arrived + e2e, line.written());
  }
  std::ranges::stable_sort(lines, {}, &std::pair<double, std::string>::first);
  std::string log;
  for (const auto& [ended, line] : lines) log += line + '\n';
  return log;
}

}  // namespace weir::lab::forecast
