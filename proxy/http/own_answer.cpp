#include "proxy/http/own_answer.hpp"

#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/head_lines.hpp"

namespace weir::proxy::http {

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

std::string error_event(metrics::Api api, unsigned status, const OwnError& error) {
  return metrics::wire::dialect_of(api).error_event(status, error);
}

}  // namespace weir::proxy::http
