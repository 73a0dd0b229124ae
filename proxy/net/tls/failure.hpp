// Why a TLS handshake failed, as a number beside the system's errors: see net::connect_error_text().
#pragma once

#include <string>

namespace weir::proxy::net::tls {

/// The peer closed the connection within the handshake.
inline constexpr int ended_within_handshake = -2;

/// The client's address owes too much CPU: see CpuAccount.
inline constexpr int costs_too_much = -3;

/// Returns the failure for OpenSSL's X509_V_ERR_*.
constexpr int failed_verification(long code) { return -1000 - static_cast<int>(code); }
/// Returns the failure for the reason of an error of OpenSSL's SSL library.
constexpr int failed_handshake(int reason) { return -10'000 - reason; }

/// True if the reason is the alert of a peer that does not take the certificate it was shown, or was shown none.
/// TLS 1.3 tells of that after the handshake (RFC 8446, 4.4.2.4), TLS 1.2 within it.
bool refuses_certificate(int reason);

/// True if a number is such a failure, and no error of the system's.
constexpr bool is_failure(int error) { return error <= ended_within_handshake; }

/// Returns it as a part of a sentence, such as "TLS: certificate verify failed: self-signed certificate".
std::string failure_text(int failure);

}  // namespace weir::proxy::net::tls
