#include "proxy/http/own_answer.hpp"

#include <algorithm>

#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/rewrite.hpp"

namespace weir::proxy::http {

OwnAnswer error_answer(unsigned status, std::string_view type, std::string_view code, std::string_view message) {
  OwnAnswer answer;
  answer.status = status;
  answer.error = OwnError{std::string(type), std::string(code), std::string(message)};
  return answer;
}

OwnAnswer overloaded_answer(unsigned status, std::string_view code, std::string_view sentence,
                            std::chrono::milliseconds wait) {
  auto answer = error_answer(status, "overloaded_error", code, sentence);
  answer.retry_after = wait;
  return answer;
}

OwnAnswer stopping_answer() {
  return overloaded_answer(503, "stopping",
                           "weir is stopping, and the time that requests have to end (limits.drain) is over: "
                           "send it again",
                           std::chrono::seconds(1));
}

OwnAnswer address_busy_answer() {
  return overloaded_answer(503, "too_many_connections",
                           "this client's address has as many requests under way as "
                           "limits.connections_per_address allows; try again when one has ended",
                           std::chrono::seconds(5));
}

OwnAnswer broken_down_answer() {
  return error_answer(500, "api_error", "internal_error", "weir failed at this request; its log says why");
}

std::string own_answer(const OwnAnswer& answer, const OwnFraming& framing) {
  const std::string body = answer.error ? error_body(framing.api, answer.status, *answer.error) : answer.body;
  std::string out;
  add_status_line(out, answer.status, framing.http_1_1);
  if (answer.status != 204) {  // RFC 9110, 8.6: 204 has neither a body nor its length.
    add_field(out, "Content-Type", answer.content_type);
    add_field(out, "Content-Length", std::to_string(body.size()));
  }
  // RFC 9110, 15.5.6: with 405 always. weir refuses CONNECT and TRACE.
  if (answer.status == 405 || answer.tells_methods)
    add_field(out, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  if (answer.status == 401) add_field(out, "WWW-Authenticate", "Bearer");  // RFC 9110, 15.5.2: with 401 always.
  if (answer.forbids_retry) add_field(out, "x-should-retry", "false");
  if (answer.retry_after) {
    // Clients that know the second one (OpenAI's and Anthropic's SDKs) prefer it, since it is exact.
    add_field(out, "Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(*answer.retry_after).count()));
    add_field(out, "retry-after-ms", std::to_string(answer.retry_after->count()));
  }
  if (!framing.request_id.empty()) add_field(out, "x-request-id", framing.request_id);
  if (!framing.weir_id.empty()) add_field(out, "x-weir-id", framing.weir_id);
  out.append(framing.cors);
  add_connection(out, framing.http_1_1, framing.keep_alive);
  out.append("\r\n");
  if (!framing.to_head) out.append(body);
  return out;
}

std::string error_body(metrics::Api api, unsigned status, const OwnError& error) {
  return metrics::wire::dialect_of(api).error_body(status, error) + "\n";
}

ApiAnswer api_error(unsigned status, std::string_view code, std::string_view message) {
  const std::string type = status >= 500 ? "api_error" : "invalid_request_error";
  return {status, error_body(metrics::Api::other, status, {type, std::string(code), std::string(message)})};
}

std::string error_event(metrics::Api api, unsigned status, const OwnError& error) {
  return metrics::wire::dialect_of(api).error_event(status, error);
}

namespace {

/// How long browsers keep the answer, in seconds. Chrome takes two hours at most.
constexpr std::string_view kept_for = "7200";

/// A page reads these of an answer beside those that are always open to it.
constexpr std::string_view exposed = "x-request-id, x-weir-id, x-weir-replica, Retry-After, retry-after-ms";

bool is_any(std::span<const std::string> allowed) { return allowed.size() == 1 && allowed.front() == "*"; }

bool is_in_token_list(char c) { return is_token({&c, 1}) || c == ',' || c == ' '; }

/// Echoes the request's value, if it is a list of tokens.
void allow(std::string& fields, std::string_view name, std::string_view asked) {
  if (!asked.empty() && std::ranges::all_of(asked, is_in_token_list)) add_field(fields, name, asked);
}

}  // namespace

bool allows_origin(std::span<const std::string> allowed, std::string_view origin) {
  return !origin.empty() && (is_any(allowed) || std::ranges::find(allowed, origin) != allowed.end());
}

std::string cors_fields(std::span<const std::string> allowed, std::string_view origin) {
  std::string fields;
  if (allowed.empty()) return fields;
  if (allows_origin(allowed, origin)) {
    add_field(fields, "Access-Control-Allow-Origin", is_any(allowed) ? "*" : origin);
    add_field(fields, "Access-Control-Expose-Headers", exposed);
  }
  if (!is_any(allowed)) add_field(fields, "Vary", "Origin");
  return fields;
}

bool is_preflight(const RequestHead& head) {
  return head.method == "OPTIONS" && head.framing == Framing::none && !head[FieldName::origin].empty() &&
         !head["access-control-request-method"].empty();
}

OwnAnswer preflight_answer(std::span<const std::string> allowed, const RequestHead& head, std::string& fields) {
  add_field(fields, "Vary", "Access-Control-Request-Method, Access-Control-Request-Headers");
  if (!allows_origin(allowed, head[FieldName::origin]))
    return error_answer(403, "invalid_request_error", "origin_not_allowed",
                        "pages of this origin may not ask weir: server.cors_origins does not name it");
  allow(fields, "Access-Control-Allow-Methods", head["access-control-request-method"]);
  allow(fields, "Access-Control-Allow-Headers", head["access-control-request-headers"]);
  add_field(fields, "Access-Control-Max-Age", kept_for);
  OwnAnswer answer;
  answer.status = 204;
  return answer;
}

bool is_cors_field(std::string_view name) {
  constexpr std::string_view prefix = "access-control-";
  return name.size() > prefix.size() && same_token(name.substr(0, prefix.size()), prefix);
}

}  // namespace weir::proxy::http
