#include "proxy/http/request_id.hpp"

#include <algorithm>

namespace weir::proxy::http {

std::optional<std::string_view> valid_request_id(std::string_view value) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (value.empty() || value.size() > 128 || !std::all_of(value.begin(), value.end(), allowed)) return std::nullopt;
  return value;
}

}  // namespace weir::proxy::http
