// The engine of all experiments: it runs the loads of a table one after the other, until the last or until the user
// ends it, and the table says what came of them.
//
// The tables are three: a sweep of batches (sweep.hpp), a search for peak users (users.hpp) and the rows of a file
// (rows.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/chart/chart.hpp"
#include "lab/load/measure.hpp"

namespace weir::lab::experiment {

using metrics::compare::report::Document;

struct Report {
  std::string title;
  Document terminal;                     ///< Tables may have histograms in letters.
  Document page;                         ///< The same for a page with charts, and for Markdown.
  std::vector<chart::Figures> charts{};  ///< A terminal has room for the last under each heading.
  std::string json{}, csv{};
  std::vector<std::string> notes{};  ///< Sentences that are told beside the report.
  bool whole = true;                 ///< False if something was not measured.
};

std::string as_text(const Report& report, bool coloured);

/// Returns "8 at once".
std::string at_once(std::uint64_t concurrency);

/// A load in a row of a table.
struct Point {
  std::size_t row = 0;
  std::uint64_t number = 0;  ///< Counts the loads of its row, from 0.
  std::string begins;        ///< The words that the user is told when it begins.
  load::LoadSettings load;
  std::optional<load::LoadSettings> warm_up{};  ///< A load that is sent before; its results count nowhere.
};

/// The results of a load.
struct Ran {
  std::vector<load::Result> results;
  load::Tally all;                         ///< The same, counted.
  double begun = 0, ended = 0;             ///< Seconds of the monotonic clock.
  std::optional<std::string> own_delay{};  ///< The load tool itself was too slow, by its own words.
  std::string problem;                     ///< Nothing could be sent, as to a name that is not known; "" if it could.
  bool cut = false;                        ///< The user ended it.
};

class Table {
 public:
  virtual ~Table() = default;
  /// Returns the loads in the order in which they are to run.
  virtual std::vector<Point> points() const = 0;
  /// Takes what came of the next of them.
  virtual void take(const Point& point, Ran ran) = 0;
  /// Says what was measured. `cut` tells that the user ended the experiment.
  virtual Report report(bool cut) const = 0;
};

using OnBegin = std::function<void(const Point&)>;
using OnPointResult = std::function<void(const Point&, const load::Result&)>;
using Measure = std::function<load::Measured(const load::LoadSettings&, const load::Interrupt&, const load::OnResult&)>;

/// Returns false if the user ended it, be it during the last load. Results of a warm-up are not told. Throws
/// std::invalid_argument if a URL cannot be used.
bool run(Table& table, const load::Interrupt& interrupt, const OnBegin& on_begin, const OnPointResult& on_result,
         const Measure& measure = &load::measure);

}  // namespace weir::lab::experiment
