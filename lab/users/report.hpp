// What a search for peak users says: a table with sentences, a chart, and JSON for programs.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "lab/chart/page.hpp"
#include "lab/users/users.hpp"

namespace weir::lab::users {

metrics::compare::report::Document document_of(const Users& users, const UsersSettings& settings);
std::vector<chart::Figures> figures_of(const Users& users);

/// Returns what a terminal shows: the document with the chart in letters below it.
std::string as_text(const Users& users, const UsersSettings& settings, bool coloured);

/// Returns {"users": [...], "peak_users": 100, ...}.
boost::json::object as_json(const Users& users, const UsersSettings& settings);

}  // namespace weir::lab::users
