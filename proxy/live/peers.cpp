#include "proxy/live/peers.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace weir::proxy::live {
namespace {

/// Returns the median of the others' values; nothing if there are none.
std::optional<double> median_but(const std::vector<std::pair<const ReplicaNow*, double>>& all, const ReplicaNow& one) {
  std::vector<double> others;
  for (const auto& [replica, value] : all)
    if (replica != &one) others.push_back(value);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  if (others.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(others.begin(), middle)) / 2;
}

/// Replicas whose values are equal are peers of each other.
auto kind_of(const ReplicaNow& one) {
  const std::string_view config = one.config == one.name ? std::string_view() : std::string_view(one.config);
  return std::tuple(std::string_view(one.pool), std::string_view(one.shadow), config, std::string_view(one.gpu),
                    one.weight);
}

}  // namespace

void compare_with_peers(std::vector<ReplicaNow>& replicas) {
  using Values = std::vector<std::pair<const ReplicaNow*, double>>;
  struct OfKind {
    Values ttft, gap, usual;
  };
  std::map<decltype(kind_of(replicas.front())), OfKind> kinds;
  const auto is_in = [](const ReplicaNow& one) {
    return !one.leaving && (one.state == metrics::ReplicaState::up || one.state == metrics::ReplicaState::starting);
  };
  const auto knows_ttft = [](const ReplicaNow& one) { return one.recent_ttft && one.recent_ttfts >= least_ttfts; };
  // Gaps of tokens that something on the way gathers tell nothing of the engine: most are 0, beside which peers look
  // slow.
  const auto knows_gap = [](const ReplicaNow& one) {
    return one.recent_gap && one.recent_gaps >= least_gaps && one.coalesced_60s <= most_coalesced * one.streams_60s;
  };
  for (const auto& one : replicas) {
    if (!is_in(one)) continue;
    auto& kind = kinds[kind_of(one)];
    kind.usual.emplace_back(&one, one.usual_ttft);
    if (knows_ttft(one)) kind.ttft.emplace_back(&one, *one.recent_ttft);
    if (knows_gap(one)) kind.gap.emplace_back(&one, *one.recent_gap);
  }
  for (auto& one : replicas) {
    if (!is_in(one)) continue;
    const auto& kind = kinds[kind_of(one)];
    const auto by = [&](const Values& values, std::optional<double> own) -> std::optional<double> {
      const auto others = median_but(values, one);
      return others && *others > 0 ? std::optional(*own / *others) : std::nullopt;
    };
    if (knows_ttft(one)) one.ttft_by_peers = by(kind.ttft, one.recent_ttft);
    // A slow replica gets few requests, so the balancer knows it before there are enough of them to compare.
    constexpr double slower = 1.5;
    if (const auto usual = by(kind.usual, one.usual_ttft); !knows_ttft(one) && usual && *usual >= slower)
      one.ttft_by_peers = usual;
    if (knows_gap(one)) one.gap_by_peers = by(kind.gap, one.recent_gap);
  }
}

}  // namespace weir::proxy::live
