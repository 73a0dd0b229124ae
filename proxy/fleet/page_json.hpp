// Parses the JSON of engines' pages. Stateless.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace weir::proxy::fleet {

/// Returns the text with null in place of each number that neither 64 bits nor a finite double hold.
std::string without_huge_numbers(std::string_view json);

/// Parses a page. simdjson refuses a document for a number that it cannot hold; such a number is null instead.
simdjson::simdjson_result<simdjson::dom::element> parse_page(simdjson::dom::parser& parser, std::string_view json);

}  // namespace weir::proxy::fleet
