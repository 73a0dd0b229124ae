// Answers of weir's own, in the shape that the client of each API expects, and the event that ends a
// stream which the replica broke off. Stateless.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/head.hpp"

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

/// Tells the client to come back after `wait`.
OwnAnswer overloaded_answer(unsigned status, std::string_view code, std::string_view sentence,
                            std::chrono::milliseconds wait);

/// Answers that weir stops, and that the request has had its time.
OwnAnswer stopping_answer();

/// Answers that the client's address has too many requests under way.
OwnAnswer address_busy_answer();

/// Answers that weir itself failed.
OwnAnswer broken_down_answer();

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

/// An answer to an operator.
struct ApiAnswer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
};

/// {"error":{"message","type","param":null,"code"}}
ApiAnswer api_error(unsigned status, std::string_view code, std::string_view message);

/// The last event of a stream that ends with an error, framed.
std::string error_event(metrics::Api api, unsigned status, const OwnError& error);

// The rights of a browser's page (CORS, fetch.spec.whatwg.org), by server.cors_origins. Where that is empty,
// replicas answer for themselves, and weir's own errors carry no rights: a page cannot read them.

/// True if a page of this origin may ask. `allowed` holds origins, or "*" alone. A request without an origin comes from
/// no page.
bool allows_origin(std::span<const std::string> allowed, std::string_view origin);

/// Returns the fields for an answer to this origin, each with its CRLF. If origins are named, answers differ by origin,
/// and each says so, those to no page too.
std::string cors_fields(std::span<const std::string> allowed, std::string_view origin);

/// True for the question that a browser sends before the request of a page. It bears no credential.
bool is_preflight(const RequestHead& head);

/// Returns weir's answer to that question, and adds its fields to those of cors_fields. A page of an allowed origin
/// gets every method and field that it asks for: server.paths and the keys say what is served.
OwnAnswer preflight_answer(std::span<const std::string> allowed, const RequestHead& head, std::string& fields);

/// True for the fields of an answer by which a server allows a page something.
bool is_cors_field(std::string_view name);

}  // namespace weir::proxy::http
