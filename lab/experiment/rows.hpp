// The table of an experiment's file: each row is run several times over one set of prompts.
//
// Repetitions go round: all rows once, then all again, so that a machine that grows slower does so for all rows. Every
// row has prompts of the same lengths; each row and each repetition has words of its own, so that no prefix cache
// shortens it where rows share a replica. Before a row's first repetition as many requests as run at once are sent and
// left out, because engines compile at their first requests.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lab/experiment/plan.hpp"
#include "lab/experiment/run.hpp"
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

class Rows final : public Table {
 public:
  /// Rows that are `done` already are not run again. Each other row's results go as lines into `results` at once, and
  /// its course is told on `progress`. With `facts` results have what a request log needs to know.
  Rows(const Plan& plan, Done done, std::ostream& results, std::ostream& progress, bool facts = false)
      : plan_(plan), done_(std::move(done)), results_(results), progress_(progress), facts_(facts) {}

  std::vector<Point> points() const override;
  /// A repetition that was cut, or of which nothing was answered, does not count.
  void take(const Point& point, Ran ran) override;
  Report report(bool cut) const override;

 private:
  const Plan& plan_;
  Done done_;
  std::ostream& results_;
  std::ostream& progress_;
  bool facts_;
  bool failed_ = false;
};

/// A figure of a row: the median of its repetitions and the least and the most of them.
struct Spread {
  double median = 0, least = 0, most = 0;
  bool operator==(const Spread&) const = default;
};

/// Returns nothing if there are no values.
std::optional<Spread> spread_of(std::vector<double> values);

/// Has a table with each figure's spread. The CSV has one line a row under a header, figures with six digits, by RFC
/// 4180.
Report report_of(const Plan& plan, const Done& done);

}  // namespace weir::lab::experiment
