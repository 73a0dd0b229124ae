// Walks JSON that comes in pieces, and knows at each value where it stands: the keys that lead to it name its place.
//
// One walker serves requests and whole answers. Each has places of its own, and a table of members that leads from one
// place to the next. The state is two bytes a level of nesting.
//
// `Reader` derives from this class, hides the functions of Sax that it needs, and has:
//   const Member* find(Place in, std::string_view key) const   the member of that name; null if it means nothing
//   void begin_member(Place in, const Member&)                  its key has come, and its value follows
//   Place begin_object(Place)                                   an object begins: returns the place of its members
//   Place begin_array(Place)                                    an array begins: returns the place of its elements
//   void end_object(Place, std::size_t size)
//   void end_array(Place of_elements, std::size_t size)
// `Place` has the values `root`, for the whole document, and `ignored`, for all that means nothing.
#pragma once

#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "metrics/wire/json/parser.hpp"

namespace weir::metrics::wire {

template <class Reader, class Member>
class Walker : public Sax {
 public:
  using Place = decltype(Member::place);

  void object_begin() { open_.push_back({reader().begin_object(value_place()), false}); }
  void object_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_object(place, size);
  }
  void array_begin() { open_.push_back({reader().begin_array(value_place()), true}); }
  void array_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_array(place, size);
  }
  void key(std::string_view name) {
    const Place place = open_.back().place;
    member_ = reader().find(place, name);
    if (member_ != nullptr) reader().begin_member(place, *member_);
  }

 protected:
  /// Returns the place of the value that comes now: its key gives a member's, its array an element's.
  Place value_place() const {
    if (open_.empty()) return Place::root;
    if (open_.back().array) return open_.back().place;
    return member_ == nullptr ? Place::ignored : member_->place;
  }
  /// Returns the member of the key that was read last, where value_place() is its place.
  const Member& member() const { return *member_; }
  /// Returns the place of the open object, or of the elements of the open array.
  Place open_place() const { return open_.back().place; }
  std::size_t depth() const { return open_.size(); }

 private:
  struct Container {
    Place place;  // An object's own place, by which its members are found; for an array the place of its
                  // elements.
    bool array;
  };

  Reader& reader() { return static_cast<Reader&>(*this); }

  boost::container::small_vector<Container, 16> open_;
  const Member* member_ = nullptr;  // The last key named this member.
};

// A table of (place, key) -> what the member means. A key is looked up only among the few of its place.

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
  MemberIndex(MemberIndex&&) noexcept = default;

  /// Returns null for a key that means nothing there.
  const Member* find(Place in, std::string_view key) const {
    const Member* const* const slots = slots_.data();
    for (std::size_t at = slot_of(in, key); slots[at] != nullptr; at = next(at)) {
      if (slots[at]->in == in && same(slots[at]->key, key)) return slots[at];
    }
    return nullptr;
  }

 private:
  /// Most keys have 4 to 16 bytes: two loads that overlap are a third of a call of memcmp().
  static bool same(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    const auto same_ends = [&]<class Word>(Word first) {
      Word behind = 0, other_first = 0, other_behind = 0;
      std::memcpy(&first, a.data(), sizeof first);
      std::memcpy(&behind, a.data() + a.size() - sizeof behind, sizeof behind);
      std::memcpy(&other_first, b.data(), sizeof first);
      std::memcpy(&other_behind, b.data() + b.size() - sizeof behind, sizeof behind);
      return first == other_first && behind == other_behind;
    };
    if (a.size() >= 8 && a.size() <= 16) return same_ends(std::uint64_t{});
    if (a.size() >= 4 && a.size() < 8) return same_ends(std::uint32_t{});
    return a == b;
  }
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
