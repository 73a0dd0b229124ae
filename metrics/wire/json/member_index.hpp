// A table of (place, key) -> what the member means. A key is looked up only among the few of its place.
#pragma once

#include <bit>
#include <cstddef>
#include <string_view>
#include <vector>

namespace weir::metrics::wire {

/// `Member` has `in`, the place of the object, `key`, and `place`, that of the value. `last` is the last value of the
/// place enum. A look-up costs a hash of the place, the key's length and three of its letters, and mostly one compare.
template <class Member, auto last>
class MemberIndex {
 public:
  using Place = decltype(last);

  /// If two members have one key in one place, the first counts.
  explicit MemberIndex(const std::vector<Member>& members)
      : members_(members), slots_(std::bit_ceil(4 * members.size() + 1)) {
    for (const Member& member : members_) {
      std::size_t at = slot_of(member.in, member.key);
      while (slots_[at] != nullptr) at = next(at);
      slots_[at] = &member;
    }
  }
  MemberIndex(MemberIndex&&) = default;

  /// Returns null for a key that means nothing there.
  const Member* find(Place in, std::string_view key) const {
    const Member* const* const slots = slots_.data();
    for (std::size_t at = slot_of(in, key); slots[at] != nullptr; at = next(at)) {
      if (slots[at]->in == in && slots[at]->key == key) return slots[at];
    }
    return nullptr;
  }

 private:
  std::size_t slot_of(Place in, std::string_view key) const {
    std::size_t hash = static_cast<std::size_t>(in) * 31 + key.size();
    if (!key.empty()) {
      const auto letter = [letters = key.data()](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(letters[at]));
      };
      hash += letter(0) * 7 + letter(key.size() / 2) * 53 + letter(key.size() - 1) * 17;
    }
    return hash & (slots_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  std::vector<Member> members_;       ///< The slots point into it, which a move does not change.
  std::vector<const Member*> slots_;  ///< Open addressing; null is free, and three in four are.
};

}  // namespace weir::metrics::wire
