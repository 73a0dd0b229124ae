#include "proxy/admin/comparison_api.hpp"

#include <algorithm>
#include <array>
#include <boost/url.hpp>
#include <charconv>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "metrics/compare/report/report.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/compare/reporting.hpp"
#include "proxy/compare/request.hpp"

namespace weir::proxy::admin {
namespace {

using compare::CompareOptions;

struct Parameter {
  std::string_view name;
  std::string CompareOptions::* value;
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
  if (is_there("window") && is_there("from")) return "window and from both say when the window begins; leave one out";
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
  request.kv_tokens = shadows::kv_tokens_of_shadows(snapshot);
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

namespace {

namespace mc = metrics::compare;

struct Query {
  std::optional<std::string> shadow;
  GateStatus status = GateStatus::by_word;
  std::string rest;  ///< For /api/compare.
};

constexpr std::string_view contradiction =
    "status=200 and expect=worse contradict each other: the first gives 200 for any word, the second for worse alone; "
    "leave one out";

/// Returns what is asked, or a sentence.
std::variant<Query, std::string> query_of(std::string_view text) {
  Query query;
  const auto parameters = parameters_of(text);
  if (!parameters) return std::string(not_a_query);
  if (auto twice = repeated_parameter(*parameters); !twice.empty()) return twice;
  boost::urls::url rest;
  for (const auto& [name, value] : *parameters) {
    if (name == "shadow") {
      query.shadow = value;
    } else if (name == "status") {
      if (query.status == GateStatus::worse_is_200) return std::string(contradiction);
      if (value != "200") return "status may be 200 and nothing else: the answer then has it whatever its word is";
      query.status = GateStatus::always_200;
    } else if (name == "expect") {
      if (query.status == GateStatus::always_200) return std::string(contradiction);
      if (value != "worse") return "expect may be worse and nothing else: the status is then 200 for that word";
      query.status = GateStatus::worse_is_200;
    } else {
      rest.params().append({name, value});
    }
  }
  const auto encoded = rest.encoded_query();
  query.rest = std::string(encoded.data(), encoded.size());
  if (!query.shadow && query.rest.empty())
    return "say what is compared: shadow=NAME, or a=NAME&b=NAME&window=TIME as for /api/compare";
  if (query.shadow && !query.rest.empty()) return "shadow=NAME says all that is compared; leave the others out";
  return query;
}

unsigned status_of(mc::comparison::Gate word, GateStatus status) {
  if (status == GateStatus::always_200) return 200;
  if (status == GateStatus::worse_is_200) return word == mc::comparison::Gate::worse ? 200 : 425;
  switch (word) {
    case mc::comparison::Gate::pass:
      return 200;
    case mc::comparison::Gate::worse:
      return 417;
    case mc::comparison::Gate::unknown:
      break;
  }
  return 425;
}

}  // namespace

ApiAnswer gate_answer(const Judged& judged, GateStatus status) {
  const auto& [gate, comparison] = judged;
  metrics::wire::JsonWriter json;
  json.open('{').key("word").text(mc::comparison::name_of(gate.word));
  json.key("worse").texts(gate.worse).key("unknown").texts(gate.unknown);
  json.key("a").known_text(comparison.a).key("b").known_text(comparison.b);
  json.key("state").text(mc::comparison::name_of(comparison.state));
  json.key("pairs").count(comparison.pairs);
  json.key("requests_a").count(comparison.requests_a).key("requests_b").count(comparison.requests_b);
  json.key("metrics").open('[');
  for (const auto& verdict : comparison.verdicts) {
    json.open('{').key("metric").text(mc::statistics::name_of(verdict.figure));
    json.key("estimate").exact(verdict.estimate);
    json.key("low").exact(verdict.interval ? std::optional(verdict.interval->low) : std::nullopt);
    json.key("high").exact(verdict.interval ? std::optional(verdict.interval->high) : std::nullopt);
    json.key("margin")
        .exact(mc::statistics::shown(verdict.figure, verdict.effect.margin.high))
        .key("finding")
        .text(mc::statistics::name_of(verdict.finding))
        .close('}');
  }
  json.close(']').close('}');
  return {status_of(gate.word, status), std::move(json).written() + "\n"};
}

std::function<ApiAnswer()> gate_answer(std::string_view query, const History& history,
                                       const fleet::Snapshot& snapshot) {
  const auto asked = query_of(query);
  if (const auto* const sentence = std::get_if<std::string>(&asked))
    return [answer = bad_query(*sentence)] { return answer; };
  const auto& wanted = std::get<Query>(asked);
  if (!wanted.shadow) {
    return [make = report_of(wanted.rest, history, snapshot), status = wanted.status] {
      auto made = make();
      if (auto* const answer = std::get_if<ApiAnswer>(&made)) return std::move(*answer);
      Judged judged;
      judged.comparison = std::move(std::get<mc::report::Report>(made).comparison);
      judged.gate = mc::comparison::gate_of(judged.comparison);
      return gate_answer(judged, status);
    };
  }
  const auto* const shadow = shadows::shadow_of(snapshot, *wanted.shadow);
  if (shadow == nullptr) {
    return
        [answer = api_error(404, "unknown_shadow", "no shadow is named '" + *wanted.shadow + "'")] { return answer; };
  }
  return [judge = shadows::gate_of_shadow(*shadow, snapshot, history), status = wanted.status] {
    return gate_answer(judge(), status);
  };
}

}  // namespace weir::proxy::admin
