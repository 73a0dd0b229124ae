#include "metrics/compare/sides/minutes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "metrics/compare/statistics/distribution.hpp"

namespace weir::metrics::compare::sides {
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
  void spread(samples::Names::Name replica, Stretch stretch, double amount, double ReplicaMinute::*member) {
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

}  // namespace weir::metrics::compare::sides
