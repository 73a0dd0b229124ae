// gzip for what the metrics and admin listeners answer: a scrape is text that says nearly the same thousands of times.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::control {

/// Whether an Accept-Encoding field allows gzip (RFC 9110, section 12.5.3): named, or by "*", with a weight above 0.
/// Where the field is absent ("") nothing is compressed.
bool accepts_gzip(std::string_view accept_encoding);

/// `text` as one gzip member (RFC 1952). Throws std::bad_alloc where there is no memory.
std::string gzip(std::string_view text);

}  // namespace weir::proxy::control
