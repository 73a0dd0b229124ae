#include "metrics/series/histogram.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weir::metrics::series {
namespace {

constexpr std::uint64_t us = 1'000;
constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t second = 1'000'000'000;

constexpr std::array latency{
    1 * ms,      5 * ms,      10 * ms,     20 * ms,     40 * ms,      60 * ms,      80 * ms,      100 * ms,
    200 * ms,    250 * ms,    400 * ms,    500 * ms,    600 * ms,     750 * ms,     800 * ms,     1 * second,
    2 * second,  2500 * ms,   4 * second,  5 * second,  6 * second,   7500 * ms,    8 * second,   10 * second,
    20 * second, 40 * second, 60 * second, 80 * second, 160 * second, 640 * second, 2560 * second};

// The steps are about 10 % from 5 to 100 ms. They are adjusted so that .01 .025 .05 .075 .1 (vLLM, OTel) are bounds
// themselves.
constexpr std::array per_token{
    500 * us,   1 * ms,     2 * ms,     4 * ms,                                                      //
    5 * ms,     5500 * us,  6 * ms,     6700 * us,  7400 * us,   8250 * us,   9100 * us,             //
    10 * ms,    11 * ms,    12 * ms,    13200 * us, 14500 * us,  16 * ms,     17500 * us,  19 * ms,  //
    21 * ms,    23 * ms,                                                                             //
    25 * ms,    27500 * us, 30 * ms,    33500 * us, 37 * ms,     41 * ms,     45 * ms,               //
    50 * ms,    55 * ms,    61 * ms,    68 * ms,                                                     //
    75 * ms,    82500 * us, 91 * ms,                                                                 //
    100 * ms,   150 * ms,   200 * ms,   300 * ms,   400 * ms,    500 * ms,    750 * ms,              //
    1 * second, 2500 * ms,  5 * second, 7500 * ms,  10 * second, 20 * second, 40 * second, 80 * second};

constexpr std::array duration{50 * ms,     100 * ms,     250 * ms,     500 * ms,     1 * second,
                              2500 * ms,   5 * second,   10 * second,  20 * second,  30 * second,
                              60 * second, 120 * second, 300 * second, 600 * second, 1800 * second};

constexpr std::array overhead{1 * us,   2 * us, 5 * us, 10 * us, 20 * us, 50 * us, 100 * us, 200 * us,
                              500 * us, 1 * ms, 2 * ms, 5 * ms,  10 * ms, 20 * ms, 50 * ms,  100 * ms};

constexpr std::array loop_delay{100 * us, 200 * us, 500 * us, 1 * ms,   2 * ms,   5 * ms,    10 * ms,
                                20 * ms,  50 * ms,  100 * ms, 200 * ms, 500 * ms, 1 * second};

constexpr auto size = [] {
  std::array<std::uint64_t, 21> bounds{};
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = std::uint64_t{1} << i;
  return bounds;
}();

constexpr std::array<std::uint64_t, 12> ratio{250, 500, 700, 800, 900, 950, 1050, 1100, 1250, 1500, 2000, 4000};

constexpr auto speed = [] {
  std::array<std::uint64_t, 16> bounds{1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 500, 1000, 2000, 5000};
  for (auto& bound : bounds) bound *= 1000;
  return bounds;
}();

std::vector<std::uint64_t> with(std::span<const std::uint64_t> bounds, std::span<const config::Slo> slos,
                                std::initializer_list<std::optional<config::Seconds> config::Slo::*> thresholds) {
  std::vector<std::uint64_t> all(bounds.begin(), bounds.end());
  for (const auto& slo : slos) {
    for (const auto threshold : thresholds) {
      if (const auto& value = slo.*threshold)
        all.push_back(static_cast<std::uint64_t>(std::llround(value->count() * 1e9)));
    }
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

Bounds::Bounds(std::span<const config::Slo> slos)
    : latency(with(latency_bounds, slos, {&config::Slo::ttft_client, &config::Slo::ttft})),
      per_token(with(per_token_bounds, slos, {&config::Slo::tpot})),
      duration(with(duration_bounds, slos, {&config::Slo::e2e})) {}

constinit const std::span<const std::uint64_t> latency_bounds{latency};
constinit const std::span<const std::uint64_t> per_token_bounds{per_token};
constinit const std::span<const std::uint64_t> duration_bounds{duration};
constinit const std::span<const std::uint64_t> overhead_bounds{overhead};
constinit const std::span<const std::uint64_t> loop_delay_bounds{loop_delay};
constinit const std::span<const std::uint64_t> size_bounds{size};
constinit const std::span<const std::uint64_t> ratio_bounds{ratio};
constinit const std::span<const std::uint64_t> speed_bounds{speed};

}  // namespace weir::metrics::series
