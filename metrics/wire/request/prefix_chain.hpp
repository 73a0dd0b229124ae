// Hashes a prompt's beginnings while its request is read: the chain of its messages or its text, and a seed of all that
// a template renders before them or that keeps caches apart.
//
// A hashed prompt is a sequence of texts and marks. Text is UTF-8, which has neither 0xFF nor 0xFE; a mark is 0xFF, a
// name and 0xFE, and after some marks come numbers of eight bytes each. So the bytes that are hashed can be read in one
// way only, and two different prompts never hash the same bytes. A message is
//
//   members of text: the fields of each member but a leading `content` begin with a mark of its name. A field is a
//     text and a mark without a name; a tree is its keys, strings, numbers and brackets, with a mark behind each
//   parts: a part of nothing but `text` is one field, as a `content` without parts is. Others have brackets, and each
//     member of text begins with `+` and its name
//   pictures, which stand for parts that are no text: a mark and a hash of their members
//   its end: a mark, and the sum of the keyed hashes of its short members (`role`, `name`, ids) and of those that no
//     dialect names, in whatever order they come
//
// A member that no dialect names may be rendered by a template, so two prompts with other such members have no common
// beginning: weir may miss a cached prefix, but it does not take one for cached that is not.
//
// Numbers count as they are written. The order of the members of a message counts, but
// for the short ones; the order of the outermost members does not.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/hash.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::metrics::wire {

/// Used by one thread. Hashing takes 0.4 ns a byte, with the undoing of escapes (`prefix_keys` of bench_micro). No text
/// is kept, and 16 bytes for each anchor: at most some 50 anchors for 4 KiB of a body, 500 for 4 MiB.
class PrefixChain {
 public:
  enum class Of : std::uint8_t { messages, text };

  static constexpr std::uint64_t picture_bytes = 4000;  ///< A part that is no text moves the position so far.
  /// A message moves the position so far, for what a template puts around it. So positions of messages always rise.
  static constexpr std::uint64_t message_bytes = 16;
  static constexpr std::uint64_t least_base = 256;  ///< From this length on, the seed's text has an anchor.
  static constexpr std::size_t last_ends = 32;      ///< So many last ends of messages are anchors always.

  /// The key must outlive the chain.
  explicit PrefixChain(const UniversalKey& key) : key_(key), chain_(key), part_(key), seed_{UniversalHash(key)} {}

  /// An outermost member begins that is the prompt. The last one counts; a prompt in two members of different names has
  /// no anchors. `member` tells members apart, by address.
  void begin_chain(const void* member, Of of);
  enum class Begin : std::uint8_t {
    seed,          ///< A member of the seed, which `member` tells apart. The last of one name counts.
    unknown_seed,  ///< An outermost member that no dialect names: part of the seed. All of one name count.
    member,        ///< A member of a message that is text.
    message_data,  ///< A member of a message that no dialect names.
    part,
    part_member,  ///< A member of a part that is text.
    part_data,    ///< A member of a part that is no text. It counts only if the part is a picture.
  };
  void begin(Begin what, std::string_view name = {}, const void* member = nullptr);
  enum class End : std::uint8_t { text, message_data, part_of_text, picture, message };
  void end(End what);
  /// A member of the seed is null, which is as if it were not there. Without `member` it is the open unknown one.
  void forget(const void* member);

  /// Text that is rendered.
  void add(std::string_view text);
  /// Text is rendered only as an id, which moves no position.
  void add_id(std::string_view text) { hash().add(text); }
  void token_id(double id);

  /// Tree: a bracket, or the end of a key, a string or a literal. In the seed it counts as so many bytes.
  void add_structure(std::string_view name, std::size_t bytes);
  /// The same of a number, which its text tells, or without one its value and length.
  void number(std::string_view text, double value, std::size_t bytes);
  /// A picture by itself, as a string.
  void add_picture(std::string_view piece, bool last);
  /// A short member.
  void add_label(std::string_view name, std::string_view piece, bool last);

  /// Returns null if nothing is known of the prompt. Nothing may be called afterwards. `more` is mixed into the seed:
  /// the model, and who may share.
  std::shared_ptr<const PromptPrefix> take(const UniversalHash& more);
  /// The member that is the prompt; null if there is none.
  const void* chain_member() const { return chain_member_; }
  const UniversalKey& key() const { return key_; }

 private:
  using Anchor = PromptPrefix::Anchor;

  struct SeedMember {
    const void* member;
    std::uint64_t hash;
    std::uint64_t bytes;
  };
  struct Seed {
    UniversalHash hash;            // Of the open member.
    const void* member = nullptr;  // The open one.
    std::uint64_t bytes = 0;       // Of the open one.
    bool in_unknown = false;       // An unknown outermost member is open.
    std::uint64_t unknown = 0;     // The sum of the hashes of those that have ended.
    boost::container::small_vector<SeedMember, 8> members{};
  };
  enum class Part : std::uint8_t { empty, text, more };

  UniversalHash& hash() { return in_data_ ? part_ : in_chain_ ? chain_ : seed_.hash; }
  void mark(std::string_view name);
  void keep();
  void pass_rungs();
  void move_on(std::uint64_t bytes);
  void begin_data(std::string_view name);
  void end_data();
  void end_message_data();
  void end_part(bool picture);
  void end_picture();
  void end_message();
  void end_seed();

  const UniversalKey& key_;
  UniversalHash chain_, part_;  // The last is for a label, and for a member that is no text.
  bool in_chain_ = false;
  bool in_data_ = false;
  bool in_message_data_ = false;  // in_data_, and the member is the message's.
  bool label_begun_ = false;
  bool member_begun_ = false;  // The message has had a member of text.
  Part part_state_ = Part::empty;
  std::uint64_t data_ = 0;    // The sum of the hashes of the open part's members that are no text.
  std::uint64_t labels_ = 0;  // The sum of the hashes of the open message's labels and unknown members.

  const void* chain_member_ = nullptr;
  Of of_ = Of::text;
  bool ambiguous_ = false;  // The prompt is in two members.
  bool mixed_ = false;      // The prompt has token ids, and text or pictures.
  bool token_ids_ = false;
  std::uint64_t position_ = 0;
  std::uint64_t rung_ = 0;
  std::vector<Anchor> kept_;
  std::uint64_t ends_ = 0;  // Counts the ends of messages.
  std::array<Anchor, last_ends> ring_;
  Seed seed_;
};

// Hashes that with which a conversation opens: its messages up to and including the first one of the user. All turns of
// one conversation open alike.

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

// Marks of a prompt's beginnings in the request log, so that a log tells which prompts began alike.

/// A short key of all that the engine renders up to `position`. Two prompts whose marks are equal begin alike up to
/// there, but for one pair in 2^32.
struct PrefixMark {
  std::uint64_t position = 0;  ///< Bytes of text, or token ids, as in PromptPrefix.
  std::uint32_t key = 0;       ///< Half of a hash of the anchor's, which must not leave the process itself.
  auto operator<=>(const PrefixMark&) const = default;
};

inline constexpr std::size_t most_marks = 32;
/// So many of the last anchors always have marks: the next turn of a conversation, which has an anchor where this
/// prompt ends, adds a few.
inline constexpr std::size_t last_marks = 8;

/// Returns the marks of a prompt, in the order of their positions: one for each anchor if there are at most
/// `most_marks`. Of more, the last `last_marks` have one, and those of the others whose keys are smallest. Two prompts
/// that begin alike choose by the same keys, so they keep common anchors.
std::vector<PrefixMark> marks_of(const PromptPrefix& prefix, const SipKey& secret);

}  // namespace weir::metrics::wire
