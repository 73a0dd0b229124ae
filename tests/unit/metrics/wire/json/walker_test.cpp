#include <gtest/gtest.h>

#include "metrics/wire/json/walker.hpp"

namespace weir::metrics::wire {
namespace {

enum class Place : std::uint8_t { ignored, root, inner, last };

struct Member {
  Place in;
  std::string_view key;
  Place place;
};

TEST(MemberIndex, LooksForAKeyInItsPlaceOnly) {
  const MemberIndex<Member, Place::last> index(
      {{Place::last, "a", Place::inner}, {Place::root, "a", Place::last}, {Place::root, "b", Place::root}});
  const auto place_of = [&](Place in, std::string_view key) {
    const Member* const found = index.find(in, key);
    return found == nullptr ? Place::ignored : found->place;
  };
  EXPECT_EQ(place_of(Place::root, "a"), Place::last);
  EXPECT_EQ(place_of(Place::root, "b"), Place::root);
  EXPECT_EQ(place_of(Place::last, "a"), Place::inner);
  EXPECT_EQ(place_of(Place::last, "b"), Place::ignored);
  EXPECT_EQ(place_of(Place::inner, "a"), Place::ignored);
  EXPECT_EQ(place_of(Place::ignored, "a"), Place::ignored);
  EXPECT_EQ(place_of(Place::root, ""), Place::ignored);
}

TEST(MemberIndex, KeepsTheFirstOfTwoMembersOfOneName) {
  const MemberIndex<Member, Place::last> index({{Place::root, "a", Place::inner}, {Place::root, "a", Place::last}});
  EXPECT_EQ(index.find(Place::root, "a")->place, Place::inner);
}

}  // namespace
}  // namespace weir::metrics::wire
