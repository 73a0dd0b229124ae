// Errors of weir's own in the shape that OpenAI's clients expect, which is also what most other dialects take.
#pragma once

#include <string>
#include <string_view>

namespace weir::metrics::wire {

struct OwnError {
  std::string type;  ///< invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string code;
  std::string message;
};

/// {"error":{"message","type","param":null,"code"}}
std::string openai_error_body(unsigned status, const OwnError& error);

/// The same as the event that ends a stream which the replica broke off, framed.
std::string openai_error_event(std::string_view message);

/// The type and the code of such an event.
inline constexpr std::string_view upstream_error = "upstream_error";
inline constexpr std::string_view replica_lost = "replica_lost";

}  // namespace weir::metrics::wire
