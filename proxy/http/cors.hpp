// The rights of a browser's page (CORS, fetch.spec.whatwg.org), by server.cors_origins. Where that is empty,
// replicas answer for themselves, and weir's own errors carry no rights: a page cannot read them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "proxy/http/head.hpp"
#include "proxy/http/own_answer.hpp"

namespace weir::proxy::http {

/// True if a page of this origin may ask. `allowed` holds origins, or "*" alone. A request without an origin comes from
/// no page.
bool allows_origin(std::span<const std::string> allowed, std::string_view origin);

/// Returns the fields for an answer to this origin, each with its CRLF. If origins are named, answers differ by origin,
/// and each says so, those to no page too.
std::string cors_fields(std::span<const std::string> allowed, std::string_view origin);

/// True for the question that a browser sends before the request of a page. It bears no credential.
bool is_preflight(const RequestHead& head);

/// Returns weir's answer to that question, and adds its fields to those of cors_fields. A page of an allowed origin
/// gets every method and field that it asks for: server.paths and the keys say what is served.
OwnAnswer preflight_answer(std::span<const std::string> allowed, const RequestHead& head, std::string& fields);

/// True for the fields of an answer by which a server allows a page something.
bool is_cors_field(std::string_view name);

}  // namespace weir::proxy::http
