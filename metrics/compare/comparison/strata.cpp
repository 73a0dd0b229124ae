#include "metrics/compare/comparison/strata.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "metrics/compare/pairs/values.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using StratumName = const char*;

/// The upper ends are inclusive.
constexpr std::pair<std::uint32_t, StratumName> prompt_sizes[]{{1024, "prompt up to 1k tokens"},
                                                               {4096, "1k to 4k"},
                                                               {16384, "4k to 16k"},
                                                               {65536, "16k to 64k"},
                                                               {samples::unknown_count - 1, "above 64k"}};
constexpr StratumName turns[]{"first turn", "later turns"};

/// Returns the stratum's number, or nothing if it is not known.
std::optional<std::size_t> stratum_of(StratifyBy what, const samples::Sample& sample) {
  if (what == StratifyBy::turn) {
    if (sample.turn == 0) return std::nullopt;
    return sample.turn == 1 ? 0 : 1;
  }
  for (std::size_t i = 0; i < std::size(prompt_sizes); ++i) {
    if (sample.prompt_tokens <= prompt_sizes[i].first) return i;
  }
  return std::nullopt;
}

std::size_t count_of(StratifyBy what) { return what == StratifyBy::turn ? std::size(turns) : std::size(prompt_sizes); }

StratumName name_of(StratifyBy what, std::size_t stratum) {
  return what == StratifyBy::turn ? turns[stratum] : prompt_sizes[stratum].second;
}

StratumSide describe(sides::Samples samples) {
  StratumSide side;
  std::vector<float> ttft, tpot;
  for (const auto* sample : samples) {
    if (sample->drop_reason != 0) continue;
    ++side.requests;
    if (!std::isnan(sample->ttft)) ttft.push_back(sample->ttft);
    if (sample->served && !std::isnan(sample->tpot)) tpot.push_back(sample->tpot);
  }
  side.cached_share = sides::cached_share_of(samples);
  side.ttft = statistics::distribution_of(ttft);
  side.tpot = statistics::distribution_of(tpot);
  return side;
}

/// Returns the pairs of each stratum, or the requests of a split. A pair is where its primary is.
std::vector<pairs::Pairing> cut(StratifyBy what, const pairs::Pairing& whole) {
  std::vector<pairs::Pairing> parts(count_of(what));
  for (auto& part : parts) part.mode = whole.mode;
  for (const auto& pair : whole.pairs) {
    if (const auto stratum = stratum_of(what, pair.primary_or_a())) parts[*stratum].pairs.push_back(pair);
  }
  for (const auto side : {&pairs::Pairing::only_a, &pairs::Pairing::only_b}) {
    for (const auto& single : whole.*side) {
      if (const auto stratum = stratum_of(what, *single.sample)) (parts[*stratum].*side).push_back(single);
    }
  }
  return parts;
}

std::vector<StratumEffect> effects_of(const pairs::Pairing& pairing, const statistics::Window& window,
                                      double min_block_s) {
  const double needed_block_s = statistics::needed_block_s(min_block_s, slower_p99_s(pairing, window));
  std::vector<StratumEffect> effects;
  for (const auto metric : {statistics::Metric::ttft, statistics::Metric::tpot}) {
    const auto values = values_of(metric, pairing);
    const auto blocks = log_ratios(values, window);
    StratumEffect effect{metric,
                         std::min(values.a.size(), values.b.size()),
                         statistics::shown_if_known(statistics::mean_of(blocks)),
                         {}};
    const auto estimate = window.block_s() < needed_block_s ? std::nullopt : statistics::estimate_of(blocks);
    if (estimate) effect.interval = statistics::shown(interval_of(*estimate));
    effects.push_back(effect);
  }
  return effects;
}

/// A large stratum holds at least this share of a metric's values.
constexpr double large = 0.1;

}  // namespace

std::vector<Stratum> strata_of(StratifyBy what, const Compared& whole, double min_block_s,
                               std::span<const std::vector<const samples::Sample*>> held) {
  const std::size_t strata = count_of(what);
  std::vector<std::vector<std::vector<const samples::Sample*>>> sides(strata);
  for (auto& side : sides) side.resize(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    for (const auto* sample : held[i]) {
      if (const auto stratum = stratum_of(what, *sample)) sides[*stratum][i].push_back(sample);
    }
  }
  const auto pairings = cut(what, whole.pairing);
  std::vector<Stratum> found;
  for (std::size_t i = 0; i < strata; ++i) {
    if (std::ranges::all_of(sides[i], [](const auto& side) { return side.empty(); })) continue;
    Stratum stratum;
    stratum.name = name_of(what, i);
    for (const auto& side : sides[i]) stratum.sides.push_back(describe(side));
    stratum.effects = effects_of(pairings[i], whole.comparison.described(), min_block_s);
    found.push_back(std::move(stratum));
  }
  return found;
}

bool depends_on_the_mix(std::span<const Stratum> strata) {
  for (const auto metric : {statistics::Metric::ttft, statistics::Metric::tpot}) {
    std::vector<const StratumEffect*> effects;
    std::uint64_t all = 0;
    for (const auto& stratum : strata) {
      for (const auto& effect : stratum.effects) {
        if (effect.metric != metric) continue;
        all += effect.count;
        if (effect.interval) effects.push_back(&effect);
      }
    }
    bool above = false, below = false;
    for (const auto* effect : effects) {
      if (static_cast<double>(effect->count) < large * static_cast<double>(all)) continue;
      above |= effect->interval->low > 0;
      below |= effect->interval->high < 0;
    }
    if (above && below) return true;
  }
  return false;
}

}  // namespace weir::metrics::compare::comparison
