#include "proxy/http/head_lines.hpp"

#include <boost/beast/http/status.hpp>

namespace weir::proxy::http {

void add_status_line(std::string& out, unsigned code, bool http_1_1) {
  using boost::beast::http::status;
  const auto known = boost::beast::http::int_to_status(code);
  const auto reason = known == status::unknown ? boost::beast::string_view() : obsolete_reason(known);
  out.append(http_1_1 ? "HTTP/1.1 " : "HTTP/1.0 ").append(std::to_string(code)).append(" ");
  out.append(reason.data(), reason.size()).append("\r\n");
}

void add_connection(std::string& out, bool http_1_1, bool keep_alive) {
  if (!keep_alive) {
    add_field(out, "Connection", "close");
  } else if (!http_1_1) {
    add_field(out, "Connection", "keep-alive");
  }
}

}  // namespace weir::proxy::http
