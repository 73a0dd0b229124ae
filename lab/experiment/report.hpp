// What an experiment says: a table with each figure's spread over the repetitions, as text, Markdown, CSV, a page and
// JSON.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/chart/page.hpp"
#include "lab/experiment/results.hpp"

namespace weir::lab::experiment {

/// A figure of a row: the median of its repetitions and the least and the most of them.
struct Spread {
  double median = 0, least = 0, most = 0;
  bool operator==(const Spread&) const = default;
};

/// Returns nothing if there are no values.
std::optional<Spread> spread_of(std::vector<double> values);

/// The figures of a row. Each is absent if no repetition has it.
struct Summary {
  std::uint64_t repetitions = 0, failed = 0;
  std::optional<Spread> seconds, tokens_per_second, ttft, tpot, cost, cost_per_million;
  std::string own_delay;  ///< Of the last repetition in which the load tool itself was too slow, its words.
};

Summary summary_of(const Row& row, const std::map<std::uint64_t, Repetition>& repetitions);

metrics::compare::report::Document document_of(const Plan& plan, const Done& done);
std::vector<chart::Figures> figures_of(const Plan& plan, const Done& done);
std::string as_text(const Plan& plan, const Done& done, bool coloured);
/// Returns one line a row under a header, figures with six digits, by RFC 4180.
std::string as_csv(const Plan& plan, const Done& done);
boost::json::object as_json(const Plan& plan, const Done& done);

}  // namespace weir::lab::experiment
