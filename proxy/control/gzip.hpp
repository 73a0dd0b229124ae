// Compresses what the metrics and admin listeners answer, because a scrape is text that repeats nearly the same
// thousands of times.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::control {

/// True if an Accept-Encoding field allows gzip (RFC 9110, section 12.5.3): it names it, or "*", with a weight above 0.
/// If the field is absent (""), nothing is compressed.
bool accepts_gzip(std::string_view accept_encoding);

/// Returns `text` as one gzip member (RFC 1952). Throws std::bad_alloc if there is no memory.
std::string gzip(std::string_view text);

}  // namespace weir::proxy::control
