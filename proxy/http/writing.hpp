// What weir writes: its own answers, the fields of CORS, heads to replicas and clients.
//
// Answers of weir's own, in the shape that the client of each API expects, and the event that ends a
// stream which the replica broke off. Stateless.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/credential.hpp"
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

// Writes heads in one canonical form: that of the request to a replica, and that of its answer to a client.

/// The changes to a client's request on its way to a replica.
struct UpstreamRequest {
  const config::ReplicaUrl& url;
  std::uint64_t body_length = 0;
  std::string_view request_id{};
  bool inspected = false;      ///< weir reads the answer, so it accepts no coding.
  std::string_view api_key{};  ///< The replica's key, which replaces the client's credential; "" leaves that.
  /// The client's credential is its key for weir. No key and no other credential (is_credential(),
  /// without_credentials(), other_credential_of()) goes to a replica, in whatever field or parameter.
  bool client_key_ends_here = false;
  bool keep_credentials = true;  ///< False: no credential goes on.
  std::string_view shadow{};     ///< The request is a copy for the shadow of this name, and says so.
  Forwarded way{};               ///< The forwarding fields. A copy has none.
  std::string_view via{};        ///< weir's name in Via: see name_in_via(). "" adds no such field.
};
std::string upstream_head(const RequestHead& client, const UpstreamRequest& request);

/// True for a field that goes to no replica: its name has a `_`. Some servers read `-` and `_` as one, so it could pass
/// for another field behind weir.
inline bool may_pass_for_another(const HeaderField& field) {
  return field.known == FieldName::other && field.name.find('_') != std::string_view::npos;
}

/// Says how the answer's body reaches the client.
enum class ClientFraming : std::uint8_t { none, length, chunked, close };

struct ClientAnswer {
  bool http_1_1 = true;  ///< The client's version.
  ClientFraming framing = ClientFraming::none;
  std::uint64_t length = 0;  ///< Set with ClientFraming::length.
  bool keep_alive = true;
  bool event_stream = false;
  std::string_view request_id;
  std::string_view weir_id;  ///< Weir's own id, which the log has.
  std::string_view replica;  ///< "" means that it is not named.
  /// The fields, each with its CRLF, that replace the replica's CORS fields, if set.
  std::optional<std::string_view> cors{};
};
std::string client_head(const ResponseHead& replica, const ClientAnswer& answer);

// The lines that heads are made of, each appended with its CRLF.

inline void add_field(std::string& out, std::string_view name, std::string_view value) {
  using namespace std::string_view_literals;
  out.append(name).append(": "sv).append(value).append("\r\n"sv);
}

/// Adds the status line, with HTTP's reason phrase if the status has one.
void add_status_line(std::string& out, unsigned code, bool http_1_1);

/// Adds Connection where it differs from the version's default: HTTP/1.1 that closes, HTTP/1.0 that stays open.
void add_connection(std::string& out, bool http_1_1, bool keep_alive);

}  // namespace weir::proxy::http
