#include "config/tls.hpp"

#include "config/tls_files.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

const Text path{4096};

/// Reads cert and key, which stand together. Returns nothing if one of them is missing or wrong.
std::optional<Certificate> read_certificate(TableReader& table) {
  Certificate files;
  const auto* cert = table.read("cert", files.cert, path);
  const auto* key = table.read("key", files.key, path);
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

void read_groups(TableReader& table, std::string& groups) {
  const auto* written = table.read("groups", groups, Text{1024});
  if (!written) return;
  if (const auto problem = judge_groups(groups)) table.blame("groups", *written, problem->text);
}

}  // namespace

void read_server_tls(TableReader& server, Server& settings, Report& report) {
  const auto& source = server.table("tls");
  if (source.source().begin.line == 0) return;  // There is none, or it is no table, which is an error already.
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
  if (auto files = read_certificate(table)) tls.certificates.push_back(std::move(*files));
  read_groups(table, tls.groups);
  for (const auto* more : table.tables("more")) {
    TableReader one("[[server.tls.more]]", *more, report);
    need(one);
    refuse_half(one);
    if (auto files = read_certificate(one)) tls.certificates.push_back(std::move(*files));
    one.refuse_the_rest();
  }
  table.refuse_the_rest();
  settings.tls = std::move(tls);
}

void read_replica_tls(TableReader& replica, const std::string& title, Replica& settings, Report& report) {
  const auto& source = replica.table("tls");
  if (source.source().begin.line == 0) return;
  TableReader table(title + " tls", source, report);
  auto& tls = settings.tls;
  if (replica.has("url") && !settings.url.authority.empty() && !settings.url.tls)
    table.blame_table(
        "the url of this replica does not say https, so that nothing would be encrypted; write https:// "
        "there, or leave tls out");
  const auto* ca = table.read("ca", tls.ca, path);
  table.read("server_name", tls.server_name, Text{253});
  const auto* verify = table.read("verify", tls.verify, &flag);
  if (ca) {
    if (const auto problem = judge_authorities(tls.ca)) table.blame("ca", *ca, problem->text);
  }
  if (ca && verify && !tls.verify)
    table.blame("verify", *verify,
                "means that no certificate is checked, so that ca has no use; leave one of them out");
  refuse_half(table);
  tls.own = read_certificate(table);
  read_groups(table, tls.groups);
  table.refuse_the_rest();
}

}  // namespace weir::config
