#include "proxy/http/writing.hpp"

#include <algorithm>
#include <boost/beast/http/status.hpp>

#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/credential.hpp"

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

namespace {

/// Returns the bytes that a head's fields take when all are passed on.
std::size_t size_of_fields(const MessageHead& head) {
  constexpr std::size_t around = std::string_view(": \r\n").size();
  std::size_t size = 0;
  for (const auto& field : head.fields) size += field.name.size() + field.value.size() + around;
  return size;
}

/// True for a field by which some frameworks take a request for another one than its line says. weir's routes, and the
/// models of a key, hold for the line.
bool overrides_line(const HeaderField& field) {
  constexpr std::string_view names[]{"x-http-method-override", "x-http-method", "x-method-override", "x-original-url",
                                     "x-rewrite-url"};
  return field.known == FieldName::other && is_among(names, field.name);
}

/// True for a field that is between client and weir: weir's own names, which clients could forge, and `Proxy`, which
/// CGI scripts take for a setting of theirs (httpoxy).
bool is_for_weir(const HeaderField& field) {
  constexpr std::string_view own = "x-weir-", proxy = "proxy";
  return same_token(field.name.substr(0, own.size()), own) || same_token(field.name, proxy);
}

/// The room for the lines that weir adds, unless they are unusually long.
constexpr std::size_t own_lines = 512;

}  // namespace

std::string upstream_head(const RequestHead& client, const UpstreamRequest& request) {
  std::string out;
  out.reserve(client.target.size() + size_of_fields(client) + own_lines);
  out.append(client.method).append(" ").append(request.url.prefix);
  const bool keeps_credentials = request.keep_credentials && !request.client_key_ends_here;
  const auto key = request.client_key_ends_here ? credential_of(client) : std::string_view();
  const auto other_key = request.client_key_ends_here ? other_credential_of(client) : std::string_view();
  if (keeps_credentials) {
    out.append(client.target);
  } else if (other_key.empty()) {
    out.append(without_credentials(client.target, key));
  } else {
    out.append(without_credentials(without_credentials(client.target, key), other_key));
  }
  out.append(" HTTP/1.1\r\n");
  add_field(out, "Host", request.url.authority);
  const bool drops_key = !request.api_key.empty() || !keeps_credentials;
  bool sent_x_api_key = false;
  for (const auto& field : client.fields) {
    const auto is = [&](FieldName name) { return field.known == name; };
    if (is_hop_by_hop(field, client.named) || is(FieldName::host) || is(FieldName::content_length) ||
        is(FieldName::expect) || is(FieldName::x_request_id) || (request.inspected && is(FieldName::accept_encoding)))
      continue;
    if (may_pass_for_another(field) || overrides_line(field) || is_for_weir(field)) continue;
    if (drops_key && (is(FieldName::authorization) || is(FieldName::x_api_key))) {
      sent_x_api_key |= is(FieldName::x_api_key);
      continue;
    }
    if (is_forwarding_field(field) && (!request.way.believed || is(FieldName::x_forwarded_for))) continue;
    if (!keeps_credentials && is_credential(field.known)) continue;
    if (request.client_key_ends_here && holds_key(field.value, key)) continue;
    if (!other_key.empty() && holds_key(field.value, other_key)) continue;
    add_field(out, field.name, field.value);
  }
  if (!request.api_key.empty()) out.append("Authorization: Bearer ").append(request.api_key).append("\r\n");
  if (sent_x_api_key && !request.api_key.empty()) add_field(out, "x-api-key", request.api_key);
  if (!request.shadow.empty()) add_field(out, "x-weir-shadow", request.shadow);
  if (const auto way = forwarded_for(client, request.way); !way.empty()) add_field(out, "X-Forwarded-For", way);
  if (!request.via.empty()) out.append(client.http_1_1 ? "Via: 1.1 " : "Via: 1.0 ").append(request.via).append("\r\n");
  add_field(out, "x-request-id", request.request_id);
  if (request.body_length > 0 || client.framing != Framing::none || client.method == "POST")
    add_field(out, "Content-Length", std::to_string(request.body_length));
  out.append("\r\n");
  return out;
}

std::string client_head(const ResponseHead& replica, const ClientAnswer& answer) {
  std::string out;
  out.reserve(size_of_fields(replica) + own_lines);
  add_status_line(out, replica.status, answer.http_1_1);
  bool buffering_said = false, caching_said = false;
  for (const auto& field : replica.fields) {
    const auto is = [&](FieldName name) { return field.known == name; };
    if (is_hop_by_hop(field, replica.named) || is(FieldName::x_request_id) || is(FieldName::x_weir_replica) ||
        is(FieldName::x_weir_id))
      continue;
    // The length of a body that does not follow (HEAD, 304) is a fact about the resource and passes; 204 has none.
    if (is(FieldName::content_length) && (answer.framing != ClientFraming::none || replica.status == 204)) continue;
    if (answer.cors && is_cors_field(field.name)) continue;
    buffering_said |= is(FieldName::x_accel_buffering);
    caching_said |= is(FieldName::cache_control);
    add_field(out, field.name, field.value);
  }
  add_field(out, "x-request-id", answer.request_id);
  add_field(out, "x-weir-id", answer.weir_id);
  if (!answer.replica.empty()) add_field(out, "x-weir-replica", answer.replica);
  if (answer.event_stream && !buffering_said) add_field(out, "X-Accel-Buffering", "no");
  if (answer.event_stream && !caching_said) add_field(out, "Cache-Control", "no-cache, no-transform");
  if (answer.cors) out.append(*answer.cors);
  if (answer.framing == ClientFraming::length) add_field(out, "Content-Length", std::to_string(answer.length));
  if (answer.framing == ClientFraming::chunked) add_field(out, "Transfer-Encoding", "chunked");
  add_connection(out, answer.http_1_1, answer.keep_alive && answer.framing != ClientFraming::close);
  out.append("\r\n");
  return out;
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

}  // namespace weir::proxy::http
