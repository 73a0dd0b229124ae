// Writes weir's own errors in the shape that OpenAI's clients expect. Most other dialects take it too.
#pragma once

#include <string>
#include <string_view>

namespace weir::metrics::wire {

struct OwnError {
  std::string type;  ///< Invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string code;
  std::string message;

  /// Ends a stream that the replica broke off.
  static OwnError replica_lost(std::string_view message) {
    return {"upstream_error", "replica_lost", std::string(message)};
  }
};

/// Returns {"error":{"message","type","param":null,"code"}}.
std::string openai_error_body(unsigned status, const OwnError& error);

/// Returns the same as a framed event, which ends a stream.
std::string openai_error_event(unsigned status, const OwnError& error);

}  // namespace weir::metrics::wire
