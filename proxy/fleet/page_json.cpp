#include "proxy/fleet/page_json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace weir::proxy::fleet {
namespace {

template <class Number>
bool holds(std::string_view token) {
  Number number{};
  return std::from_chars(token.data(), token.data() + token.size(), number).ec != std::errc::result_out_of_range;
}

bool is_huge(std::string_view token) {
  if (token.find_first_of(".eE") != token.npos) return !holds<double>(token);
  return token.front() == '-' ? !holds<std::int64_t>(token) : !holds<std::uint64_t>(token);
}

}  // namespace

std::string without_huge_numbers(std::string_view json) {
  std::string tamed;
  while (!json.empty()) {
    const auto plain = std::min(json.find_first_of("\"-0123456789"), json.size());
    tamed.append(json.substr(0, plain));
    json.remove_prefix(plain);
    if (json.empty()) break;
    std::size_t size = 1;
    if (json.front() == '"') {
      while (size < json.size() && json[size] != '"') size += json[size] == '\\' ? 2 : 1;
      size = std::min(size + 1, json.size());
    } else {
      size = std::min(json.find_first_not_of("+-.0123456789eE"), json.size());
    }
    const auto token = json.substr(0, size);
    tamed.append(token.front() != '"' && is_huge(token) ? "null" : token);
    json.remove_prefix(size);
  }
  return tamed;
}

simdjson::simdjson_result<simdjson::dom::element> parse_page(simdjson::dom::parser& parser, std::string_view json) {
  if (json.empty()) return simdjson::EMPTY;  // simdjson copies from the null pointer of an empty view.
  const auto page = parser.parse(json.data(), json.size());
  if (page.error() != simdjson::NUMBER_ERROR) return page;
  const auto tamed = without_huge_numbers(json);
  return parser.parse(tamed.data(), tamed.size());
}

}  // namespace weir::proxy::fleet
