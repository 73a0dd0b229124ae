// Errors of weir's own, in the shape that the client of each API expects (docs/design.md): as an answer, and as the
// event that ends a stream which the replica broke off. Stateless.
#pragma once

#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"

namespace weir::proxy::http {

struct OwnError {
  /// invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string type;
  std::string code;
  std::string message;
};

/// The body of an answer: {"error":{"message","type","param":null,"code"}}, as OpenAI's clients expect it; on
/// Anthropic's routes {"type":"error","error":{"type","message"}} with the type that its clients know for the status.
std::string error_body(metrics::Api api, unsigned status, const OwnError& error);

/// The last event of a broken stream, framed.
std::string error_event(metrics::Api api, std::string_view message);

}  // namespace weir::proxy::http
