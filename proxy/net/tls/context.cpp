#include "proxy/net/tls/context.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <ctime>
#include <span>
#include <stdexcept>
#include <string_view>

#include "config/address.hpp"
#include "config/tls.hpp"

namespace weir::proxy::net::tls {
namespace {

constexpr std::string_view protocol = "\x08http/1.1";  // ALPN's form: a length, and the name.

[[noreturn]] void refuse(const std::string& table, const config::TlsProblem& problem, const std::string& file) {
  throw std::runtime_error(table + ' ' + problem.key + " = \"" + file + "\": " + problem.text);
}

ContextPtr make_context() {
  ContextPtr context(SSL_CTX_new(TLS_method()));
  if (!context) throw std::runtime_error("OpenSSL gives no TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_security_level(context.get(), 2);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

/// Returns the names of a certificate: those for which it was made, or else its subject's.
std::vector<std::string> names_of(const X509& certificate) {
  std::vector<std::string> names;
  const auto text_of = [](const ASN1_STRING* text) {
    return config::lower({reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                          static_cast<std::size_t>(ASN1_STRING_length(text))});
  };
  auto* const others =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(others); ++i) {
    const auto* const one = sk_GENERAL_NAME_value(others, i);
    if (one->type == GEN_DNS) names.push_back(text_of(one->d.dNSName));
  }
  if (others != nullptr) {
    GENERAL_NAMES_free(others);
    return names;
  }
  const auto* const subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) names.push_back(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  return names;
}

std::chrono::system_clock::time_point end_of(const X509& certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1) return std::chrono::system_clock::time_point::max();
  // A certificate without an end has the year 9999, which the clock cannot hold.
  constexpr int last_year = 2200 - 1900;
  if (end.tm_year >= last_year) return std::chrono::system_clock::time_point::max();
  return std::chrono::system_clock::from_time_t(::timegm(&end));
}

/// A client that offers no http/1.1 is refused; one that offers nothing speaks it.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  unsigned char* found = nullptr;
  const auto* const ours = reinterpret_cast<const unsigned char*>(protocol.data());
  if (SSL_select_next_proto(&found, size, ours, static_cast<unsigned>(protocol.size()), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

/// Where an SSL keeps its target. Asio's streams take OpenSSL's own place for such data for themselves.
int target_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

class Hash {
 public:
  void add(std::string_view text) {
    const auto size = std::to_string(text.size()) + ' ';
    all_.append(size).append(text);
  }
  Fingerprint value() const {
    Fingerprint hash;
    SHA256(reinterpret_cast<const unsigned char*>(all_.data()), all_.size(), hash.data());
    return hash;
  }

 private:
  std::string all_;
};

/// Gives a context its groups. They count among what makes a context another one.
void use_groups(SSL_CTX& context, const std::string& groups, std::string_view own, const std::string& table,
                Hash& hash) {
  hash.add(groups);
  if (const auto problem = config::use_groups(context, groups, own)) refuse(table, *problem, groups);
}

/// Gives a context the certificate of these files.
void use(SSL_CTX& context, const config::Certificate& files, const std::string& table, Hash& hash) {
  const auto pem = config::read_certificate(files);
  const auto* problem = std::get_if<config::TlsProblem>(&pem);
  std::optional<config::TlsProblem> refused;
  if (problem == nullptr) {
    const auto& [chain, key] = std::get<config::CertificatePem>(pem);
    hash.add(chain);
    hash.add(key);
    refused = config::use_certificate(context, std::get<config::CertificatePem>(pem));
    if (refused) problem = &*refused;
  }
  if (problem != nullptr) refuse(table, *problem, problem->key == "key" ? files.key : files.cert);
}

}  // namespace

ServerContext::ServerContext(const config::ServerTls& settings) : ticket_keys_(std::chrono::steady_clock::now()) {
  Hash hash;
  for (const auto& files : settings.certificates) {
    auto context = make_context();
    use(*context, files, contexts_.empty() ? "[server.tls]" : "[[server.tls.more]]", hash);
    use_groups(*context, settings.groups, config::groups_for_clients, "[server.tls]", hash);
    // Only ciphers with forward secrecy; those of TLS 1.3 all have it.
    SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_options(context.get(), SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CIPHER_SERVER_PREFERENCE);
    // A ticket holds the session, and weir keeps none.
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_set_session_id_context(context.get(), reinterpret_cast<const unsigned char*>("weir"), 4);
    ticket_keys_.serve(*context);
    SSL_CTX_set_alpn_select_cb(context.get(), &choose_protocol, nullptr);
    SSL_CTX_set_tlsext_servername_callback(context.get(), &ServerContext::choose);
    SSL_CTX_set_tlsext_servername_arg(context.get(), this);
    ends_ = std::min(ends_, end_of(*SSL_CTX_get0_certificate(context.get())));
    for (auto& name : names_of(*SSL_CTX_get0_certificate(context.get())))
      names_.emplace_back(std::move(name), contexts_.size());
    contexts_.push_back(std::move(context));
  }
  fingerprint_ = hash.value();
}

std::size_t ServerContext::certificate_for(std::string_view server_name) const {
  const auto wanted = config::lower(server_name);
  const auto find = [this](std::string_view name) {
    return std::ranges::find_if(names_, [name](const auto& one) { return one.first == name; });
  };
  auto found = find(wanted);
  if (const auto dot = wanted.find('.'); found == names_.end() && dot != std::string::npos && dot > 0)
    found = find('*' + wanted.substr(dot));
  return found == names_.end() ? 0 : found->second;
}

int ServerContext::choose(SSL* ssl, int*, void* self) {
  const auto& context = *static_cast<const ServerContext*>(self);
  const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name == nullptr) return SSL_TLSEXT_ERR_NOACK;
  SSL_set_SSL_CTX(ssl, context.contexts_[context.certificate_for(name)].get());
  return SSL_TLSEXT_ERR_OK;
}

SslPtr ServerContext::begin() const {
  SslPtr ssl(SSL_new(contexts_.front().get()));
  if (ssl) SSL_set_accept_state(ssl.get());
  return ssl;
}

ClientContext::ClientContext(const config::ReplicaTls& settings)
    : context_(make_context()), verifies_(settings.verify) {
  Hash hash;
  hash.add(verifies_ ? "verify" : "");
  SSL_CTX_set_verify(context_.get(), verifies_ ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (settings.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context_.get());
  } else {
    const auto pem = config::read_authorities(settings.ca);
    if (const auto* problem = std::get_if<config::TlsProblem>(&pem)) refuse("tls", *problem, settings.ca);
    hash.add(std::get<std::string>(pem));
    if (const auto problem = config::trust(*context_, std::get<std::string>(pem))) refuse("tls", *problem, settings.ca);
  }
  if (settings.own) use(*context_, *settings.own, "tls", hash);
  use_groups(*context_, settings.groups, config::groups_for_replicas, "tls", hash);
  SSL_CTX_set_alpn_protos(context_.get(), reinterpret_cast<const unsigned char*>(protocol.data()),
                          static_cast<unsigned>(protocol.size()));
  SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context_.get(), &Target::keep_session);
  fingerprint_ = hash.value();
}

Target::Target(std::shared_ptr<const ClientContext> context, std::string name)
    : context_(std::move(context)), name_(std::move(name)), is_address_([this] {
        boost::system::error_code error;
        boost::asio::ip::make_address(name_, error);
        return !error;
      }()) {}

SslPtr Target::begin() const {
  SslPtr ssl(SSL_new(&context_->get()));
  if (!ssl) return ssl;
  SSL_set_ex_data(ssl.get(), target_index(), const_cast<Target*>(this));
  if (!is_address_) SSL_set_tlsext_host_name(ssl.get(), name_.c_str());
  if (context_->verifies()) {
    auto* const parameters = SSL_get0_param(ssl.get());
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int set = is_address_ ? X509_VERIFY_PARAM_set1_ip_asc(parameters, name_.c_str())
                                : X509_VERIFY_PARAM_set1_host(parameters, name_.data(), name_.size());
    // Without a name to check, anyone's certificate would do. OpenSSL takes an empty name for none.
    if (name_.empty() || set != 1) return nullptr;
  }
  const std::lock_guard lock(mutex_);
  // Each connection has a copy, because loops on other threads use the session too.
  if (session_)
    if (const SessionPtr copy{SSL_SESSION_dup(session_.get())}) SSL_set_session(ssl.get(), copy.get());
  SSL_set_connect_state(ssl.get());
  return ssl;
}

/// OpenSSL calls it when the replica has given a session. A copy is kept, because OpenSSL forbids a session's use once
/// a connection of it ends without a close_notify. Returns 0: the session itself is not taken.
int Target::keep_session(SSL* ssl, SSL_SESSION* session) {
  const auto* const target = static_cast<const Target*>(SSL_get_ex_data(ssl, target_index()));
  if (target == nullptr || SSL_SESSION_is_resumable(session) != 1) return 0;
  SessionPtr copy{SSL_SESSION_dup(session)};
  const std::lock_guard lock(target->mutex_);
  target->session_ = std::move(copy);
  return 0;
}

Contexts::Contexts(const config::Settings& settings, const Contexts& before) {
  if (settings.server.tls) {
    server_ = std::make_shared<const ServerContext>(*settings.server.tls);
    if (before.server_ && before.server_->fingerprint() == server_->fingerprint()) server_ = before.server_;
  }
  for (const auto& pool : settings.pools)
    for (const auto& replica : pool.replicas) want(replica, before);
  for (const auto& shadow : settings.shadows)
    for (const auto& replica : shadow.replicas) want(replica, before);
}

void Contexts::want(const config::Replica& replica, const Contexts& before) {
  if (!replica.url.tls || client(replica.tls)) return;
  std::shared_ptr<const ClientContext> made;
  try {
    made = std::make_shared<const ClientContext>(replica.tls);
  } catch (const std::exception& error) {
    throw std::runtime_error("replica \"" + replica.name + "\" " + error.what());
  }
  const auto same = [&](const auto& old) {
    return old.first == replica.tls && old.second->fingerprint() == made->fingerprint();
  };
  const auto old = std::ranges::find_if(before.clients_, same);
  clients_.emplace_back(replica.tls, old != before.clients_.end() ? old->second : made);
}

std::shared_ptr<const ClientContext> Contexts::client(const config::ReplicaTls& settings) const {
  const auto found = std::ranges::find_if(clients_, [&](const auto& one) { return one.first == settings; });
  return found == clients_.end() ? nullptr : found->second;
}

namespace {

// The results of a callback for ticket keys (SSL_CTX_set_tlsext_ticket_key_evp_cb(3)).
constexpr int failed = -1, unknown = 0, known = 1, known_and_renewed = 2;

bool set_mac(EVP_MAC_CTX& mac, const std::array<unsigned char, 32>& key) {
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[]{
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, const_cast<unsigned char*>(key.data()), key.size()),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
  return EVP_MAC_CTX_set_params(&mac, parameters) == 1;
}

bool fill(std::span<unsigned char> bytes) { return RAND_priv_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1; }

template <class Key>
void wipe(Key& key) {
  OPENSSL_cleanse(&key, sizeof key);
}

}  // namespace

std::optional<TicketKeys::Key> TicketKeys::make() {
  Key key;
  if (!fill(key.name) || !fill(key.cipher) || !fill(key.mac)) return std::nullopt;
  return key;
}

TicketKeys::TicketKeys(metrics::Moment now) : made_(now) {
  const auto key = make();
  if (!key) throw std::runtime_error("OpenSSL gives no random bytes for session tickets");
  current_ = *key;
}

TicketKeys::~TicketKeys() {
  wipe(current_);
  if (before_) wipe(*before_);
}

void TicketKeys::tick(metrics::Moment now) {
  const std::lock_guard lock(mutex_);
  if (now - made_ < seals_for) return;
  auto next = make();
  if (!next) return;  // Tried again at the next look.
  if (before_) wipe(*before_);
  before_ = current_;
  if (now - made_ >= opens_for) {
    wipe(*before_);
    before_.reset();
  }
  current_ = *next;
  wipe(*next);
  made_ = now;
}

void TicketKeys::serve(SSL_CTX& context) {
  SSL_CTX_set_app_data(&context, this);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(&context, &TicketKeys::use);
}

int TicketKeys::use(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac,
                    int seals) {
  const auto& keys = *static_cast<const TicketKeys*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::lock_guard lock(keys.mutex_);
  // With TLS 1.3 each resumption brings another ticket, so that no two connections can be told to be one client's.
  return seals != 0 ? keys.seal(name, iv, *cipher, *mac)
                    : keys.open(name, iv, *cipher, *mac, SSL_version(ssl) >= TLS1_3_VERSION);
}

int TicketKeys::seal(unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac) const {
  const auto* const kind = EVP_aes_256_cbc();
  if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(kind)) != 1) return failed;
  std::ranges::copy(current_.name, name);
  const bool set = EVP_EncryptInit_ex(&cipher, kind, nullptr, current_.cipher.data(), iv) == 1;
  return set && set_mac(mac, current_.mac) ? known : failed;
}

int TicketKeys::open(const unsigned char* name, const unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac,
                     bool once) const {
  const auto is = [name](const Key& key) { return std::ranges::equal(key.name, std::span(name, key.name.size())); };
  const bool is_current = is(current_);
  if (!is_current && (!before_ || !is(*before_))) return unknown;
  const auto& key = is_current ? current_ : *before_;
  const bool set = EVP_DecryptInit_ex(&cipher, EVP_aes_256_cbc(), nullptr, key.cipher.data(), iv) == 1;
  if (!set || !set_mac(mac, key.mac)) return failed;
  return is_current && !once ? known : known_and_renewed;
}

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
