// Writes weir's own errors in the shape that the client of each API expects (docs/design.md): as an answer, and as the
// event that ends a stream which the replica broke off. It is stateless.
#pragma once

#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"

namespace weir::proxy::http {

struct OwnError {
  /// It is invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string type;
  std::string code;
  std::string message;
};

/// Returns the body of an answer. OpenAI's clients expect {"error":{"message","type","param":null,"code"}}. Anthropic's
/// routes get {"type":"error","error":{"type","message"}} with the type that its clients know for the status.
std::string error_body(metrics::Api api, unsigned status, const OwnError& error);

/// Returns the last event of a broken stream, framed.
std::string error_event(metrics::Api api, std::string_view message);

}  // namespace weir::proxy::http
