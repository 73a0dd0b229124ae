// Reads the tables of TLS: [server.tls], [[server.tls.more]] and a replica's tls. Each file that they name is read and
// judged, so that a wrong one is found with the settings, at its line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads [server.tls] of [server]; there is none without the table.
void read_server_tls(TableReader& server, Server& settings, Report& report);

/// Reads `tls` of the replica with this title. It is refused where the url does not say https.
void read_replica_tls(TableReader& replica, const std::string& title, Replica& settings, Report& report);

}  // namespace weir::config

// Reads the files and lists of TLS and judges them, so that a settings file with a wrong one is refused at its line.
//
// net/tls makes its contexts by the same functions. What is read here is found fit there, too.

struct ssl_ctx_st;

namespace weir::config {

/// Says what is wrong with a file, and which key names it.
struct TlsProblem {
  std::string key;   ///< "cert", "key", "ca" or "groups".
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

/// The groups by which weir exchanges keys unless the settings list others; X25519MLKEM768 stands in front where
/// OpenSSL has it. A client may ask for any of its list, with a share that it has not computed: P-384 would cost weir 4
/// ms (OpenSSL 3.0), and the largest finite-field group of OpenSSL's own list 0.2 s (CVE-2002-20001). To replicas weir
/// connects itself.
inline constexpr std::string_view groups_for_clients = "X25519:P-256", groups_for_replicas = "X25519:P-256:P-384";

/// Lets a context exchange keys by these groups alone; "" stands for weir's `own`.
std::optional<TlsProblem> use_groups(ssl_ctx_st& context, const std::string& groups, std::string_view own);

/// Reads and judges files as weir would use them.
std::optional<TlsProblem> judge(const Certificate& files);
std::optional<TlsProblem> judge_authorities(const std::string& file);
std::optional<TlsProblem> judge_groups(const std::string& groups);

}  // namespace weir::config
