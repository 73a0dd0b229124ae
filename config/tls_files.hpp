// Reads the files of TLS and judges them, so that a settings file with a wrong one is refused at its line.
//
// net/tls makes its contexts by the same functions. What is read here is found fit there, too.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "config/settings.hpp"

struct ssl_ctx_st;

namespace weir::config {

/// Says what is wrong with a file, and which key names it.
struct TlsProblem {
  std::string key;   ///< "cert", "key" or "ca".
  std::string text;  ///< The end of "KEY = VALUE: ...". It shows nothing of a key.
};

/// The contents of a certificate's two files, in PEM.
struct CertificatePem {
  std::string chain, key;
};

/// Reads both files; each has at most 1 MiB.
std::variant<CertificatePem, TlsProblem> read_certificate(const Certificate& files);
/// Reads a file of trusted certificates.
std::variant<std::string, TlsProblem> read_authorities(const std::string& file);

/// Gives a context the chain and its key. Returns why they are refused.
std::optional<TlsProblem> use_certificate(ssl_ctx_st& context, const CertificatePem& pem);
/// Lets a context trust these certificates, and no others.
std::optional<TlsProblem> trust(ssl_ctx_st& context, const std::string& authorities);

/// Reads and judges files as weir would use them.
std::optional<TlsProblem> judge(const Certificate& files);
std::optional<TlsProblem> judge_authorities(const std::string& file);

}  // namespace weir::config
