// The page at the admin listener's "/": its files, and the fields that keep it to itself. The files hold nothing of
// this weir, so they need no token, and no Host of weir's own: without them nobody could be asked for the token. The
// JSON that the page asks for needs it.
#pragma once

#include <string_view>
#include <utility>

#include "proxy/live/page/files.hpp"

namespace weir::proxy::control {

/// Returns the file at this path; null if the page has none there.
const live::page::File* page_file(std::string_view path);

/// Tells whether an If-None-Match names this tag: the client has the file as it is (RFC 9110, 13.1.2).
bool names_tag(std::string_view if_none_match, std::string_view tag);

/// Sent with each file. The page loads and asks for nothing but weir's own, is in no frame, runs no script and has no
/// style of a document's text, and makes no script of a text.
inline constexpr std::pair<std::string_view, std::string_view> page_fields[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"}};

}  // namespace weir::proxy::control
