#include "proxy/net/tls/failure.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>

#include <string_view>

namespace weir::proxy::net::tls {
namespace {

std::string verification_text(long code) {
  if (code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH)
    return "the certificate is for other names";
  return X509_verify_cert_error_string(code);
}

/// Returns the words of an alert, without OpenSSL's account of the version that brought it.
std::string alert_text(int reason) {
  constexpr std::string_view mark = " alert ";
  const char* const words = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  const std::string_view text = words != nullptr ? words : "";
  const auto at = text.find(mark);
  return std::string(at == text.npos ? text : text.substr(at + mark.size()));
}

}  // namespace

bool refuses_certificate(int reason) {
  switch (reason) {
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

std::string failure_text(int failure) {
  if (failure == ended_within_handshake) return "TLS: the connection was closed within the handshake";
  if (failure == costs_too_much) return "TLS: the handshakes of this address take too much CPU";
  if (failure > failed_handshake(0))
    return "TLS: certificate verify failed: " + verification_text(failed_verification(0) - failure);
  const int reason = failed_handshake(0) - failure;
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return "TLS: the peer does not speak TLS";
  if (refuses_certificate(reason)) return "TLS: the replica refused weir's certificate: " + alert_text(reason);
  const char* const text = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  return "TLS: the handshake failed: " + (text != nullptr ? std::string(text) : "reason " + std::to_string(reason));
}

}  // namespace weir::proxy::net::tls
