#include "proxy/control/compare_api.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string>
#include <variant>

#include "metrics/compare/report/report.hpp"
#include "proxy/compare/compare.hpp"
#include "proxy/compare/reporting.hpp"
#include "proxy/control/query.hpp"
#include "proxy/control/shadow_api.hpp"

namespace weir::proxy::control {
namespace {

using compare::CompareOptions;

struct Parameter {
  std::string_view name;
  std::string CompareOptions::*value;
};
/// `window` is what ended lately; the command line says --from for that.
constexpr std::array<Parameter, 12> parameters{{{"a", &CompareOptions::a},
                                                {"b", &CompareOptions::b},
                                                {"by", &CompareOptions::by},
                                                {"pool", &CompareOptions::pool},
                                                {"model", &CompareOptions::model},
                                                {"from", &CompareOptions::from},
                                                {"to", &CompareOptions::to},
                                                {"for", &CompareOptions::length},
                                                {"window", &CompareOptions::from},
                                                {"slo", &CompareOptions::slo},
                                                {"prompt_tokens", &CompareOptions::prompt_tokens},
                                                {"warm_up", &CompareOptions::warm_up}}};

std::vector<std::string_view> known_parameters() {
  std::vector<std::string_view> names{"margin", "margins"};
  for (const auto& one : parameters) names.push_back(one.name);
  return names;
}

/// Returns the options, or a sentence.
std::variant<CompareOptions, std::string> options_of(std::string_view query) {
  CompareOptions options;
  const auto asked = parameters_of(query);
  if (!asked) return std::string(not_a_query);
  if (auto twice = repeated_parameter(*asked); !twice.empty()) return twice;
  const auto is_there = [&](std::string_view name) {
    return std::ranges::find(*asked, name, &std::pair<std::string, std::string>::first) != asked->end();
  };
  if (is_there("window") && is_there("from"))
    return "window and from both say when the window begins; leave one out";
  for (const auto& [name, value] : *asked) {
    if (name == "margin") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.margin);
      if (error != std::errc() || end != value.data() + value.size())
        return "margin must be between 0 and 1, such as 0.02";
      continue;
    }
    if (name == "margins") {
      std::istringstream parts(value);
      for (std::string part; std::getline(parts, part, ',');) options.margins.push_back(part);
      continue;
    }
    const auto known = std::ranges::find(parameters, name, &Parameter::name);
    if (known == parameters.end()) return unknown_parameter(name, known_parameters());
    options.*(known->value) = value;
  }
  if (options.by != "config" && options.by != "replica" && options.by != "role")
    return "by must be config, replica or role";
  return options;
}

}  // namespace

std::function<ReportMade()> report_of(std::string_view query, const History& history, const fleet::Snapshot& snapshot) {
  auto options = options_of(query);
  if (const auto* sentence = std::get_if<std::string>(&options))
    return [answer = bad_query(*sentence)]() -> ReportMade { return answer; };
  const auto& wanted = std::get<CompareOptions>(options);
  auto asked = compare::request_of(wanted, snapshot.settings);
  if (const auto* problem = std::get_if<config::Problem>(&asked))
    return [answer = bad_query(problem->text)]() -> ReportMade { return answer; };
  auto request = std::get<compare::Request>(std::move(asked));
  request.kv_tokens = kv_tokens_of_shadows(snapshot);
  const auto names = std::make_shared<const metrics::compare::samples::Names>(history.names());
  const auto filter = compare::filter_of(request, wanted.model);
  auto read = std::make_shared<compare::ReadSamples>();
  compare::Selecting selecting(filter, *names, *read);
  for (const auto& sample : history.samples())
    if (history.counts(sample)) selecting.add(sample);
  selecting.follow_primaries();
  read->mirrored = history.mirrored();
  compare::Noise noise;
  // A table is of all requests of its sides.
  if (wanted.model.empty() && wanted.prompt_tokens.empty()) {
    noise.tables = history.tables();
    noise.lost = history.lost();
  }
  return [=, a = wanted.a, b = wanted.b, margin = wanted.margin]() -> ReportMade {
    auto made = compare::report_on(*read, *names, request, margin, noise, a, b);
    if (const auto* sentence = std::get_if<std::string>(&made)) return bad_query(*sentence);
    return std::get<metrics::compare::report::Report>(std::move(made));
  };
}

std::function<ApiAnswer()> comparison(std::string_view query, const History& history, const fleet::Snapshot& snapshot) {
  return [make = report_of(query, history, snapshot)] {
    auto made = make();
    if (auto* const answer = std::get_if<ApiAnswer>(&made)) return std::move(*answer);
    return ApiAnswer{200, metrics::compare::report::as_json(std::get<metrics::compare::report::Report>(made)) + "\n"};
  };
}

}  // namespace weir::proxy::control
