#include "config/tls.hpp"

#include "config/tls_files.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

const Text path{4096};

constexpr About cert_of_server("File of the certificate and its chain in PEM, weir's own first.", true);
constexpr About key_of_server("File of its private key in PEM, not encrypted. Let nobody but weir read it.", true);

/// Reads cert and key, which stand together. Returns nothing if one of them is missing or wrong.
std::optional<Certificate> read_certificate(TableReader& table, const About& about_cert, const About& about_key,
                                            Certificate files = {}) {
  const auto* cert = table.read("cert", files.cert, path, about_cert);
  const auto* key = table.read("key", files.key, path, about_key);
  if (!cert || !key) return std::nullopt;
  if (const auto problem = judge(files)) {
    const bool of_key = problem->key == "key";
    table.blame(problem->key, of_key ? *key : *cert, problem->text);
    return std::nullopt;
  }
  table.note_secret_file(files.key);
  return files;
}

/// Refuses a certificate without a key, or a key without one.
void refuse_half(TableReader& table) {
  for (const auto& [one, other] : {std::pair{"cert", "key"}, std::pair{"key", "cert"}})
    if (table.has(one) && !table.has(other))
      table.blame_table(std::string(other) +
                        " is missing; a certificate and its key are two files in PEM, such as "
                        "cert = \"weir.pem\", key = \"weir.key\"");
}

void read_groups(TableReader& table, std::string& groups, const About& about) {
  const auto* written = table.read("groups", groups, Text{1024}, about);
  if (!written) return;
  if (const auto problem = judge_groups(groups)) table.blame("groups", *written, problem->text);
}

}  // namespace

void read_server_tls(TableReader& server, Server& settings, Report& report) {
  if (report.listing() != nullptr) {
    std::string all;
    const auto known = settings.tls.value_or(ServerTls{});
    for (const auto& one : known.certificates) all += (all.empty() ? "[" : ", ") + one.cert + " with " + one.key;
    server.list("tls", all.empty() ? all : all + ']');
    server.list("tls.groups", known.groups);
    return;
  }
  const auto& source = server.table(
      "tls",
      "With this table weir speaks TLS 1.2 and 1.3 with HTTP/1.1 at all addresses of `listen`, with forward "
      "secrecy, OpenSSL's security level 2 and session tickets. Plain HTTP gets 400. Files are read at the start and "
      "at each reload. A stream takes 23 KiB of memory in place of 9 KiB.");
  // There is none, or it is no table, which is an error already.
  if (source.source().begin.line == 0 && report.reference() == nullptr) return;
  TableReader table("[server.tls]", source, report);
  ServerTls tls;
  const auto need = [](TableReader& one) {
    if (!one.has("cert") && !one.has("key"))
      one.blame_table(
          "cert and key are missing; name the files of a certificate and its key in PEM, such as cert = "
          "\"weir.pem\", key = \"weir.key\"");
  };
  need(table);
  refuse_half(table);
  if (auto files = read_certificate(table, cert_of_server, key_of_server))
    tls.certificates.push_back(std::move(*files));
  read_groups(table, tls.groups,
              "Groups of the key exchange, as OpenSSL lists them, for all certificates. Without it: `X25519:P-256`, "
              "with `X25519MLKEM768` in front where OpenSSL has it. Leave out finite-field groups (`ffdhe...`) where "
              "strangers connect: a hello then costs up to 0.2 s of CPU.");
  for (const auto* more : table.tables("more",
                                       "Another certificate. The name that the client asks for (SNI) chooses: an "
                                       "exact one, then a wildcard for one label. All other clients get the "
                                       "certificate of `[server.tls]`.")) {
    TableReader one("[[server.tls.more]]", *more, report);
    need(one);
    refuse_half(one);
    if (auto files = read_certificate(one, cert_of_server, key_of_server))
      tls.certificates.push_back(std::move(*files));
    one.refuse_the_rest();
  }
  table.refuse_the_rest();
  settings.tls = std::move(tls);
}

void read_replica_tls(TableReader& replica, const std::string& title, Replica& settings, Report& report) {
  const auto& source = replica.table(
      "tls",
      "How weir speaks TLS to a replica whose url says `https`. Without it the replica's certificate is checked "
      "against the system's authorities. In one line: `tls = { ca = \"ca.pem\" }`.");
  if (source.source().begin.line == 0 && report.reads_file()) return;
  TableReader table(title + " tls", source, report);
  auto& tls = settings.tls;
  if (replica.has("url") && !settings.url.authority.empty() && !settings.url.tls)
    table.blame_table(
        "the url of this replica does not say https, so that nothing would be encrypted; write https:// "
        "there, or leave tls out");
  const auto* ca = table.read("ca", tls.ca, path,
                              "File of certificates in PEM whose owners may sign the replica's certificate, in place "
                              "of the system's authorities.");
  table.read("server_name", tls.server_name, Text{253},
             "Name that the replica's certificate has to have, and that weir asks for (SNI). Without it: the url's "
             "host.");
  const auto* verify = table.read("verify", tls.verify, flag,
                                  "`false`: weir accepts any server there. The traffic is encrypted, but whoever is "
                                  "on the way may read and alter it.");
  if (ca) {
    if (const auto problem = judge_authorities(tls.ca)) table.blame("ca", *ca, problem->text);
  }
  if (ca && verify && !tls.verify)
    table.blame("verify", *verify,
                "means that no certificate is checked, so that ca has no use; leave one of them out");
  refuse_half(table);
  tls.own = read_certificate(table, "File of a certificate that weir shows to a replica that demands one.",
                             "File of its private key in PEM. `cert` and `key` stand together.",
                             tls.own.value_or(Certificate{}));
  read_groups(table, tls.groups,
              "Groups of the key exchange with this replica. Without it: `X25519:P-256:P-384`, with `X25519MLKEM768` "
              "in front where OpenSSL has it.");
  table.refuse_the_rest();
}

}  // namespace weir::config
