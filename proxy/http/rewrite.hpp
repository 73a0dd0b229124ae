// Heads go out in one canonical form: that of the request to a replica, and that of its answer to a client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::http {

/// What the request to a replica adds to, or changes of, the client's.
struct UpstreamRequest {
  const config::ReplicaUrl& url;
  std::uint64_t body_length = 0;
  std::string_view request_id;
  bool inspected = false;      ///< weir reads the answer: no coding is accepted for it.
  std::string_view api_key{};  ///< The replica's, in place of the client's credential; "" = the client's goes on.
};
std::string upstream_head(const RequestHead& client, const UpstreamRequest& request);

/// How the answer's body reaches the client.
enum class ClientFraming : std::uint8_t { none, length, chunked, close };

struct ClientAnswer {
  bool http_1_1 = true;  ///< The client's version.
  ClientFraming framing = ClientFraming::none;
  std::uint64_t length = 0;  ///< With ClientFraming::length.
  bool keep_alive = true;
  bool event_stream = false;
  std::string_view request_id;
  std::string_view weir_id;  ///< weir's own id, the log's.
  std::string_view replica;  ///< "" = not to be named.
};
std::string client_head(const ResponseHead& replica, const ClientAnswer& answer);

}  // namespace weir::proxy::http
