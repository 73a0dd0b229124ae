// The engine of all experiments, and the search for the users that a service bears.
//
// It runs the loads of a table one after the other, until the last or until the user ends it, and the table says what
// came of them.
//
// The tables are three: a sweep of batches (sweep.hpp), a search for peak users (PeakUsers below) and the rows of a
// file (rows.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/chart/chart.hpp"
#include "lab/experiment/plan.hpp"
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

// Peak users: how many users at once a service bears, found as Locust does it; or how many requests a second.
//
// Users start at so many a second. Each sends a request, waits for its answer, thinks, and sends again. A stage is
// measured from the moment at which all of its users are there, for the time that was asked for. Locust counts from the
// first user's start. Where rates are tried in place of users, a stage is an open load: requests come at its rate,
// whatever the answers do, and it is measured for the time that was asked for, behind its warm-up.

/// The time over which a stage is measured, in seconds of the monotonic clock.
struct Window {
  double from = 0, to = 0;
  double seconds() const { return to - from; }
  bool holds(double moment) const { return moment >= from && moment < to; }
};

/// The figures of so many users at once, or of a rate.
struct Stage {
  std::uint64_t users = 0;               ///< 0 where a rate was tried.
  double rate = 0;                       ///< Requests a second; 0 where users were tried.
  double seconds = 0;                    ///< The window's length; 0 if it was never reached.
  load::Tally requests;                  ///< Requests that were sent, or with a rate were due, within the window.
  std::uint64_t good = 0;                ///< Requests that met the objective.
  std::string failure;                   ///< The first failure's own words; "" if there was none.
  std::optional<std::string> own_delay;  ///< The load tool itself was too slow, by its own words.
  double output_tokens = 0;              ///< Tokens that came within the window, whenever their requests were sent.

  double output_tokens_per_second() const { return seconds > 0 ? output_tokens / seconds : 0; }
  double requests_per_minute() const { return seconds > 0 ? 60 * static_cast<double>(requests.ok()) / seconds : 0; }
  std::uint64_t judged() const { return requests.ok() + requests.failed(); }
  /// Returns the share of answered and failed requests that met the objective; nothing without any.
  std::optional<double> attainment() const;
};

/// `good` counts only with an objective. The caller says whose stage it is.
Stage stage_of(std::span<const load::Result> results, const Window& window, const std::optional<Objective>& objective);

/// A stage meets the objective if so large a share of its requests does.
inline constexpr double least_attainment = 0.99;

/// Returns the stage of the highest number of users, or the highest rate, up to which every stage met the objective;
/// null if the first did not. `stages` are in rising order.
const Stage* peak_of(std::span<const Stage> stages);

struct UsersSettings {
  load::LoadSettings load;           ///< Concurrency, requests and duration do not count.
  std::vector<std::uint64_t> users;  ///< In rising order.
  std::vector<double> rates{};       ///< In rising order, requests a second; in place of users if it is not empty.
  double duration = 60;              ///< A stage is measured for so many seconds.
  std::optional<Objective> objective{};
};

class PeakUsers final : public Table {
 public:
  explicit PeakUsers(UsersSettings settings) : settings_(std::move(settings)) {}
  std::vector<Point> points() const override;
  void take(const Point& point, Ran ran) override;
  Report report(bool cut) const override;

 private:
  UsersSettings settings_;
  std::vector<Stage> stages_;
};

/// The JSON is {"users": [...], "peak_users": 100, ...}, or {"rates": [...], "peak_rate": 8, ...}.
Report report_of(const UsersSettings& settings, std::span<const Stage> stages, bool cut);

}  // namespace weir::lab::experiment
