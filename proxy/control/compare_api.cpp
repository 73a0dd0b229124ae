#include "proxy/control/compare_api.hpp"

#include <algorithm>
#include <array>
#include <boost/url.hpp>
#include <charconv>
#include <sstream>
#include <string>
#include <variant>

#include "config/nearest.hpp"
#include "metrics/compare/report/report.hpp"
#include "proxy/compare/compare.hpp"
#include "proxy/compare/reporting.hpp"
#include "proxy/control/shadow_api.hpp"

namespace weir::proxy::control {
namespace {

using compare::CompareOptions;

struct Parameter {
  std::string_view name;
  std::string CompareOptions::*value;
};
/// `window` is what ended lately; the command line says --from for that.
constexpr std::array<Parameter, 13> parameters{{{"a", &CompareOptions::a},
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
                                                {"min_block", &CompareOptions::min_block},
                                                {"warm_up", &CompareOptions::warm_up}}};

ApiAnswer refusal(const std::string& sentence) { return api_error(400, "bad_query", sentence); }

std::string unknown_parameter(const std::string& name) {
  std::vector<std::string_view> names{"margin", "margins"};
  std::string all = "margin, margins";
  for (const auto& one : parameters) {
    names.push_back(one.name);
    all.append(", ").append(one.name);
  }
  const auto meant = config::nearest(name, names);
  return "unknown parameter '" + name + "'; " +
         (meant.empty() ? "known are " + all : "did you mean " + std::string(meant) + "?");
}

/// Returns the options, or a sentence.
std::variant<CompareOptions, std::string> options_of(std::string_view query) {
  CompareOptions options;
  // boost::urls::parse_query of Boost 1.81 takes the length of its text from a terminating zero.
  const std::string target = "/?" + std::string(query);
  const auto parsed = boost::urls::parse_origin_form(target);
  if (!parsed) return "the query is no list of NAME=VALUE with & between";
  if (query.empty()) return options;
  for (const auto& one : parsed->params()) {
    if (one.key == "margin") {
      const auto [end, error] = std::from_chars(one.value.data(), one.value.data() + one.value.size(), options.margin);
      if (error != std::errc() || end != one.value.data() + one.value.size())
        return "margin must be between 0 and 1, such as 0.02";
      continue;
    }
    if (one.key == "margins") {
      std::istringstream parts(std::string(one.value));
      for (std::string part; std::getline(parts, part, ',');) options.margins.push_back(part);
      continue;
    }
    const auto known = std::ranges::find(parameters, one.key, &Parameter::name);
    if (known == parameters.end()) return unknown_parameter(one.key);
    options.*(known->value) = one.value;
  }
  if (options.by != "config" && options.by != "replica" && options.by != "role")
    return "by must be config, replica or role";
  return options;
}

}  // namespace

std::function<ReportMade()> report_of(std::string_view query, const History& history, const fleet::Snapshot& snapshot) {
  auto options = options_of(query);
  if (const auto* sentence = std::get_if<std::string>(&options))
    return [answer = refusal(*sentence)]() -> ReportMade { return answer; };
  const auto& wanted = std::get<CompareOptions>(options);
  auto asked = compare::request_of(wanted, snapshot.settings);
  if (const auto* problem = std::get_if<config::Problem>(&asked))
    return [answer = refusal(problem->text)]() -> ReportMade { return answer; };
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
  const compare::Noise noise{.histories = history.noise()};
  return [=, a = wanted.a, b = wanted.b, margin = wanted.margin]() -> ReportMade {
    auto made = compare::report_on(*read, *names, request, margin, noise, a, b);
    if (const auto* sentence = std::get_if<std::string>(&made)) return refusal(*sentence);
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
