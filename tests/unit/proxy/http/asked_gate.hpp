// How tests ask the gate about a request's head.
#pragma once

#include <string>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

inline std::string post(const std::string& fields) {
  return "POST /generate HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
}

/// Returns 0 if the gate lets the head in.
inline unsigned refused_with(const std::string& head) {
  const auto parsed = parse_request_head(head);
  return parsed ? 0 : refusal_of(parsed.error()).status;
}

}  // namespace weir::proxy::http
