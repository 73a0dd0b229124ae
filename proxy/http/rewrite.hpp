// Writes heads in one canonical form: the request to a replica, the answer to a client, and answers of weir's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/own_error.hpp"

namespace weir::proxy::http {

/// What the request to a replica adds to the client's or changes in it.
struct UpstreamRequest {
  const config::ReplicaUrl& url;
  std::uint64_t body_length = 0;
  std::string_view request_id;
  bool inspected = false;      ///< weir reads the answer, so it accepts no coding.
  std::string_view api_key{};  ///< It is the replica's and replaces the client's credential; with "" the client's goes
                               ///< on.
};
std::string upstream_head(const RequestHead& client, const UpstreamRequest& request);

/// Says how the answer's body reaches the client.
enum class ClientFraming : std::uint8_t { none, length, chunked, close };

struct ClientAnswer {
  bool http_1_1 = true;  ///< It is the client's version.
  ClientFraming framing = ClientFraming::none;
  std::uint64_t length = 0;  ///< It is set with ClientFraming::length.
  bool keep_alive = true;
  bool event_stream = false;
  std::string_view request_id;
  std::string_view weir_id;  ///< It is weir's own id, which the log has.
  std::string_view replica;  ///< "" means that it is not named.
};
std::string client_head(const ResponseHead& replica, const ClientAnswer& answer);

/// An answer of weir's own.
struct OwnAnswer {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::optional<OwnError> error;        ///< It replaces `body`, and is shaped for the API when it is sent.
  std::optional<unsigned> retry_after;  ///< It is in seconds.
};

OwnAnswer error_answer(unsigned status, std::string_view type, std::string_view code, std::string_view message);

/// What an answer of weir's own takes from the request.
struct OwnFraming {
  metrics::Api api = metrics::Api::other;
  bool http_1_1 = true;
  bool keep_alive = true;
  bool to_head = false;  ///< The answer goes out without the body.
  std::string_view request_id{};
  std::string_view weir_id{};
  std::string_view cors{};  ///< These are fields, each with its CRLF.
};
std::string own_answer(const OwnAnswer& answer, const OwnFraming& framing);

/// Returns the client's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else nothing.
std::optional<std::string_view> valid_request_id(std::string_view value);

}  // namespace weir::proxy::http
