// Answers of weir's own, in the shape that the client of each API expects, and the event that ends a
// stream which the replica broke off. Stateless.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/own_error.hpp"

namespace weir::proxy::http {

using metrics::wire::OwnError;

/// An answer of weir's own.
struct OwnAnswer {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::optional<OwnError> error;  ///< Instead of `body`: shaped for the API when it is sent.
  std::optional<std::chrono::milliseconds> retry_after;
  bool forbids_retry = false;  ///< The libraries of OpenAI and Anthropic send no such request again.
  bool tells_methods = false;  ///< Allow lists the methods that weir passes on. 405 has it always.
};

OwnAnswer error_answer(unsigned status, std::string_view type, std::string_view code, std::string_view message);

/// The properties of the request that shape an answer of weir's own.
struct OwnFraming {
  metrics::Api api = metrics::Api::other;
  bool http_1_1 = true;
  bool keep_alive = true;
  bool to_head = false;  ///< Without the body.
  std::string_view request_id{};
  std::string_view weir_id{};
  std::string_view cors{};  ///< Fields, each with its CRLF.
};
std::string own_answer(const OwnAnswer& answer, const OwnFraming& framing);

/// The body of an answer: {"error":{"message","type","param":null,"code"}}, as OpenAI's clients expect it; on
/// Anthropic's routes {"type":"error","error":{"type","message"}} with the type that its clients know for the status.
std::string error_body(metrics::Api api, unsigned status, const OwnError& error);

/// The last event of a stream that ends with an error, framed.
std::string error_event(metrics::Api api, unsigned status, const OwnError& error);

}  // namespace weir::proxy::http
