#include "proxy/http/cors.hpp"

#include <algorithm>

#include "proxy/http/head_lines.hpp"

namespace weir::proxy::http {
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
