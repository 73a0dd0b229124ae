// A sweep measures a service batch by batch, at one number of requests after another.
//
// It follows TGI's benchmark tool, which drives the engine's own batches: prefill and decode are measured apart, each
// at a fixed batch size. Here both are what a client sees over HTTP. A batch is sent when the one before has ended; the
// first batches of each size are a warm-up.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/load/measure.hpp"
#include "lab/sweep/point.hpp"

namespace weir::lab::sweep {

struct SweepSettings {
  load::LoadSettings load;  ///< Of it the URL, what is asked for, and the mean lengths count: all requests are alike.
  std::vector<std::uint64_t> concurrencies;
  std::uint64_t runs = 5;  ///< So many batches of each size are measured.
  std::uint64_t warm_up = 1;
};

struct Sweep {
  std::vector<LoadPoint> points;
  Knee prefill, decode;
  bool interrupted = false;
};

/// What is told of it while it runs.
struct OnSweep {
  load::OnResult result;  ///< Every result, those of the warm-up too.
  std::function<void(std::uint64_t concurrency, std::uint64_t batch)> batch;  ///< A batch begins; 0 is the first.
};

/// Runs until done or `interrupt`; then it has the points that were measured until then. Throws as load::measure does.
Sweep run_sweep(const SweepSettings& settings, const load::Interrupt& interrupt, const OnSweep& on = {});

}  // namespace weir::lab::sweep
