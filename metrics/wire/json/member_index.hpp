// A table of (place, key) -> what the member means. A key is looked up only among the few of its place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::metrics::wire {

/// `Member` has `in`, the place of the object, `key`, and `place`, that of the value. `last` is the last value of the
/// place enum.
template <class Member, auto last>
class MemberIndex {
 public:
  using Place = decltype(last);

  /// If two members have one key in one place, the first counts.
  explicit MemberIndex(const std::vector<Member>& members) {
    for (const Member& member : members) {
      const auto same = [&](const Member& other) { return other.in == member.in && other.key == member.key; };
      if (std::ranges::none_of(members_, same)) members_.push_back(member);
    }
    std::ranges::stable_sort(members_, {}, &Member::in);
    for (const Member& member : members_) ++first_[static_cast<std::size_t>(member.in) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] = static_cast<std::uint16_t>(first_[i] + first_[i - 1]);
  }

  /// Returns null for a key that means nothing there.
  const Member* find(Place in, std::string_view key) const {
    const auto place = static_cast<std::size_t>(in);
    for (std::size_t i = first_[place]; i < first_[place + 1]; ++i) {
      if (members_[i].key == key) return &members_[i];
    }
    return nullptr;
  }

 private:
  std::vector<Member> members_;
  std::array<std::uint16_t, static_cast<std::size_t>(last) + 2> first_{};  // The members of each place begin at these
                                                                           // indices.
};

}  // namespace weir::metrics::wire
