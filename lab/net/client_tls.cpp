#include "lab/net/client_tls.hpp"

#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <stdexcept>

namespace weir::lab::net {

namespace ssl = boost::asio::ssl;

std::shared_ptr<ssl::context> client_context(const std::string& ca) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(ssl::verify_peer);
  boost::system::error_code error;
  if (ca.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(ca, error);
  }
  if (error) throw std::invalid_argument("\"" + ca + "\" must be a file of certificates in PEM: " + error.message());
  return context;
}

void expect_host(SSL* connection, const std::string& host) {
  boost::system::error_code no_address;
  boost::asio::ip::make_address(host, no_address);
  if (!no_address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str());
    return;
  }
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  SSL_set1_host(connection, host.c_str());
  SSL_set_tlsext_host_name(connection, host.c_str());
}

std::string handshake_problem(const SSL* connection, const boost::system::error_code& error) {
  std::string problem = "TLS: " + error.message();
  if (const long verdict = SSL_get_verify_result(connection); verdict != X509_V_OK)
    problem = std::string("TLS: certificate verify failed: ") + X509_verify_cert_error_string(verdict);
  return problem;
}

}  // namespace weir::lab::net
