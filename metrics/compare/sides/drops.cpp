#include "metrics/compare/sides/drops.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::metrics::compare::sides {
namespace {

/// The names are those of metrics::series::mirrored_names.
constexpr std::pair<std::string_view, std::string_view> helps[]{
    {"max_in_flight", "Raise max_in_flight of the [[shadow]], or give it a smaller share with sample."},
    {"max_queued_tokens", "Raise max_queued_tokens of the [[shadow]], or give it a smaller share with sample."},
    {"busy", "The shadow's replicas are full: add one, or give the [[shadow]] a smaller share with sample."},
    {"down", "No replica of the shadow is up: see weir status."},
    {"primary_waits", "Requests wait in the primary's pool: add replicas there, or mirror at a quieter time."},
    {"loop_late", "A stream loop of weir was late: give weir more CPU, or mirror at a quieter time."},
    {"behind", "weir has too little CPU to mirror: give it more, or give the [[shadow]] a smaller share with sample."},
    {"client_left", "Clients leave before their requests are sent."},
    {"cannot_set", "Requests have a member of the shadow's set twice, or with escapes: take it out of set."},
    {"draining", "weir was draining."},
    {"buffer_memory", "Raise limits.buffer_memory."},
};

std::vector<std::pair<std::string_view, std::uint64_t>> by_number(const Drops& drops) {
  std::vector<std::pair<std::string_view, std::uint64_t>> sorted(drops.begin(), drops.end());
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& one) { return one.second; });
  return sorted;
}

}  // namespace

std::string counts_text(const Drops& drops) {
  const auto sorted = by_number(drops);
  const auto all = std::accumulate(sorted.begin(), sorted.end(), std::uint64_t{0},
                                   [](std::uint64_t sum, const auto& one) { return sum + one.second; });
  std::string text = std::to_string(all) + (all == 1 ? " request" : " requests");
  std::string_view before = ": ";
  for (const auto& [reason, number] : sorted) {
    text.append(before).append(reason).append(" ").append(std::to_string(number));
    before = ", ";
  }
  return text;
}

std::string help_against(const Drops& drops) {
  if (drops.empty()) return {};
  const auto found = std::ranges::find(helps, by_number(drops).front().first,
                                       &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(helps) ? std::string() : std::string(found->second);
}

}  // namespace weir::metrics::compare::sides
