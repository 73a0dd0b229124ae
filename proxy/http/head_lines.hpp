// The lines that heads are made of, each appended with its CRLF.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::http {

inline void add_field(std::string& out, std::string_view name, std::string_view value) {
  using namespace std::string_view_literals;
  out.append(name).append(": "sv).append(value).append("\r\n"sv);
}

/// Adds the status line, with HTTP's reason phrase if the status has one.
void add_status_line(std::string& out, unsigned code, bool http_1_1);

/// Adds Connection where it differs from the version's default: HTTP/1.1 that closes, HTTP/1.0 that stays open.
void add_connection(std::string& out, bool http_1_1, bool keep_alive);

}  // namespace weir::proxy::http
