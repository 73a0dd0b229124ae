// The parameters of a request's query.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/control/api.hpp"

namespace weir::proxy::control {

inline constexpr std::string_view not_a_query = "the query is no list of NAME=VALUE with & between";

/// Returns the parameters, decoded and in order; nothing if the text is no query.
std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(std::string_view query);

/// Returns a sentence about a parameter that is there twice; "" if none is.
std::string repeated_parameter(const std::vector<std::pair<std::string, std::string>>& parameters);

/// Returns the refusal of a query.
ApiAnswer bad_query(const std::string& sentence);

/// Returns a sentence about a parameter that nobody knows.
std::string unknown_parameter(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace weir::proxy::control
