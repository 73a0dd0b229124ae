// The table of an experiment's file: each row is run several times over one set of prompts.
//
// Repetitions go round: all rows once, then all again, so that a machine that grows slower does so for all rows. Every
// row has prompts of the same lengths; each row and each repetition has words of its own, so that no prefix cache
// shortens it where rows share a replica. Before a row's first repetition as many requests as run at once are sent and
// left out, because engines compile at their first requests.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lab/experiment/results.hpp"
#include "lab/experiment/run.hpp"

namespace weir::lab::experiment {

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
