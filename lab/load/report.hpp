// The figures of a load: distributions of what its requests saw, as a table and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/load/connection.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load {

/// A distribution in a few numbers. Its quantiles are those of metrics/compare/statistics/intervals.hpp. p99 is there
/// only from 100 values on, because of fewer it is no more than the largest.
struct Distribution {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, max = 0;
  std::optional<double> p99;

  /// Sets the quantiles by `quantile(q)`; `count` is known already.
  template <class Quantile>
  void take(const Quantile& quantile) {
    p50 = quantile(0.50);
    p90 = quantile(0.90);
    p95 = quantile(0.95);
    if (count >= 100) p99 = quantile(0.99);
  }
};

/// Returns nothing if there are no values.
std::optional<Distribution> distribution(std::vector<float> values);

using metrics::wire::JsonWriter;

/// Writes null where there is nothing.
void write(JsonWriter& json, const std::optional<Distribution>& distribution);

/// Counts requests and what was measured of them. Failed requests are counted and stay out of the distributions; the
/// tokens they brought count.
class Tally {
 public:
  void add(const Result& result);

  std::uint64_t ok() const { return ok_; }
  std::uint64_t failed() const { return failed_; }
  std::uint64_t unfinished() const { return unfinished_; }
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  std::uint64_t output_tokens() const { return output_tokens_; }
  /// Returns those of them that requests brought that failed or had no end.
  std::uint64_t output_tokens_of_failed() const { return output_tokens_of_failed_; }
  std::optional<Distribution> ttft() const { return distribution(ttft_); }
  std::optional<Distribution> tpot() const { return distribution(tpot_); }
  std::optional<Distribution> e2e() const { return distribution(e2e_); }

  /// Returns the seconds over which rates are taken: from the first start to the last end.
  double elapsed() const;
  /// Writes the members of an object.
  void write_members(JsonWriter& json, double elapsed) const;
  /// `llmperf_itl` is a further row, in seconds.
  void print(std::ostream& out, double elapsed, const std::vector<float>* llmperf_itl = nullptr) const;

 private:
  std::uint64_t ok_ = 0, failed_ = 0, unfinished_ = 0;
  std::uint64_t prompt_tokens_ = 0, output_tokens_ = 0, output_tokens_of_failed_ = 0;
  /// Sums over the requests that succeeded: what was counted, and what was asked for.
  struct Lengths {
    std::uint64_t prompt = 0, output = 0;
  } came_, asked_;
  std::map<std::string, std::uint64_t> errors_;
  std::string example_;  ///< The first failure in its own words.
  std::optional<Moment> first_start_, last_end_;
  std::vector<float> ttft_, itl_, tpot_, e2e_, late_;  ///< Seconds. `late_` has failed requests too.
};

/// Holds all requests together, and those of each replica that named itself in x-weir-replica.
struct Report {
  Tally all;  ///< Requests of the warm-up are not in it.
  std::map<std::string, Tally> by_replica;

  void add(const Result& result);
  /// Writes the members of an object.
  void write_members(JsonWriter& json) const;
};

// The cost of a load, by prices of tokens or by the price of the replica's time.

/// Prices are in a currency that the user knows.
struct Prices {
  std::optional<double> in, out;   ///< For a million tokens of prompts and of answers; an absent one is 0.
  std::optional<double> per_hour;  ///< For the replica, or for all of them together.

  bool known() const { return in || out || per_hour; }
};

/// The requests and tokens that the money bought.
struct Bought {
  std::uint64_t requests = 0;  ///< Successful ones.
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  double seconds = 0;
};

struct Cost {
  double per_1000_requests = 0;
  double per_million_tokens = 0;  ///< Prompts and answers.
  double per_million_output_tokens = 0;
};

/// Returns nothing if no price is known, or nothing was bought.
std::optional<Cost> cost_of(const Prices& prices, const Bought& bought);

void print_cost(std::ostream& out, const Cost& cost);
/// Writes the members of an object.
void write_members(metrics::wire::JsonWriter& json, const Cost& cost);

// Writes results as lines of weir's request log (docs/reference/request-log.md), so that `weir compare` and `weir-lab
// summary` read them beside production's.
//
// A line says what this client saw: `ttft_s` begins with the first byte sent, and `ttft_client_s` before connecting.
// Figures that a client cannot know are null.

class RequestLines {
 public:
  /// `label` becomes each line's config; it is null if it is "".
  explicit RequestLines(std::string label);

  /// Returns a request's line, without the newline. Each has an id of its own. Those of a warm-up alone have the member
  /// `warm_up`, which is true.
  std::string line(const Result& result);

 private:
  std::string label_;
  std::uint64_t run_;        ///< Random, so that the ids of two loads differ.
  std::uint64_t lines_ = 0;  ///< The numbers of requests begin anew with each load of a series; this one does not.
};

/// Returns what a result says in the terms of the log. `ended` is the wall clock at the result's end.
metrics::record::RequestRecord record_of(const Result& result, std::chrono::system_clock::time_point ended);

}  // namespace weir::lab::load
