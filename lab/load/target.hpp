// A target says where an HTTP service is, from a URL as users write it.
#pragma once

#include <string>

namespace weir::lab::load {

struct Target {
  std::string host;       ///< Name or address, without brackets.
  std::string port;       ///< "80" where the URL has none.
  std::string prefix;     ///< Path without a slash at its end; "" for the root.
  std::string authority;  ///< The Host header takes it as it is.
};

/// Throws std::invalid_argument with a sentence.
Target target_of(const std::string& url);

}  // namespace weir::lab::load
