#include "metrics/compare/comparison/strata.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

/// A large stratum holds at least this share of a metric's values.
constexpr double large = 0.1;

}  // namespace

std::vector<Stratum> strata_of(StratifyBy what, std::span<const samples::Sample> samples, const samples::Names& names,
                               const Options& options, const Comparison& whole, std::span<const sides::SideKey> sides,
                               sides::By by, const statistics::Window& window) {
  const std::size_t strata = count_of(what);
  std::vector<std::vector<std::vector<const samples::Sample*>>> parts(strata);
  for (auto& part : parts) part.resize(sides.size());
  for (const auto& sample : samples) {
    const auto stratum = stratum_of(what, sample);
    if (!stratum || !window.holds(sample.dispatched_us)) continue;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].holds(sample, by)) parts[*stratum][i].push_back(&sample);
    }
  }

  std::vector<Stratum> found;
  for (std::size_t i = 0; i < strata; ++i) {
    if (std::ranges::all_of(parts[i], [](const auto& part) { return part.empty(); })) continue;
    Stratum stratum;
    stratum.name = name_of(what, i);
    for (const auto& part : parts[i]) stratum.sides.push_back(describe(part));
    Options only = options;
    only.from_us = whole.window.from_us;
    only.to_us = whole.window.to_us;
    only.length_us.reset();
    only.resamples = 0;
    only.only = [&, i](const samples::Sample& sample) {
      return stratum_of(what, sample) == i && (!options.only || options.only(sample));
    };
    for (const auto& verdict : compare(samples, names, only).verdicts) {
      if (verdict.metric != statistics::Metric::ttft && verdict.metric != statistics::Metric::tpot) continue;
      stratum.effects.push_back({verdict.metric, verdict.count, verdict.estimate, verdict.interval});
    }
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
