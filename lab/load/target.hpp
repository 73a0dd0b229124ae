// A target says where an HTTP service is, from a URL as users write it.
#pragma once

#include <string>

namespace weir::lab::load {

struct Target {
  bool tls = false;       ///< The URL is https.
  std::string host;       ///< A name or an address, without brackets.
  std::string port;       ///< "80" or "443" if the URL has none.
  std::string prefix;     ///< The path without a slash at its end; "" for the root.
  std::string authority;  ///< The Host header takes it as it is.
};

/// Throws std::invalid_argument with a sentence if the URL cannot be used.
Target target_of(const std::string& url);

/// Returns the URL without "/v1" and slashes at its end: SDKs want a base URL with it, and the paths of a load have it.
std::string without_v1(std::string url);

}  // namespace weir::lab::load
