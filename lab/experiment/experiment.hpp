// Runs what is left of an experiment.
//
// Repetitions go round: all rows once, then all again, so that a machine that grows slower does so for all rows. Every
// row has prompts of the same lengths; each row and each repetition has words of its own, so that no prefix cache
// shortens it where rows share a replica. Before a row's first repetition as many requests as run at once are sent and
// left out, because engines compile at their first requests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lab/experiment/results.hpp"
#include "lab/load/measure.hpp"

namespace weir::lab::experiment {

struct OnRun {
  /// A request of a repetition has ended; those of the warm-up are not told. It may be absent.
  std::function<void(const Row& row, const load::Result& result)> result;
  /// A repetition begins.
  std::function<void(const Row& row, std::uint64_t number)> begin;
  /// It is done and counts.
  std::function<void(const Row& row, std::uint64_t number, const Repetition& repetition)> done;
  /// Nothing was answered, so it does not count; the reason is the first failure's own words, or why none was sent.
  std::function<void(const Row& row, std::uint64_t number, const std::string& reason)> failed;
};

/// Returns the load that is one repetition of a row; `i` is the row's place in the plan.
load::LoadSettings load_of(const Plan& plan, std::size_t i, std::uint64_t number);
/// Returns the load that is sent and left out before it.
load::LoadSettings warm_up_of(const Plan& plan, std::size_t i, std::uint64_t number);

/// Returns false if `interrupt` ended it. What is done by then is in `done`; a repetition that was cut is not.
bool run_rest(const Plan& plan, Done& done, const load::Interrupt& interrupt, const OnRun& on);

/// Returns how many repetitions are still to be run.
std::uint64_t left(const Plan& plan, const Done& done);

}  // namespace weir::lab::experiment
