#include "proxy/net/tls/context.hpp"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <ctime>
#include <stdexcept>

#include "config/tls_files.hpp"
#include "config/url.hpp"

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

}  // namespace weir::proxy::net::tls
