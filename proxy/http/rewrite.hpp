// Writes heads in one canonical form: that of the request to a replica, and that of its answer to a client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::http {

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
  std::string_view via{};        ///< weir's name in Via: see http/via. "" adds no such field.
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
