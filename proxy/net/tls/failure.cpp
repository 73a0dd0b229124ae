#include "proxy/net/tls/failure.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>

namespace weir::proxy::net::tls {
namespace {

std::string verification_text(long code) {
  if (code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH)
    return "the certificate is for other names";
  return X509_verify_cert_error_string(code);
}

}  // namespace

std::string failure_text(int failure) {
  if (failure == ended_within_handshake) return "TLS: the connection was closed within the handshake";
  if (failure > failed_handshake(0))
    return "TLS: certificate verify failed: " + verification_text(failed_verification(0) - failure);
  const int reason = failed_handshake(0) - failure;
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return "TLS: the peer does not speak TLS";
  const char* const text = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  return "TLS: the handshake failed: " + (text != nullptr ? std::string(text) : "reason " + std::to_string(reason));
}

}  // namespace weir::proxy::net::tls
