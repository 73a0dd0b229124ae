// A forecast of other policies or replicas for a log, and its report.
//
// It says what a pool would have done with a log's requests under another policy, with another number of
// replicas, or with prefix awareness: the balancer and the story in simulated time (lab/plan/simulation.hpp), in front
// of engine models whose constants are fitted from the log.
//
// First the log's requests are simulated where and when the replicas had them, to see how well the fitted engines
// predict what did happen. Then each scenario gets the requests as clients sent them: a turn comes as long after the
// end of the turn before it as in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "lab/experiment/run.hpp"
#include "lab/forecast/fit.hpp"
#include "lab/plan/simulation.hpp"

namespace weir::lab::forecast {

/// NaN where there are too few values to say.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

inline constexpr double interval_confidence = 0.9;

/// Returns where the quantile `q` of such logs lies, with `interval_confidence`. Each run has positive values in the
/// order of time, in which neighbours may depend on each other; runs differ in what was left to chance. The estimate,
/// the quantile of all values together, lies within.
///
/// A block bootstrap: twentieths of each run are drawn with replacement, the same ones of all runs, and the logarithms
/// of what many draws give have a variance, times 20 / 19 (B. Efron and R. Tibshirani, "An Introduction to the
/// Bootstrap", 1993, chapters 5 and 8). The variance of the runs' own quantiles is added. The interval is Student's t
/// with 19 degrees of freedom. The draws have a fixed seed. The interval of p99 is too narrow, because the slowest
/// requests come in a few bursts: in 200 logs of 2,000 times in a queue it held the truth 153 times.
Interval interval_of(std::span<const std::vector<double>> runs, double q);

/// Times in seconds. A value is NaN where there was no request to measure.
struct Latencies {
  double ttft_p50 = 0, ttft_p90 = 0, ttft_p99 = 0;
  double tpot_p50 = 0, tpot_p90 = 0, tpot_p99 = 0;
  std::uint64_t requests = 0;
};
Latencies latencies_of(std::vector<double> ttft, std::vector<double> tpot);

/// A replica's latencies as logged, and as its fitted engine gives them for the same requests. TTFT counts from when it
/// had them. Replicas that had none of them have no prediction.
struct Prediction {
  std::string replica;  ///< "all" for all of them.
  Latencies logged, simulated;
  std::uint64_t logged_cached = 0, simulated_cached = 0;  ///< Prompt tokens that were found in its cache.
};

struct Scenario {
  std::size_t replicas = 1;  ///< The first ones of the log by name; more than the log has are like the first again.
  config::Policy policy = config::Policy::least_queued_tokens;
  bool prefix_aware = false;
  bool operator==(const Scenario&) const = default;
};

/// All runs of a scenario together. TTFT counts from when the client sent the request.
struct Outcome {
  Scenario scenario;
  Latencies latencies;
  Interval ttft_p50, ttft_p99, tpot_p50;
  double computed_tokens = 0;  ///< Prompt tokens that were not found in a cache, of a run.
  std::vector<double> ttft;    ///< In order.
};

struct ForecastSettings {
  EngineLimits limits;
  double speed = 1;        ///< Divides the times between arrivals.
  std::uint64_t runs = 5;  ///< Of each scenario; they differ in the seed of weir's and the engines' draws.
  std::uint64_t seed = 1;
};

struct Forecast {
  std::vector<EngineFit> fits;                      ///< By replica.
  std::uint64_t hit_tokens = engine::block_tokens;  ///< By hit_tokens_of().
  std::vector<Prediction> predictions;              ///< By replica, then of all.
  std::vector<double> logged_ttft, simulated_ttft;  ///< Of all, in order.
  std::vector<Outcome> outcomes;
};

/// `tell` is told what is about to be simulated. Throws std::invalid_argument with a sentence where the log does not
/// determine the engines, or a request fits into none.
Forecast forecast(const ServedLog& log, const std::vector<Scenario>& scenarios, const ForecastSettings& settings,
                  const std::function<void(const std::string&)>& tell = {});

/// Makes the requests of a simulation from those of a log: lengths and arrivals are the log's, texts are made up. Those
/// of a conversation begin alike.
std::vector<plan::TracedRequest> requests_of(const ServedLog& log);

// The report of a forecast: first how well it predicts what did happen, then the scenarios.

/// `path` is the log's name. The first outcome is that of the log's own replicas and policy, against which changes are
/// told.
experiment::Report report_of(const std::string& path, const ServedLog& log, const ForecastSettings& settings,
                             const Forecast& forecast);

}  // namespace weir::lab::forecast
