#include "proxy/keys/client_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace weir::proxy::keys {
namespace {

metrics::SipKey random_sip_key() {
  metrics::SipKey key;
  static_assert(sizeof key == 16);
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(&key), sizeof key) != 1)
    throw std::runtime_error("the system gives no random numbers for the look-up of clients' keys");
  return key;
}

/// A head has room for more, and to hash it would cost a tenth of a millisecond.
constexpr std::size_t longest = 4096;

std::uint64_t place_of(const metrics::SipKey& secret, const Sha256& hash) {
  return metrics::sip_hash(secret, {reinterpret_cast<const char*>(hash.data()), hash.size()});
}

/// Returns the key in this table whose secret has this hash; null if there is none.
template <class Table>
auto* found_in(Table& keys, const metrics::SipKey& secret, const Sha256& hash) {
  const auto [begin, end] = keys.equal_range(place_of(secret, hash));
  const auto found = std::find_if(begin, end, [&](const auto& one) {
    return ::CRYPTO_memcmp(one.second.settings.sha256.data(), hash.data(), hash.size()) == 0;
  });
  return found == end ? nullptr : &found->second;
}

}  // namespace

bool ClientKey::may_use(std::string_view model) const {
  return settings.models.empty() || std::ranges::find(settings.models, model) != settings.models.end();
}

std::uint32_t ClientKey::of_earlier_secrets() const {
  std::uint32_t requests = 0;
  for (const auto* one : earlier) requests += one->requests.load(std::memory_order_relaxed);
  return requests;
}

ClientKeys::ClientKeys(config::SharedList<config::ClientKey> keys, const ClientKeys* before)
    : settings_(std::move(keys)), secret_(random_sip_key()) {
  for (const auto& settings : settings_) {
    auto use = before == nullptr ? nullptr : before->use_of(settings.sha256);
    keys_.emplace(place_of(secret_, settings.sha256),
                  ClientKey{settings, use ? std::move(use) : std::make_shared<KeyUse>()});
  }
  if (before != nullptr) remember(*before);
  for (const auto& [hash, gone] : gone_)
    if (auto* const key = found_in(keys_, secret_, gone.counts_for)) key->earlier.push_back(gone.use.get());
}

/// Takes over the secrets that are none of these keys'.
void ClientKeys::remember(const ClientKeys& before) {
  std::unordered_map<std::string_view, const Sha256*> named;
  for (const auto& settings : settings_) named.emplace(settings.name, &settings.sha256);
  for (const auto& [place, old] : before.keys_) {
    const auto& hash = old.settings.sha256;
    if (key_of(hash) != nullptr) continue;
    const auto same_name = named.find(old.settings.name);
    const bool has_new_secret = same_name != named.end() && before.key_of(*same_name->second) == nullptr;
    gone_.emplace(hash, Gone{old.use, has_new_secret ? *same_name->second : hash});
  }
  for (const auto& [hash, old] : before.gone_) {
    const bool only_here = old.use.use_count() == 1;
    if (only_here || key_of(hash) != nullptr) continue;
    const auto left_now = gone_.find(old.counts_for);
    gone_.emplace(hash, Gone{old.use, left_now == gone_.end() ? old.counts_for : left_now->second.counts_for});
  }
}

const ClientKey* ClientKeys::find(std::string_view credential) const {
  if (credential.empty() || credential.size() > longest) return nullptr;
  return key_of(sha256(credential));
}

const ClientKey* ClientKeys::key_of(const Sha256& hash) const { return found_in(keys_, secret_, hash); }

std::shared_ptr<KeyUse> ClientKeys::use_of(const Sha256& hash) const {
  if (const auto* const key = key_of(hash)) return key->use;
  const auto gone = gone_.find(hash);
  return gone == gone_.end() ? nullptr : gone->second.use;
}

KeySlot::KeySlot(const ClientKey* key) {
  if (key == nullptr) return;
  const auto before = key->use->requests.fetch_add(1, std::memory_order_relaxed);
  if (key->settings.max_in_flight && before + key->of_earlier_secrets() >= *key->settings.max_in_flight) {
    key->use->requests.fetch_sub(1, std::memory_order_relaxed);
    got_ = false;
  } else {
    use_ = key->use;
  }
}

KeySlot::~KeySlot() {
  if (use_) use_->requests.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

template <auto free>
struct Freed {
  void operator()(auto* one) const { free(one); }
};

template <class One>
One* there(One* one) {
  if (one == nullptr) throw std::bad_alloc();
  return one;
}

/// OpenSSL looks its function up by name for each call of SHA256(), and makes a context. Both cost more than the hash.
EVP_MD_CTX& context_of_thread() {
  // A failed initialisation is tried again by the next call.
  static const std::unique_ptr<EVP_MD, Freed<::EVP_MD_free>> function(
      there(::EVP_MD_fetch(nullptr, "SHA256", nullptr)));
  thread_local const std::unique_ptr<EVP_MD_CTX, Freed<::EVP_MD_CTX_free>> context(there(::EVP_MD_CTX_new()));
  if (::EVP_DigestInit_ex2(context.get(), function.get(), nullptr) != 1) throw std::bad_alloc();
  return *context;
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256 hash;
  auto& context = context_of_thread();
  if (::EVP_DigestUpdate(&context, bytes.data(), bytes.size()) != 1 ||
      ::EVP_DigestFinal_ex(&context, hash.data(), nullptr) != 1)
    throw std::bad_alloc();
  return hash;
}

std::string hex(const Sha256& hash) {
  std::string digits;
  for (const auto byte : hash) digits += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return digits;
}

}  // namespace weir::proxy::keys
