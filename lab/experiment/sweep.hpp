// A sweep measures a service batch by batch, at one number of requests after another.
//
// The sweep follows TGI's benchmark tool, which drives the engine's own batches: prefill and decode are measured apart,
// each at a fixed batch size. Here both are what a client sees over HTTP. A batch is sent when the one before has
// ended; the first batches of each size are a warm-up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment/run.hpp"
#include "lab/load/connection.hpp"

namespace weir::lab::experiment {

/// A phase of a batch.
struct BatchPhase {
  std::vector<float> latency;  ///< The TTFT of each request, or the gaps between events, each divided by its tokens.
  double seconds = 0;
  double tokens = 0;  ///< Prompt tokens, or those made in these seconds, each request at the rate between its events.
};

/// Why a batch has no decode.
enum class Unsteady : std::uint8_t {
  no,
  one_token,     ///< Answers of one token have no decode.
  not_together,  ///< A request had ended before another had its first token.
  too_short,     ///< A request had fewer than `least_events` events while all decoded.
};

/// The events that each request must have in the steady time.
inline constexpr std::size_t least_events = 8;

struct Batch {
  BatchPhase prefill;
  std::optional<BatchPhase> decode;
  Unsteady unsteady = Unsteady::no;
};

/// `courses` are those of all requests of one batch, and there is at least one.
Batch batch_of(std::span<const load::Course> courses);

// Where throughput stops being free.
//
// The rule is Kleinrock's: the knee is the load with the greatest throughput / latency ("power"). Up to there a step of
// the load raises throughput by a larger factor than latency; beyond it, latency by the larger one. The rule has no
// threshold that somebody chose, and no unit in it.

struct Operation {
  std::uint64_t concurrency = 0;
  double latency = 0;     ///< > 0
  double throughput = 0;  ///< > 0
};

struct Knee {
  enum class State : std::uint8_t {
    too_few,      ///< Fewer than three loads were measured.
    found,        ///< The knee is at `concurrency`.
    at_or_below,  ///< The lowest load has the greatest power, and fewer than its requests were not tried.
    not_reached,  ///< The highest load that was measured has the greatest power, so the knee may lie beyond it.
  };
  State state = State::too_few;
  std::optional<std::uint64_t> concurrency;  ///< Present where the knee was found.
};

/// `operations` are in order of concurrency. Of several with the same power the lowest is the knee.
Knee knee_of(std::span<const Operation> operations);

/// The rule as a sentence, for help, report and page.
inline constexpr std::string_view knee_rule =
    "The knee is the number at once with the greatest throughput / latency: beyond it, latency grows by a larger "
    "factor than throughput.";

/// A phase over all batches of one size.
struct Phase {
  std::vector<float> latency;       ///< TTFT of each request, or the seconds of each decoded token.
  double tokens_per_second = 0;     ///< Tokens of the batches over their time in this phase.
  double slowest = 0, fastest = 0;  ///< The rates of single batches lie between these.
  double batch_seconds = 0;         ///< The mean time of this phase in a batch.
};

/// The figures of all batches of one size: a point of the chart.
struct BatchSize {
  std::uint64_t concurrency = 0;
  std::uint64_t batches = 0;         ///< Batches that were measured and of which every request was answered.
  std::uint64_t left_out = 0;        ///< Batches in which a request failed or had no token; they are in no figure.
  std::uint64_t failed = 0;          ///< Failed requests, with those of the warm-up.
  std::uint64_t without_token = 0;   ///< Answers that ended well and had no token.
  std::string failure;               ///< The first failure's own words; "" if there was none.
  std::uint64_t steady = 0;          ///< Batches that had a time in which all of the batch decoded.
  Unsteady unsteady = Unsteady::no;  ///< Why the others had none, by the last of them.
  std::optional<Phase> prefill, decode;
  std::optional<std::string> own_delay;  ///< The load tool itself was too slow in a batch, by its own words.
};

using BatchResults = std::vector<load::Result>;

/// The first `warm_up` batches are in no figure, and so is a batch that is not whole.
BatchSize batch_size(std::uint64_t concurrency, std::span<const BatchResults> batches, std::size_t warm_up);

/// Returns a phase's points as the knee takes them: the mean latency and the throughput. The mean does not change where
/// tokens come in pairs, because somebody on their way was busy; the median does. `phase` is
/// &BatchSize::prefill or &BatchSize::decode.
std::vector<Operation> operations_of(std::span<const BatchSize> sizes, std::optional<Phase> BatchSize::* phase);

struct SweepSettings {
  load::LoadSettings load;  ///< The URL, what is asked for, and the mean lengths count: all requests are alike.
  std::vector<std::uint64_t> concurrencies;
  std::uint64_t runs = 5;  ///< Batches of each size that are measured.
  std::uint64_t warm_up = 1;
};

class Sweep final : public Table {
 public:
  explicit Sweep(SweepSettings settings) : settings_(std::move(settings)) {}
  std::vector<Point> points() const override;
  void take(const Point& point, Ran ran) override;
  Report report(bool cut) const override;

 private:
  struct Row {
    std::vector<BatchResults> batches;
    std::optional<std::string> own_delay;
  };
  SweepSettings settings_;
  std::vector<Row> rows_;  ///< Rows of the first concurrencies.
};

/// Has a heading for each phase ("prefill", "decode"), its table, where its knee lies, latency against throughput, and
/// the histograms of at most six numbers at once. The JSON is {"sweep": [...], "knee": {...}, ...}.
Report report_of(const SweepSettings& settings, std::span<const BatchSize> sizes, bool cut);

}  // namespace weir::lab::experiment
