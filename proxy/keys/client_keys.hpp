// Clients' keys: whose a credential is, requests under way, and how keys are made.
//
// The keys of clients at run time: whose a credential is, and how many requests each key has.
//
// The time of a look-up reveals nothing of the keys. The look-up goes by a keyed hash (SipHash, with a random key of
// these ClientKeys' own) of the credential's SHA-256: its place depends on a number that no client can compute or
// choose. Only a whole 64-bit match is compared with the stored hash, and that in constant time. A look-up costs a
// SHA-256 and a step in a hash table, however many keys there are. A slow hash, as for passwords, would cost each
// request its time and guard nothing: keys are 256 random bits.
//
// A ClientKeys never changes, and any thread may use it. A reload makes another one, which takes over the counts.
// Requests are counted by the secret that they showed, and count for the key that has this secret now, whatever its
// name is. The secret of a key that has got a new one counts with the new one. A secret that has left is remembered
// while it has requests, for it may come back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/settings.hpp"
#include "metrics/hash.hpp"

namespace weir::proxy::keys {

using Sha256 = std::array<std::uint8_t, 32>;

/// Costs about a quarter of a microsecond for a key.
Sha256 sha256(std::string_view bytes);

/// Returns 64 hex digits.
std::string hex(const Sha256& hash);

/// The use of one secret, shared by all ClientKeys that know it.
struct KeyUse {
  std::atomic<std::uint32_t> requests{0};  ///< Under way or waiting.
  std::atomic<std::size_t> held{0};        ///< Bytes of limits.buffer_memory that they hold.
  std::atomic<std::uint32_t> waiting{0};   ///< Of the requests, those in a queue.
  /// Counts the requests whose wait has ended, and adds up how long they waited.
  std::atomic<std::uint64_t> waits{0}, waited_nanoseconds{0};
};

struct ClientKey {
  const config::ClientKey& settings;  ///< The ClientKeys own them.
  std::shared_ptr<KeyUse> use;
  /// The use of the secrets that the key had before and that may still have requests. The ClientKeys own them.
  std::vector<const KeyUse*> earlier{};

  /// True if the key may use this model. A key that is limited to models may use nothing without a name ("").
  bool may_use(std::string_view model) const;
  /// Returns how many requests count for the key beside those of its secret.
  std::uint32_t of_earlier_secrets() const;
};

class ClientKeys {
 public:
  /// `before` may be null. Throws std::runtime_error if the system has no random numbers.
  ClientKeys(config::SharedList<config::ClientKey> keys, const ClientKeys* before);

  const config::SharedList<config::ClientKey>& settings() const { return settings_; }
  /// Returns the key that a client has sent; null if it is none of these.
  const ClientKey* find(std::string_view credential) const;
  /// Calls look(key) for each key, in no order.
  template <class Look>
  void each(const Look& look) const {
    for (const auto& [place, key] : keys_) look(key);
  }
  /// Returns how many secrets that have left it remembers.
  std::size_t remembered() const { return gone_.size(); }

 private:
  /// A secret that is none of these, and may have requests.
  struct Gone {
    std::shared_ptr<KeyUse> use;
    Sha256 counts_for;  ///< The secret with which its requests count: its own if that of no key took its place.
  };
  const ClientKey* key_of(const Sha256& hash) const;
  std::shared_ptr<KeyUse> use_of(const Sha256& hash) const;
  void remember(const ClientKeys& before);

  config::SharedList<config::ClientKey> settings_;
  metrics::SipKey secret_;
  std::unordered_multimap<std::uint64_t, ClientKey> keys_;  ///< By the keyed hash of the key's SHA-256.
  std::map<Sha256, Gone> gone_;
};

/// A place among the requests that a key may have at a time. It is given back when this ends.
class KeySlot {
 public:
  /// `key` may be null: then there is always a place.
  explicit KeySlot(const ClientKey* key);
  ~KeySlot();
  KeySlot(const KeySlot&) = delete;
  KeySlot& operator=(const KeySlot&) = delete;

  bool got() const { return got_; }

 private:
  std::shared_ptr<KeyUse> use_;
  bool got_ = true;
};

// Makes clients' keys: `weir key new` and `weir key hash`.

/// Returns 256 random bits as text: `weir-` and 43 characters of base64url. Throws std::runtime_error if the system has
/// no random numbers.
std::string random_key();

struct NewKey {
  std::string name;
  std::vector<std::string> models;
  std::optional<std::uint32_t> max_in_flight;
  std::optional<double> share;
  std::string append_to;  ///< A file of keys, which is made if it is not there; "" prints the lines.
};

/// Returns the lines that stand for this key in a file of keys. Only its hash is in them.
std::string lines_of(const NewKey& wanted, const std::string& key);

/// Prints a new key alone on standard output, and says on standard error what is to be done with it. Nothing is
/// printed or written if the file of keys would be wrong with it. Returns the program's exit status.
int make_key(const NewKey& wanted);

/// Reads a key from standard input and prints its hash. The newline at its end is no part of it. Returns the program's
/// exit status.
int print_hash();

}  // namespace weir::proxy::keys
