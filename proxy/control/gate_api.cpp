#include "proxy/control/gate_api.hpp"

#include <algorithm>
#include <boost/url.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/wire/json/writer.hpp"
#include "proxy/control/compare_api.hpp"
#include "proxy/control/query.hpp"

namespace weir::proxy::control {
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
  const auto found =
      std::ranges::find_if(snapshot.shadows, [&](const auto& one) { return one->settings.name == *wanted.shadow; });
  if (found == snapshot.shadows.end()) {
    return
        [answer = api_error(404, "unknown_shadow", "no shadow is named '" + *wanted.shadow + "'")] { return answer; };
  }
  return [judge = gate_of_shadow(**found, snapshot, history), status = wanted.status] {
    return gate_answer(judge(), status);
  };
}

}  // namespace weir::proxy::control
