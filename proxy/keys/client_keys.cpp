#include "proxy/keys/client_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "proxy/keys/sha256.hpp"

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

}  // namespace

bool ClientKey::may_use(std::string_view model) const {
  return settings.models.empty() || std::ranges::find(settings.models, model) != settings.models.end();
}

ClientKeys::ClientKeys(config::SharedList<config::ClientKey> keys, const ClientKeys* before)
    : settings_(std::move(keys)), secret_(random_sip_key()) {
  std::unordered_map<std::string_view, std::shared_ptr<KeyUse>> used;
  if (before != nullptr)
    for (const auto& [place, old] : before->keys_) used.emplace(old.settings.name, old.use);
  for (const auto& settings : settings_) {
    const auto old = used.find(settings.name);
    keys_.emplace(place_of(secret_, settings.sha256),
                  ClientKey{settings, old == used.end() ? std::make_shared<KeyUse>() : old->second});
  }
}

const ClientKey* ClientKeys::find(std::string_view credential) const {
  if (credential.empty() || credential.size() > longest) return nullptr;
  const auto hash = sha256(credential);
  const auto [begin, end] = keys_.equal_range(place_of(secret_, hash));
  for (auto one = begin; one != end; ++one)
    if (::CRYPTO_memcmp(one->second.settings.sha256.data(), hash.data(), hash.size()) == 0) return &one->second;
  return nullptr;
}

KeyPlace::KeyPlace(const ClientKey* key) {
  if (key == nullptr) return;
  const auto before = key->use->requests.fetch_add(1, std::memory_order_relaxed);
  if (key->settings.max_in_flight && before >= *key->settings.max_in_flight) {
    key->use->requests.fetch_sub(1, std::memory_order_relaxed);
    got_ = false;
  } else {
    use_ = key->use;
  }
}

KeyPlace::~KeyPlace() {
  if (use_) use_->requests.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace weir::proxy::keys
