// Writes weir's own errors in the shape that OpenAI's clients expect. Most other dialects take it too.
#pragma once

#include <string>
#include <string_view>

namespace weir::metrics::wire {

struct OwnError {
  std::string type;  ///< Invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string code;
  std::string message;
};

/// Returns {"error":{"message","type","param":null,"code"}}.
std::string openai_error_body(unsigned status, const OwnError& error);

/// Returns the same as a framed event, which ends a stream that the replica broke off.
std::string openai_error_event(std::string_view message);

/// The type and the code of such an event.
inline constexpr std::string_view upstream_error = "upstream_error";
inline constexpr std::string_view replica_lost = "replica_lost";

}  // namespace weir::metrics::wire
