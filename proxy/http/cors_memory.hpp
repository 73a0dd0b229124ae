// What replicas let a browser's page do (CORS), so that weir's own answers reach the page as theirs do.
//
// Noted from the answers that replicas gave to requests with an Origin, given to weir's own answers to the same Origin.
// Of 64 origins and what was said of any ("*"); the one noted longest ago goes. Any thread; requests without an Origin
// do not come here.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

class CorsMemory {
 public:
  static constexpr std::size_t most_origins = 64;
  static constexpr std::size_t longest = 512;  ///< Of an origin and the fields given to it.

  /// A replica's answer to a request of this origin. A success that gives it nothing takes back what was given.
  void note(std::string_view origin, const ResponseHead& answer);
  /// The fields for weir's own answer to this origin, each with its CRLF; "" where no replica has given any.
  std::string fields_for(std::string_view origin) const;

 private:
  struct Given {
    std::string origin;  ///< "*" = any.
    std::string fields;
  };
  void forget(std::string_view origin);

  mutable std::mutex mutex_;
  std::deque<Given> given_;  ///< Noted longest ago first.
};

}  // namespace weir::proxy::http
