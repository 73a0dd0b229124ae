#include "lab/sweep/point.hpp"

#include <algorithm>

#include "lab/load/failure.hpp"

namespace weir::lab::sweep {
namespace {

/// Adds up one phase, batch by batch.
class PhaseSum {
 public:
  void add(std::span<const float> latency, double seconds, double tokens) {
    if (seconds <= 0) return;  // The clock did not move, so there is no rate.
    phase_.latency.insert(phase_.latency.end(), latency.begin(), latency.end());
    const double rate = tokens / seconds;
    phase_.slowest = batches_ == 0 ? rate : std::min(phase_.slowest, rate);
    phase_.fastest = batches_ == 0 ? rate : std::max(phase_.fastest, rate);
    seconds_ += seconds;
    tokens_ += tokens;
    ++batches_;
  }
  std::optional<Phase> phase() const {
    if (batches_ == 0) return std::nullopt;
    Phase phase = phase_;
    phase.tokens_per_second = tokens_ / seconds_;
    phase.batch_seconds = seconds_ / static_cast<double>(batches_);
    return phase;
  }

 private:
  Phase phase_;
  double seconds_ = 0, tokens_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace

LoadPoint load_point(std::uint64_t concurrency, std::span<const BatchResults> batches, std::size_t warm_up) {
  LoadPoint point;
  point.concurrency = concurrency;
  PhaseSum prefill, decode;
  for (const BatchResults& results : batches) {
    std::vector<load::Course> courses;
    for (const load::Result& result : results) {
      if (result.ok()) {
        if (auto course = load::course_of(result)) {
          courses.push_back(std::move(*course));
        } else {
          ++point.without_token;
        }
      }
      if (result.ok() || load::was_ended(result)) continue;
      ++point.failed;
      if (point.failure.empty()) point.failure = load::failure_of(result);
    }
    if (&results < batches.data() + warm_up) continue;
    if (courses.size() < concurrency) {
      if (std::ranges::none_of(results, &load::was_ended)) ++point.left_out;
      continue;
    }
    const Batch batch = batch_of(courses);
    ++point.batches;
    prefill.add(batch.prefill.ttft, batch.prefill.seconds, static_cast<double>(batch.prefill.tokens));
    if (batch.decode) {
      ++point.steady;
      decode.add(batch.decode->per_token, batch.decode->seconds, batch.decode->tokens);
    } else {
      point.unsteady = batch.unsteady;
    }
  }
  point.prefill = prefill.phase();
  point.decode = decode.phase();
  return point;
}

std::vector<Operation> operations_of(std::span<const LoadPoint> points, std::optional<Phase> LoadPoint::*phase) {
  std::vector<Operation> operations;
  for (const LoadPoint& point : points) {
    if (!(point.*phase)) continue;
    const Phase& measured = *(point.*phase);
    const auto latency = load::distribution(measured.latency);
    if (latency && latency->mean > 0) {
      operations.push_back({point.concurrency, latency->mean, measured.tokens_per_second});
    }
  }
  return operations;
}

}  // namespace weir::lab::sweep
