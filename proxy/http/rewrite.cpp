#include "proxy/http/rewrite.hpp"

#include "proxy/http/cors.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/head_lines.hpp"

namespace weir::proxy::http {

std::string upstream_head(const RequestHead& client, const UpstreamRequest& request) {
  std::string out;
  out.reserve(512);
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
    const auto is = [&](std::string_view name) { return same_token(field.name, name); };
    if (is_hop_by_hop(field.name, client.named) || is("host") || is("content-length") || is("expect") ||
        is("x-request-id") || (request.inspected && is("accept-encoding")))
      continue;
    if (may_pass_for_another(field.name)) continue;
    if (drops_key && (is("authorization") || is("x-api-key"))) {
      sent_x_api_key |= is("x-api-key");
      continue;
    }
    if (is_forwarding_field(field.name) && (!request.way.believed || is("x-forwarded-for"))) continue;
    if (is("x-weir-shadow") || (!keeps_credentials && is_credential(field.name))) continue;
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
  out.reserve(512);
  add_status_line(out, replica.status, answer.http_1_1);
  bool buffering_said = false, caching_said = false;
  for (const auto& field : replica.fields) {
    const auto is = [&](std::string_view name) { return same_token(field.name, name); };
    if (is_hop_by_hop(field.name, replica.named) || is("x-request-id") || is("x-weir-replica") || is("x-weir-id"))
      continue;
    // The length of a body that does not follow (HEAD, 304) is a fact about the resource and passes; 204 has none.
    if (is("content-length") && (answer.framing != ClientFraming::none || replica.status == 204)) continue;
    if (answer.cors && is_cors_field(field.name)) continue;
    buffering_said |= is("x-accel-buffering");
    caching_said |= is("cache-control");
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

}  // namespace weir::proxy::http
