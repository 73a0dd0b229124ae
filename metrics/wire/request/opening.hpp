// Hashes that with which a conversation opens: its messages up to and including the first one of the user. All turns of
// one conversation open alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/sip_hash.hpp"
#include "metrics/universal_hash.hpp"

namespace weir::metrics::wire {

/// Texts are long, and hashed by the second; what leaves the process is hashed by the first.
struct ConversationKey {
  explicit ConversationKey(const SipKey& secret) : numbers(secret), texts(secret) {}
  SipKey numbers;
  UniversalKey texts;
};

/// Reads one outermost member of a request after another. What a message says are its role and its text, escapes
/// undone, in whatever parts it comes. Without a key nothing is hashed.
class Opening {
 public:
  static constexpr std::string_view user = "user";  ///< The role of the user's messages.

  enum class Of : std::uint8_t { nothing, text, messages };

  /// The key must outlive the opening.
  void set_key(const ConversationKey* key) { key_ = key; }
  const ConversationKey* key() const { return key_; }
  void begin(Of of) {
    of_ = key_ != nullptr ? of : Of::nothing;
    if (of_ != Of::nothing) {
      all_ = SipHash(key_->numbers);
      message_.emplace(key_->texts);
    }
    whole_ = false;
  }
  /// True while text has to be added.
  bool takes_text() const { return of_ != Of::nothing && !whole_; }
  void add(std::string_view piece) {
    if (takes_text()) message_->add(piece);
  }
  void end_message(std::string_view role) {
    if (of_ != Of::messages || whole_) return;
    all_.add(role);
    all_.add(separator);
    all_.add(message_->value());
    message_.emplace(key_->texts);
    whole_ = role == user;
  }
  /// Keeps two texts of one member apart.
  void end_text() { add(separator); }
  /// Absent for messages none of which is the user's.
  std::optional<std::uint64_t> value() const {
    if (of_ == Of::text) return message_->value();
    return whole_ ? std::optional(all_.value()) : std::nullopt;
  }

 private:
  static constexpr std::string_view separator = "\xFF";  // No UTF-8 has this byte.

  const ConversationKey* key_ = nullptr;
  Of of_ = Of::nothing;
  bool whole_ = false;  // The first message of the user has ended.
  SipHash all_{{}};
  std::optional<UniversalHash> message_;
};

}  // namespace weir::metrics::wire
