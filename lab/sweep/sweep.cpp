#include "lab/sweep/sweep.hpp"

namespace weir::lab::sweep {
namespace {

/// Returns a load that is one batch. No two batches have a prompt in common, so that no prefix cache shortens prefill.
load::LoadSettings batch_settings(const SweepSettings& settings, std::uint64_t concurrency, std::uint64_t batch) {
  load::LoadSettings load = settings.load;
  load.concurrency = concurrency;
  load.requests = concurrency;
  load.duration.reset();
  load.workload.input_stddev = 0;
  load.workload.output_stddev = 0;
  load.workload.seed = settings.load.workload.seed + 100'000 * concurrency + batch;
  return load;
}

}  // namespace

Sweep run_sweep(const SweepSettings& settings, const load::Interrupt& interrupt, const OnSweep& on) {
  Sweep sweep;
  for (const std::uint64_t concurrency : settings.concurrencies) {
    std::vector<BatchResults> batches;
    std::string own_delay;
    for (std::uint64_t batch = 0; batch < settings.warm_up + settings.runs && !sweep.interrupted; ++batch) {
      if (on.batch) on.batch(concurrency, batch);
      BatchResults& results = batches.emplace_back();
      const auto keep = [&](const load::Result& result) {
        results.push_back(result);
        if (on.result) on.result(result);
      };
      const load::Measured measured = load::measure(batch_settings(settings, concurrency, batch), interrupt, keep);
      sweep.interrupted = measured.interrupted || interrupt.seen();  // A short load ends before it looks.
      if (const auto delay = load::too_slow(measured.own, measured.report.all)) own_delay = *delay;
    }
    sweep.points.push_back(load_point(concurrency, batches, settings.warm_up));
    sweep.points.back().own_delay = own_delay;
    if (sweep.interrupted) break;
  }
  sweep.prefill = knee_of(operations_of(sweep.points, &LoadPoint::prefill));
  sweep.decode = knee_of(operations_of(sweep.points, &LoadPoint::decode));
  return sweep;
}

}  // namespace weir::lab::sweep
