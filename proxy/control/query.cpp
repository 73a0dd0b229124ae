#include "proxy/control/query.hpp"

#include <boost/url.hpp>
#include <set>

#include "config/nearest.hpp"

namespace weir::proxy::control {

std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  if (query.empty()) return all;
  // boost::urls::parse_query of Boost 1.81 takes the length of its text from a terminating zero.
  const std::string target = "/?" + std::string(query);
  const auto parsed = boost::urls::parse_origin_form(target);
  if (!parsed) return std::nullopt;
  for (const auto& one : parsed->params()) all.emplace_back(one.key, one.value);
  return all;
}

std::string repeated_parameter(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::set<std::string_view> seen;
  for (const auto& [name, value] : parameters)
    if (!seen.insert(name).second) return name + " is there twice; leave one out";
  return {};
}

ApiAnswer bad_query(const std::string& sentence) { return api_error(400, "bad_query", sentence); }

std::string unknown_parameter(std::string_view name, const std::vector<std::string_view>& known) {
  std::string all;
  for (const auto& one : known) all.append(all.empty() ? "" : ", ").append(one);
  const auto meant = config::nearest(std::string(name), known);
  return "unknown parameter '" + std::string(name) + "'; " +
         (meant.empty() ? "known are " + all : "did you mean " + std::string(meant) + "?");
}

}  // namespace weir::proxy::control
