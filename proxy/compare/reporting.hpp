// From samples and what was asked to a report: the command line and the admin listener make theirs here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "metrics/compare/report/report.hpp"
#include "proxy/compare/request.hpp"
#include "proxy/compare/sample_reading.hpp"

namespace weir::proxy::compare {

/// Returns which samples are asked for. Times before the last request are not among them: see report_on().
Filter filter_of(const Request& request, const std::string& model);

/// Knowledge besides the samples: differences of a configuration from itself, and minutes whose samples are gone. See
/// metrics::compare::comparison::Options.
struct Noise {
  std::vector<metrics::compare::comparison::History> histories{};
  std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables{};
  std::map<metrics::compare::samples::Names::Name, std::uint64_t> lost{};
};

/// Compares the sides `a` and `b`, "" for those that there are; a sentence says why that cannot be. It takes about 0.2
/// s for 50,000 samples.
std::variant<metrics::compare::report::Report, std::string> report_on(const ReadSamples& read,
                                                                      const metrics::compare::samples::Names& names,
                                                                      const Request& request, double margin,
                                                                      const Noise& noise, const std::string& a,
                                                                      const std::string& b);

/// Compares several candidates with one side, if there are such (metrics::compare::sides::choose_candidates); else it
/// returns nothing, and report_on() says more. A sentence says why no report can be.
std::optional<std::variant<metrics::compare::report::CandidatesReport, std::string>> candidates_report_on(
    const ReadSamples& read, const metrics::compare::samples::Names& names, const Request& request, double margin,
    const Noise& noise, const std::string& a);

/// Returns what a replica holds as `known` has it, by the replica's name or its configuration. `names` outlives it.
metrics::compare::pairs::KvTokens kv_tokens_of(std::map<std::string, std::uint64_t, std::less<>> known,
                                               const metrics::compare::samples::Names& names);

/// The options that follow from what was asked, without the sides and the window.
metrics::compare::comparison::Options options_of(const Request& request, double margin);

}  // namespace weir::proxy::compare
