#include "config/tls.hpp"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <vector>

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
  table.report.note_secret_file(files.key);
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

namespace {

template <class T, void (*Free)(T*)>
struct Freeing {
  void operator()(T* object) const { Free(object); }
};
using Bio = std::unique_ptr<BIO, Freeing<BIO, BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, Freeing<X509, X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY, EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freeing<SSL_CTX, SSL_CTX_free>>;

constexpr std::size_t largest_pem = std::size_t{1024} * 1024;

std::variant<std::string, TlsProblem> read(const std::string& key, const std::string& path) {
  const auto unreadable = [&](const std::string& why) {
    return TlsProblem{key, "cannot read this file: " + why +
                               "; give the path of a file that weir may read, from the root or from where weir is "
                               "started"};
  };
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return unreadable(std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) return unreadable("it is no regular file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) return unreadable(std::generic_category().message(errno));
  std::string text;
  std::array<char, 16'384> part;
  while (const auto size = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), size);
    if (text.size() > largest_pem) return unreadable("it is larger than 1 MiB");
  }
  return text;
}

/// Returns the reason of OpenSSL's oldest error, and forgets all.
std::string openssl_reason() {
  const char* const text = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return text != nullptr ? text : "OpenSSL gives no reason";
}

std::vector<X509Ptr> certificates_in(const std::string& pem) {
  std::vector<X509Ptr> all;
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509Ptr one{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) all.push_back(std::move(one));
  return all;
}

/// True if reading stopped at the end of the text, and not at a broken block.
bool read_to_the_end() {
  const auto error = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return at_end;
}

int no_pass_phrase(char*, int, int, void*) { return 0; }

}  // namespace

std::variant<CertificatePem, TlsProblem> read_certificate(const Certificate& files) {
  auto chain = read("cert", files.cert);
  if (auto* problem = std::get_if<TlsProblem>(&chain)) return std::move(*problem);
  auto key = read("key", files.key);
  if (auto* problem = std::get_if<TlsProblem>(&key)) return std::move(*problem);
  return CertificatePem{std::get<std::string>(std::move(chain)), std::get<std::string>(std::move(key))};
}

std::variant<std::string, TlsProblem> read_authorities(const std::string& file) { return read("ca", file); }

std::optional<TlsProblem> use_certificate(ssl_ctx_st& context, const CertificatePem& pem) {
  ERR_clear_error();
  const auto chain = certificates_in(pem.chain);
  if (!read_to_the_end() || chain.empty())
    return TlsProblem{"cert", chain.empty() ? "the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
                                            : "a certificate in the file is broken"};
  const Bio bio(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_pass_phrase, nullptr));
  ERR_clear_error();
  if (!key) {
    const bool encrypted = pem.key.find("ENCRYPTED") != std::string::npos;
    return TlsProblem{"key", encrypted ? "the key is encrypted, and nobody is asked for a pass phrase; write it "
                                         "without one (`openssl pkey -in FILE -out NEW`) where only weir can read it"
                                       : "the file holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"};
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return TlsProblem{"key", "does not belong to the first certificate of cert; give the key with which that was made"};
  }
  if (SSL_CTX_use_certificate(&context, chain.front().get()) != 1 || SSL_CTX_clear_chain_certs(&context) != 1)
    return TlsProblem{"cert", "OpenSSL refuses the certificate: " + openssl_reason()};
  for (std::size_t i = 1; i < chain.size(); ++i)
    if (SSL_CTX_add1_chain_cert(&context, chain[i].get()) != 1)
      return TlsProblem{"cert",
                        "OpenSSL refuses certificate " + std::to_string(i + 1) + " of the file: " + openssl_reason()};
  if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1)
    return TlsProblem{"key", "OpenSSL refuses the key: " + openssl_reason()};
  return std::nullopt;
}

std::optional<TlsProblem> trust(ssl_ctx_st& context, const std::string& authorities) {
  ERR_clear_error();
  const auto all = certificates_in(authorities);
  if (!read_to_the_end() || all.empty())
    return TlsProblem{"ca", all.empty() ? "the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
                                        : "a certificate in the file is broken"};
  auto* const store = SSL_CTX_get_cert_store(&context);
  for (const auto& one : all)
    if (X509_STORE_add_cert(store, one.get()) != 1)
      return TlsProblem{"ca", "OpenSSL refuses a certificate of the file: " + openssl_reason()};
  return std::nullopt;
}

std::optional<TlsProblem> use_groups(ssl_ctx_st& context, const std::string& groups, std::string_view own) {
  const auto takes = [&](const std::string& list) {
    const bool taken = SSL_CTX_set1_groups_list(&context, list.c_str()) == 1;
    ERR_clear_error();
    return taken;
  };
  const std::string usual(own);
  if (groups.empty() ? takes("X25519MLKEM768:" + usual) || takes(usual) : takes(groups)) return std::nullopt;
  return TlsProblem{"groups", "this OpenSSL (" + std::string(OpenSSL_version(OPENSSL_VERSION_STRING)) +
                                  ") does not take the list; give names of groups that it knows with colons between "
                                  "them, each once, such as \"X25519:P-256:P-384\""};
}

std::optional<TlsProblem> judge(const Certificate& files) {
  auto pem = read_certificate(files);
  if (auto* problem = std::get_if<TlsProblem>(&pem)) return std::move(*problem);
  const ContextPtr context(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_security_level(context.get(), 2);
  return use_certificate(*context, std::get<CertificatePem>(pem));
}

std::optional<TlsProblem> judge_groups(const std::string& groups) {
  const ContextPtr context(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_security_level(context.get(), 2);
  return use_groups(*context, groups, "");
}

std::optional<TlsProblem> judge_authorities(const std::string& file) {
  auto pem = read_authorities(file);
  if (auto* problem = std::get_if<TlsProblem>(&pem)) return std::move(*problem);
  const ContextPtr context(SSL_CTX_new(TLS_method()));
  return trust(*context, std::get<std::string>(pem));
}

}  // namespace weir::config
