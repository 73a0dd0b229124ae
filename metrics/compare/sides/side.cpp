#include "metrics/compare/sides/side.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::metrics::compare::sides {
namespace {

/// Outcomes for which the replica is to blame.
constexpr Outcome errors[]{Outcome::upstream_error, Outcome::upstream_reset, Outcome::truncated, Outcome::timeout,
                           Outcome::replica_refused};

std::optional<double> ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

std::optional<double> ratio(std::uint64_t part, std::uint64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}

statistics::Distribution itl_of(Samples samples) {
  statistics::GapDistribution gaps;
  for (const auto* sample : samples) {
    if (sample->served && sample->gaps_are_itl) gaps.add(sample->gaps);
  }
  return gaps.distribution();
}

void add_outcomes(Side& side, Samples samples, const SideOptions& options) {
  side.requests = samples.size();
  for (const auto* sample : samples) {
    ++side.outcomes[static_cast<std::size_t>(sample->outcome)];
    if (const auto met = options.objective.met(*sample)) ++(*met ? side.slo_good : side.slo_bad);
  }
  std::uint64_t failed = 0;
  for (const auto outcome : errors) failed += side.outcomes[static_cast<std::size_t>(outcome)];
  if (!options.window.is_moment())
    side.rpm = ratio(static_cast<double>(side.requests) * 60, options.window.seconds());
  side.error_share = ratio(failed, side.requests);
  side.slo_attainment = ratio(side.slo_good, side.slo_good + side.slo_bad);
}

/// The tokens of failed requests count: the GPU made them.
void add_tokens(Side& side, Samples samples) {
  std::uint64_t seen = 0;
  double in_flight = 0;
  for (const auto* sample : samples) {
    if (sample->prompt_tokens != samples::unknown_count) side.prompt_tokens_sum += sample->prompt_tokens;
    if (sample->output_tokens != samples::unknown_count) side.output_tokens_sum += sample->output_tokens;
    if (sample->output_chars != samples::unknown_count) side.output_chars_sum += sample->output_chars;
    if (!std::isnan(sample->in_flight_mean)) {
      in_flight += static_cast<double>(sample->in_flight_mean);
      ++seen;
    }
  }
  side.cached_share = cached_share_of(samples);
  side.in_flight_mean = ratio(in_flight, static_cast<double>(seen));
  side.busy_s = busy_seconds(samples);
  if (side.output_chars_sum > 0)
    side.output_chars_per_second = ratio(static_cast<double>(side.output_chars_sum), side.busy_s);
  if (side.output_tokens_sum > 0) {
    side.output_tokens_per_second = ratio(static_cast<double>(side.output_tokens_sum), side.busy_s);
    side.total_tokens_per_second =
        ratio(static_cast<double>(side.output_tokens_sum + side.prompt_tokens_sum), side.busy_s);
  }
}

std::optional<Prefill> prefill_of(Samples samples) {
  std::vector<double> tokens, ms;
  for (const auto* sample : samples) {
    if (!sample->served || sample->in_flight_at_start != 0 || std::isnan(sample->ttft) ||
        sample->prompt_tokens == samples::unknown_count || sample->cached_tokens == samples::unknown_count) {
      continue;
    }
    tokens.push_back(sample->prompt_tokens - std::min(sample->cached_tokens, sample->prompt_tokens));
    ms.push_back(static_cast<double>(sample->ttft) * 1000);
  }
  auto line = statistics::line_through(tokens, ms);
  // A prompt that is longer cannot take less: such a line is noise.
  if (!line || line->slope.value < 0) return std::nullopt;
  line->slope.value *= 1000;
  if (auto& interval = line->slope.interval) *interval = {interval->low * 1000, interval->high * 1000};
  return Prefill{line->slope, line->intercept, tokens.size()};
}

/// A side's cost is known if the cost of each of its replicas is.
void add_cost(Side& side, const std::map<samples::Names::Name, samples::Names::Name>& replicas,
              const samples::Names& names, const SideOptions& options) {
  if (!options.cost_per_hour || replicas.empty()) return;
  double sum = 0;
  for (const auto& [replica, config] : replicas) {
    const auto cost = options.cost_per_hour(names.text(replica), names.text(config));
    if (!cost) return;
    sum += *cost;
  }
  side.cost_per_hour = sum;
  const double per_second = sum / 3600;
  const auto served =
      side.outcomes[static_cast<std::size_t>(Outcome::ok)] + side.outcomes[static_cast<std::size_t>(Outcome::ok_empty)];
  const double spent = per_second * options.window.seconds();
  if (served > 0 && side.output_tokens_sum > 0 && spent > 0) {
    side.cost =
        Cost{spent / static_cast<double>(served) * 1e3, spent / static_cast<double>(side.output_tokens_sum) * 1e6};
  }
  if (side.output_chars_sum > 0 && spent > 0)
    side.cost_per_million_output_chars = spent / static_cast<double>(side.output_chars_sum) * 1e6;
  // The rates of a point are those of one replica.
  const double one = per_second / static_cast<double>(replicas.size());
  if (!side.capacity) return;
  if (const auto& at = side.capacity->at;
      at && at->requests_per_minute.value > 0 && at->output_tokens_per_second.value > 0) {
    side.cost_at_capacity =
        Cost{one * 60 / at->requests_per_minute.value * 1e3, one / at->output_tokens_per_second.value * 1e6};
  }
}

/// Times to the first token count whatever became of the request; what is known at its end, of served requests alone.
/// Costs O(n).
Quantiles quantiles_of(Samples samples) {
  std::vector<float> ttft, ttft_client, tpot, e2e, speed, prompt, output, reasoning;
  const auto add = [](std::vector<float>& values, float value) {
    if (!std::isnan(value)) values.push_back(value);
  };
  const auto add_count = [](std::vector<float>& values, std::uint32_t value) {
    if (value != samples::unknown_count) values.push_back(static_cast<float>(value));
  };
  for (const auto* sample : samples) {
    add(ttft, sample->ttft);
    add(ttft_client, sample->ttft_client);
    if (!sample->served) continue;
    add(tpot, sample->tpot);
    add(e2e, sample->e2e);
    if (sample->tpot > 0) speed.push_back(1 / sample->tpot);
    add_count(prompt, sample->prompt_tokens);
    add_count(output, sample->output_tokens);
    add_count(reasoning, sample->reasoning_tokens);
  }
  Quantiles found;
  found.ttft = statistics::distribution_of(ttft);
  found.ttft_client = statistics::distribution_of(ttft_client);
  found.tpot = statistics::distribution_of(tpot);
  found.e2e = statistics::distribution_of(e2e);
  found.decode_speed = statistics::distribution_of(speed);
  found.prompt_tokens = statistics::distribution_of(prompt);
  found.output_tokens = statistics::distribution_of(output);
  found.reasoning_tokens = statistics::distribution_of(reasoning);
  return found;
}

}  // namespace

std::optional<double> cached_share_of(Samples samples) {
  std::uint64_t cached = 0, known = 0;
  for (const auto* sample : samples) {
    if (sample->prompt_tokens == samples::unknown_count || sample->cached_tokens == samples::unknown_count) continue;
    cached += std::min(sample->cached_tokens, sample->prompt_tokens);
    known += sample->prompt_tokens;
  }
  return ratio(cached, known);
}

Side describe(std::string name, Role role, Samples samples, const samples::Names& names, const SideOptions& options) {
  Side side;
  side.name = std::move(name);
  side.role = role;
  std::vector<const samples::Sample*> sent;
  std::map<samples::Names::Name, samples::Names::Name> replicas;
  for (const auto* sample : samples) {
    if (sample->drop_reason != 0) {
      ++side.dropped[std::string(names.text(sample->drop_reason))];
      continue;
    }
    sent.push_back(sample);
    if (sample->replica != 0) replicas.emplace(sample->replica, sample->config);
  }
  for (const auto& [replica, config] : replicas) side.replicas.emplace_back(names.text(replica));
  std::ranges::sort(side.replicas);
  add_outcomes(side, sent, options);
  static_cast<Quantiles&>(side) = quantiles_of(sent);
  side.itl = itl_of(sent);
  add_tokens(side, sent);
  side.prefill = prefill_of(sent);
  const auto minutes = minutes_of(sent, options.window, options.objective);
  side.points = load_points(minutes);
  if (options.objective.slo) side.capacity = capacity_of(side.points);
  add_cost(side, replicas, names, options);
  return side;
}

}  // namespace weir::metrics::compare::sides
