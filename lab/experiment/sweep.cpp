#include "lab/experiment/sweep.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace weir::lab::experiment {
namespace {

/// Adds one phase up, batch by batch.
class PhaseSum {
 public:
  void add(const BatchPhase& batch) {
    if (batch.seconds <= 0) return;  // The clock did not move, so there is no rate.
    phase_.latency.insert(phase_.latency.end(), batch.latency.begin(), batch.latency.end());
    const double rate = batch.tokens / batch.seconds;
    phase_.slowest = batches_ == 0 ? rate : std::min(phase_.slowest, rate);
    phase_.fastest = std::max(phase_.fastest, rate);
    seconds_ += batch.seconds;
    tokens_ += batch.tokens;
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

BatchSize batch_size(std::uint64_t concurrency, std::span<const BatchResults> batches, std::size_t warm_up) {
  BatchSize size;
  size.concurrency = concurrency;
  PhaseSum prefill, decode;
  for (const BatchResults& results : batches) {
    std::vector<load::Course> courses;
    for (const load::Result& result : results) {
      if (result.ok()) {
        auto course = load::course_of(result);
        course ? courses.push_back(std::move(*course)) : void(++size.without_token);
      } else if (!result.was_ended()) {
        ++size.failed;
        if (size.failure.empty()) size.failure = result.failure();
      }
    }
    if (&results < batches.data() + warm_up) continue;
    if (courses.size() < concurrency) {
      if (std::ranges::none_of(results, &load::Result::was_ended)) ++size.left_out;
      continue;
    }
    const Batch batch = batch_of(courses);
    ++size.batches;
    prefill.add(batch.prefill);
    if (batch.decode) {
      ++size.steady;
      decode.add(*batch.decode);
    } else {
      size.unsteady = batch.unsteady;
    }
  }
  size.prefill = prefill.phase();
  size.decode = decode.phase();
  return size;
}

std::vector<Operation> operations_of(std::span<const BatchSize> sizes, std::optional<Phase> BatchSize::*phase) {
  std::vector<Operation> operations;
  for (const BatchSize& size : sizes) {
    const auto& measured = size.*phase;
    const auto latency = measured ? load::distribution(measured->latency) : std::nullopt;
    if (!latency || latency->mean <= 0) continue;
    operations.push_back({size.concurrency, latency->mean, measured->tokens_per_second});
  }
  return operations;
}

/// Each load is one batch. No two batches have a prompt in common, so that no prefix cache shortens prefill.
std::vector<Point> Sweep::points() const {
  std::vector<Point> points;
  const std::uint64_t batches = settings_.warm_up + settings_.runs;
  for (std::size_t row = 0; row < settings_.concurrencies.size(); ++row) {
    const std::uint64_t concurrency = settings_.concurrencies[row];
    load::LoadSettings load = settings_.load;
    load.concurrency = load.requests = concurrency;
    load.duration.reset();
    load.workload.input_stddev = load.workload.output_stddev = 0;
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      load.warm_up = batch < settings_.warm_up ? std::numeric_limits<double>::infinity() : 0;
      load.workload.seed = settings_.load.workload.seed + 100'000 * concurrency + batch;
      points.push_back({row, batch,
                        at_once(concurrency) + ", batch " + std::to_string(batch + 1) + " of " +
                            std::to_string(batches) + (batch == 0 ? " (warm-up)" : ""),
                        load});
    }
  }
  return points;
}

void Sweep::take(const Point& point, Ran ran) {
  if (!ran.problem.empty()) throw std::runtime_error(ran.problem);
  rows_.resize(point.row + 1);
  Row& row = rows_.back();
  row.batches.push_back(std::move(ran.results));
  if (ran.own_delay) row.own_delay = std::move(ran.own_delay);
}

Report Sweep::report(bool cut) const {
  std::vector<BatchSize> sizes;
  for (const Row& row : rows_) {
    sizes.push_back(batch_size(settings_.concurrencies[sizes.size()], row.batches, settings_.warm_up));
    sizes.back().own_delay = row.own_delay;
  }
  return report_of(settings_, sizes, cut);
}

}  // namespace weir::lab::experiment
