// Why a TLS handshake failed, as a number beside the system's errors: see net::connect_error_text().
#pragma once

#include <string>

namespace weir::proxy::net::tls {

/// The peer closed the connection within the handshake.
inline constexpr int ended_within_handshake = -2;

/// Returns the failure for OpenSSL's X509_V_ERR_*.
constexpr int failed_verification(long code) { return -1000 - static_cast<int>(code); }
/// Returns the failure for the reason of an error of OpenSSL's SSL library.
constexpr int failed_handshake(int reason) { return -10'000 - reason; }

/// True if a number is such a failure, and no error of the system's.
constexpr bool is_failure(int error) { return error <= ended_within_handshake; }

/// Returns it as a part of a sentence, such as "TLS: certificate verify failed: self-signed certificate".
std::string failure_text(int failure);

}  // namespace weir::proxy::net::tls
