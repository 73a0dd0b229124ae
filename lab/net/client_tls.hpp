// TLS of the tools' own clients: whose certificates they trust, and which host they expect.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <string>

namespace weir::lab::net {

/// Returns a context that demands a certificate of an authority in the PEM file `ca`, or, if that is "", of one in
/// OpenSSL's default store (SSL_CERT_FILE and SSL_CERT_DIR change that). Throws std::invalid_argument with a sentence
/// if the file cannot be used.
std::shared_ptr<boost::asio::ssl::context> client_context(const std::string& ca);

/// Lets a connection that is to begin name this host, a name or an address, and demand its certificate.
void expect_host(SSL* connection, const std::string& host);

/// Returns why a handshake failed, such as "TLS: certificate verify failed: self-signed certificate".
std::string handshake_problem(const SSL* connection, const boost::system::error_code& error);

}  // namespace weir::lab::net
