#include "proxy/http/rewrite.hpp"

#include <algorithm>
#include <boost/beast/http/status.hpp>

namespace weir::proxy::http {
namespace {

void add_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

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

}  // namespace

std::string upstream_head(const RequestHead& client, const UpstreamRequest& request) {
  std::string out;
  out.reserve(512);
  out.append(client.method).append(" ").append(request.url.prefix).append(client.target).append(" HTTP/1.1\r\n");
  add_field(out, "Host", request.url.authority);
  bool sent_x_api_key = false;
  for (const auto& field : client.fields) {
    const auto is = [&](std::string_view name) { return same_token(field.name, name); };
    if (is_hop_by_hop(field.name, client.fields) || is("host") || is("content-length") || is("expect") ||
        is("x-request-id") || (request.inspected && is("accept-encoding")))
      continue;
    // Some servers read `-` and `_` as one, so such a name could pass for another field behind weir.
    if (field.name.find('_') != std::string_view::npos) continue;
    if (!request.api_key.empty() && (is("authorization") || is("x-api-key"))) {
      sent_x_api_key |= is("x-api-key");
      continue;
    }
    add_field(out, field.name, field.value);
  }
  if (!request.api_key.empty()) out.append("Authorization: Bearer ").append(request.api_key).append("\r\n");
  if (sent_x_api_key) add_field(out, "x-api-key", request.api_key);
  add_field(out, "x-request-id", request.request_id);
  if (request.body_length > 0 || client.framing != Framing::none || client.method == "POST")
    add_field(out, "Content-Length", std::to_string(request.body_length));
  return out.append("\r\n");
}

std::string client_head(const ResponseHead& replica, const ClientAnswer& answer) {
  std::string out;
  out.reserve(512);
  add_status_line(out, replica.status, answer.http_1_1);
  bool buffering_said = false, caching_said = false;
  for (const auto& field : replica.fields) {
    const auto is = [&](std::string_view name) { return same_token(field.name, name); };
    if (is_hop_by_hop(field.name, replica.fields) || is("x-request-id") || is("x-weir-replica") || is("x-weir-id"))
      continue;
    // The length of a body that does not follow (HEAD, 304) is a fact about the resource and passes; 204 has none.
    if (is("content-length") && (answer.framing != ClientFraming::none || replica.status == 204)) continue;
    buffering_said |= is("x-accel-buffering");
    caching_said |= is("cache-control");
    add_field(out, field.name, field.value);
  }
  add_field(out, "x-request-id", answer.request_id);
  add_field(out, "x-weir-id", answer.weir_id);
  if (!answer.replica.empty()) add_field(out, "x-weir-replica", answer.replica);
  if (answer.event_stream && !buffering_said) add_field(out, "X-Accel-Buffering", "no");
  if (answer.event_stream && !caching_said) add_field(out, "Cache-Control", "no-cache, no-transform");
  if (answer.framing == ClientFraming::length) add_field(out, "Content-Length", std::to_string(answer.length));
  if (answer.framing == ClientFraming::chunked) add_field(out, "Transfer-Encoding", "chunked");
  add_connection(out, answer.http_1_1, answer.keep_alive && answer.framing != ClientFraming::close);
  return out.append("\r\n");
}

OwnAnswer error_answer(unsigned status, std::string_view type, std::string_view code, std::string_view message) {
  OwnAnswer answer;
  answer.status = status;
  answer.error = OwnError{std::string(type), std::string(code), std::string(message)};
  return answer;
}

std::string own_answer(const OwnAnswer& answer, const OwnFraming& framing) {
  const std::string body = answer.error ? error_body(framing.api, answer.status, *answer.error) : answer.body;
  std::string out;
  add_status_line(out, answer.status, framing.http_1_1);
  add_field(out, "Content-Type", answer.content_type);
  add_field(out, "Content-Length", std::to_string(body.size()));
  // 405 always has it (RFC 9110, 15.5.6). weir refuses CONNECT and TRACE.
  if (answer.status == 405) add_field(out, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  if (answer.status == 401) add_field(out, "WWW-Authenticate", "Bearer");  // 401 always has it (RFC 9110, 15.5.2).
  if (answer.retry_after) add_field(out, "Retry-After", std::to_string(*answer.retry_after));
  if (!framing.request_id.empty()) add_field(out, "x-request-id", framing.request_id);
  if (!framing.weir_id.empty()) add_field(out, "x-weir-id", framing.weir_id);
  out.append(framing.cors);
  add_connection(out, framing.http_1_1, framing.keep_alive);
  out.append("\r\n");
  if (!framing.to_head) out.append(body);
  return out;
}

std::optional<std::string_view> valid_request_id(std::string_view value) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (value.empty() || value.size() > 128 || !std::all_of(value.begin(), value.end(), allowed)) return std::nullopt;
  return value;
}

}  // namespace weir::proxy::http
