#include "metrics/compare/sides/load_points.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/compare/statistics/distribution.hpp"

namespace weir::metrics::compare::sides {
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
