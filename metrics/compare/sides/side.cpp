#include "metrics/compare/sides/side.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/compare/statistics/intervals.hpp"

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
  statistics::GapCounts gaps;
  for (const auto* sample : samples) {
    if (sample->served && sample->gaps_are_itl) statistics::add(gaps, sample->gaps);
  }
  return statistics::distribution_of(gaps);
}

void add_outcomes(Side& side, Samples samples, const SideOptions& options) {
  side.requests = samples.size();
  for (const auto* sample : samples) {
    ++side.outcomes[static_cast<std::size_t>(sample->outcome)];
    if (const auto met = options.objective.met(*sample)) ++(*met ? side.slo_good : side.slo_bad);
  }
  std::uint64_t failed = 0;
  for (const auto outcome : errors) failed += side.outcomes[static_cast<std::size_t>(outcome)];
  if (!options.window.is_moment()) side.rpm = ratio(static_cast<double>(side.requests) * 60, options.window.seconds());
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

namespace {

constexpr std::int64_t minute_us = 60'000'000;
constexpr double longest_s = 86'400;

struct Stretch {
  std::int64_t from = 0, to = 0;
};

std::int64_t after(std::int64_t from_us, float seconds) {
  return from_us + samples::microseconds_of(std::min(static_cast<double>(seconds), longest_s));
}

/// Returns when the replica worked on a request; nothing if it never did, or if its end is not known.
std::optional<Stretch> work_of(const samples::Sample& sample) {
  const float lasted = std::isnan(sample.lasted) ? sample.e2e : sample.lasted;
  if (sample.replica == 0 || std::isnan(lasted)) return std::nullopt;
  const Stretch work{sample.dispatched_us, after(sample.received_us, lasted)};
  return work.to > work.from ? std::optional(work) : std::nullopt;
}

/// Builds the minutes of all replicas.
class Minutes {
 public:
  Minutes(const statistics::Window& window, const samples::Objective& objective)
      : window_(window), objective_(objective) {}

  void add(const samples::Sample& sample) {
    if (sample.replica == 0) return;
    judge(sample);
    const auto work = work_of(sample);
    if (!work) return;
    const auto first_token =
        std::isnan(sample.ttft) ? work->to : std::min(after(sample.dispatched_us, sample.ttft), work->to);
    spread(sample.replica, *work, static_cast<double>(work->to - work->from) / minute_us, &ReplicaMinute::in_flight);
    if (sample.prompt_tokens != samples::unknown_count)
      spread(sample.replica, {work->from, first_token}, sample.prompt_tokens, &ReplicaMinute::prompt_tokens);
    if (sample.output_tokens != samples::unknown_count) {
      const auto from = first_token < work->to ? first_token : work->from;
      spread(sample.replica, {from, work->to}, sample.output_tokens, &ReplicaMinute::output_tokens);
    }
  }

  std::vector<ReplicaMinute> take() {
    std::vector<ReplicaMinute> whole;
    for (auto& [key, building] : minutes_) {
      auto& minute = building.minute;
      if (minute.from_us < window_.from_us || minute.from_us + minute_us > window_.to_us) continue;
      if (const auto ttft = statistics::distribution_of(building.ttft); ttft.count > 0) minute.ttft = ttft.p50;
      if (const auto tpot = statistics::distribution_of(building.tpot); tpot.count > 0) minute.tpot = tpot.p50;
      whole.push_back(minute);
    }
    return whole;
  }

 private:
  struct Building {
    ReplicaMinute minute;
    std::vector<float> ttft, tpot;
  };

  Building& at(samples::Names::Name replica, std::int64_t index) {
    auto& building = minutes_[{replica, index}];
    building.minute.replica = replica;
    building.minute.from_us = index * minute_us;
    return building;
  }

  static std::int64_t index_of(std::int64_t us) { return us / minute_us - (us % minute_us < 0 ? 1 : 0); }

  /// Gives each minute of the stretch its share of the amount.
  void spread(samples::Names::Name replica, Stretch stretch, double amount, double ReplicaMinute::* member) {
    const auto length = static_cast<double>(stretch.to - stretch.from);
    if (length <= 0) {
      at(replica, index_of(stretch.from)).minute.*member += amount;
      return;
    }
    for (auto index = index_of(stretch.from); index * minute_us < stretch.to; ++index) {
      const auto from = std::max(stretch.from, index * minute_us);
      const auto to = std::min(stretch.to, (index + 1) * minute_us);
      at(replica, index).minute.*member += amount * static_cast<double>(to - from) / length;
    }
  }

  void judge(const samples::Sample& sample) {
    auto& building = at(sample.replica, index_of(sample.dispatched_us));
    ++building.minute.requests;
    if (const auto met = objective_.met(sample)) ++(*met ? building.minute.good : building.minute.bad);
    if (!std::isnan(sample.ttft)) building.ttft.push_back(sample.ttft);
    if (sample.served && !std::isnan(sample.tpot)) building.tpot.push_back(sample.tpot);
  }

  const statistics::Window& window_;
  const samples::Objective& objective_;
  std::map<std::pair<samples::Names::Name, std::int64_t>, Building> minutes_;
};

}  // namespace

std::vector<ReplicaMinute> minutes_of(Samples samples, const statistics::Window& window,
                                      const samples::Objective& objective) {
  Minutes minutes(window, objective);
  for (const auto* sample : samples) minutes.add(*sample);
  return minutes.take();
}

double busy_seconds(Samples samples) {
  std::map<samples::Names::Name, std::vector<Stretch>> replicas;
  for (const auto* sample : samples) {
    if (const auto work = work_of(*sample)) replicas[sample->replica].push_back(*work);
  }
  std::int64_t busy = 0;
  for (auto& [replica, stretches] : replicas) {
    std::ranges::sort(stretches, {}, &Stretch::from);
    auto end = stretches.front().from;
    for (const auto& stretch : stretches) {
      busy += std::max<std::int64_t>(stretch.to - std::max(end, stretch.from), 0);
      end = std::max(end, stretch.to);
    }
  }
  return static_cast<double>(busy) / 1e6;
}

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
  const auto found =
      std::ranges::find(helps, by_number(drops).front().first, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(helps) ? std::string() : std::string(found->second);
}

namespace {

/// Returns the lowest number of the point to which so many in flight belong: 1 to 8, then 10, 12, 14, 16, 20, 24 ...
std::uint64_t point_of(double in_flight) {
  auto number = static_cast<std::uint64_t>(std::llround(in_flight));
  std::uint64_t step = 1;
  while (number / step >= 8) step *= 2;
  return number - number % step;
}

struct Values {
  std::vector<double> in_flight, output, total, requests, ttft, speed;
  std::uint64_t count = 0, good = 0, bad = 0;
};

LoadPoint point(const Values& values) {
  LoadPoint made;
  made.in_flight = statistics::measured(values.in_flight)->value;
  made.minutes = values.in_flight.size();
  made.requests = values.count;
  made.good = values.good;
  made.bad = values.bad;
  made.output_tokens_per_second = *statistics::measured(values.output);
  made.total_tokens_per_second = *statistics::measured(values.total);
  made.requests_per_minute = *statistics::measured(values.requests);
  made.ttft = statistics::measured(values.ttft);
  made.tokens_per_second_per_user = statistics::measured(values.speed);
  return made;
}

}  // namespace

std::vector<LoadPoint> load_points(std::span<const ReplicaMinute> minutes) {
  std::map<std::uint64_t, Values> by_load;
  for (const auto& minute : minutes) {
    const auto lowest = point_of(minute.in_flight);
    if (lowest == 0) continue;
    auto& values = by_load[lowest];
    values.in_flight.push_back(minute.in_flight);
    values.output.push_back(minute.output_tokens / 60);
    values.total.push_back((minute.output_tokens + minute.prompt_tokens) / 60);
    values.requests.push_back(minute.requests);
    if (minute.ttft) values.ttft.push_back(*minute.ttft);
    if (minute.tpot && *minute.tpot > 0) values.speed.push_back(1 / *minute.tpot);
    values.count += minute.requests;
    values.good += minute.good;
    values.bad += minute.bad;
  }
  std::vector<LoadPoint> points;
  points.reserve(by_load.size());
  for (const auto& [lowest, values] : by_load) points.push_back(point(values));
  return points;
}

Capacity capacity_of(std::span<const LoadPoint> points) {
  Capacity capacity;
  for (const auto& point : points) {
    const auto judged = point.good + point.bad;
    if (judged < statistics::least_for_p99) continue;
    if (static_cast<double>(point.good) < least_attainment * static_cast<double>(judged)) {
      capacity.state = capacity.at ? Capacity::State::found : Capacity::State::none;
      return capacity;
    }
    capacity.state = Capacity::State::not_reached;
    if (!capacity.at || point.output_tokens_per_second.value > capacity.at->output_tokens_per_second.value) {
      capacity.at = point;
    }
  }
  return capacity;
}

}  // namespace weir::metrics::compare::sides
