// The repetitions of an experiment that are done, kept in a file of JSON lines, so that it goes on where it was ended.
//
// A line names all that its figures depend on: the row and the prompts. A line whose row or prompts are others now (the
// experiment's file was changed) stays in the file and does not count.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/experiment/plan.hpp"
#include "lab/load/report.hpp"

namespace weir::lab::experiment {

/// The figures of one run of one row. Times are in seconds; medians are those of its requests, 0 if there were none.
struct Repetition {
  std::uint64_t ok = 0, failed = 0;
  double seconds = 0;  ///< From the first request's start to the last one's end.
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  double ttft = 0, tpot = 0, e2e = 0;
  std::optional<std::string> own_delay{};  ///< The load tool itself was too slow, by its own words.
  bool operator==(const Repetition&) const = default;
};

Repetition repetition_of(const load::Tally& requests);

/// Returns the line of a repetition; `number` counts from 0.
std::string line_of(const Plan& plan, const Row& row, std::uint64_t number, const Repetition& repetition);

/// The repetitions that a plan's rows have in the file, by their number; in the order of the rows.
using Done = std::vector<std::map<std::uint64_t, Repetition>>;

struct ResultsRead {
  Done done;
  std::uint64_t others = 0;  ///< Lines of other rows or prompts.
  std::uint64_t beyond = 0;  ///< Lines of these rows and prompts, of repetitions that are no longer asked for.
  std::uint64_t broken = 0;  ///< Lines that cannot be read, such as one that was cut when the machine stopped.
};

/// Reads the lines of a results file. Of two lines for one repetition the later counts.
ResultsRead read_results(const Plan& plan, std::istream& lines);

/// Returns how many repetitions are still to be run.
std::uint64_t left(const Plan& plan, const Done& done);

}  // namespace weir::lab::experiment
