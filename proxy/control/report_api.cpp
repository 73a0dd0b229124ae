#include "proxy/control/report_api.hpp"

#include <optional>
#include <string>
#include <utility>

#include "config/quantity.hpp"
#include "proxy/control/query.hpp"
#include "proxy/control/incident/report.hpp"
#include "proxy/control/live_api.hpp"

namespace weir::proxy::control {
namespace {

struct Wanted {
  std::chrono::seconds last = incident::longest;
  bool json = false;
};

/// Returns what is wanted, or a sentence that says why it cannot be.
std::optional<std::string> take(std::string_view query, Wanted& wanted) {
  const auto parameters = parameters_of(query);
  if (!parameters) return std::string(not_a_query);
  for (const auto& [name, value] : *parameters) {
    if (name == "last") {
      const auto last = config::parse_duration(value);
      if (!last || *last < std::chrono::seconds(10) || *last > incident::longest)
        return "last must be a time from 10s to 15m, such as 5m: the live view keeps no more";
      wanted.last = std::chrono::ceil<std::chrono::seconds>(*last);
    } else if (name == "format") {
      if (value != "html" && value != "json") return std::string("format must be html or json");
      wanted.json = value == "json";
    } else {
      return unknown_parameter(name, {"last", "format"});
    }
  }
  return std::nullopt;
}

}  // namespace

ApiAnswer report_answer(std::string_view query, live::Live& live, const config::Settings& settings) {
  Wanted wanted;
  if (const auto why_not = take(query, wanted)) return bad_query(*why_not);
  auto data = incident::data(live, settings, wanted.last, "an operator asked for it");
  if (data.empty()) return not_yet();
  if (wanted.json) return {200, std::move(data) + "\n"};
  return {200, incident::page(data), "text/html; charset=utf-8"};
}

}  // namespace weir::proxy::control
