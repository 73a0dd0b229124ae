// The lines that heads are made of, each appended with its CRLF.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::http {

inline void add_field(std::string& out, std::string_view name, std::string_view value) {
  using namespace std::string_view_literals;
  out.append(name).append(": "sv).append(value).append("\r\n"sv);
}

/// With the reason that HTTP gives the status, if it gives one.
void add_status_line(std::string& out, unsigned code, bool http_1_1);

/// Says what the version does not: that a connection of HTTP/1.1 closes, that one of HTTP/1.0 stays.
void add_connection(std::string& out, bool http_1_1, bool keep_alive);

}  // namespace weir::proxy::http
