// The names of the header fields that weir knows. A name is looked up once, when its head is parsed; rules then compare
// numbers. Stateless. A look-up costs a hash of three characters, and one comparison where that finds a name.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::proxy::http {

/// A known name, whatever the case of its letters.
enum class FieldName : std::uint8_t {
  other,
  accept_encoding,
  api_key,
  authorization,
  cache_control,
  close,  ///< An option of Connection: no field has this name.
  connection,
  content_encoding,
  content_length,
  content_type,
  cookie,
  expect,
  forwarded,
  host,
  keep_alive,
  ocp_apim_subscription_key,
  origin,
  proxy_authenticate,
  proxy_authorization,
  proxy_connection,
  te,
  trailer,
  transfer_encoding,
  upgrade,
  via,
  x_accel_buffering,
  x_access_token,
  x_amz_security_token,
  x_api_key,
  x_auth_token,
  x_forwarded_for,
  x_goog_api_key,
  x_real_ip,
  x_request_id,
  x_weir_id,
  x_weir_replica,
  x_weir_shadow,
};

/// Returns FieldName::other for any text that is none of them.
FieldName field_name(std::string_view text);

}  // namespace weir::proxy::http
