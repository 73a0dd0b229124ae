// Remembers the CORS fields of replicas, so that weir's own answers reach a browser's page as the replicas' do.
//
// The memory notes the CORS fields of replicas' answers to requests with an Origin, and gives them to weir's own
// answers to the same Origin. It keeps 64 origins and "*", and drops the one noted longest ago. Any thread may use it.
// Requests without an Origin do not come here.
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
  static constexpr std::size_t longest = 512;  ///< An origin and the fields given to it may be so long.

  /// Notes a replica's answer to a request of this origin. A success without the fields takes back what was given
  /// before.
  void note(std::string_view origin, const ResponseHead& answer);
  /// Returns the fields for weir's own answer to this origin, each with its CRLF; "" if no replica has given any.
  std::string fields_for(std::string_view origin) const;

 private:
  struct OriginFields {
    std::string origin;  ///< May be "*", which means any.
    std::string fields;
  };
  void forget(std::string_view origin);

  mutable std::mutex mutex_;
  std::deque<OriginFields> noted_;  ///< The one noted longest ago comes first.
};

}  // namespace weir::proxy::http
