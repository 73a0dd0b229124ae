// The report of a forecast: first how well it predicts what did happen, then the scenarios.
#pragma once

#include <string>

#include "lab/experiment/run.hpp"
#include "lab/forecast/forecast.hpp"

namespace weir::lab::forecast {

/// `path` is the log's name. The first outcome is that of the log's own replicas and policy, against which changes are
/// told.
experiment::Report report_of(const std::string& path, const ServedLog& log, const ForecastSettings& settings,
                             const Forecast& forecast);

}  // namespace weir::lab::forecast
