#include "proxy/http/request_id.hpp"

#include <algorithm>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

std::optional<std::string_view> valid_request_id(std::string_view value) {
  const auto allowed = [](char c) { return is_word(c) || c == '.'; };
  if (value.empty() || value.size() > 128 || !std::ranges::all_of(value, allowed)) return std::nullopt;
  return value;
}

}  // namespace weir::proxy::http
