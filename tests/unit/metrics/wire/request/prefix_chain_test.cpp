#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "metrics/wire/request/prefix_chain.hpp"

namespace weir::metrics::wire {
namespace {

constexpr SipKey mark_key{7, 9};

std::uint32_t hashed(std::uint64_t key) {
  SipHash hash(mark_key);
  hash.add(key);
  return static_cast<std::uint32_t>(hash.value() >> 32);
}

/// The chain goes on from `prefix`, by random steps.
PromptPrefix longer(PromptPrefix prefix, std::size_t anchors, std::mt19937_64& random) {
  for (std::uint64_t position = prefix.length(); prefix.anchors.size() < anchors;)
    prefix.anchors.push_back({random(), position += 1 + random() % 500});
  return prefix;
}

std::vector<PrefixMark> common(const std::vector<PrefixMark>& a, const std::vector<PrefixMark>& b) {
  std::vector<PrefixMark> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

TEST(PrefixMarks, AreOfEachAnchorOfAShortPrompt) {
  std::mt19937_64 random(1);
  for (const std::size_t anchors : {0u, 1u, 8u, 31u, 32u}) {
    const PromptPrefix prefix = longer({}, anchors, random);
    const auto marks = marks_of(prefix, mark_key);
    ASSERT_EQ(marks.size(), anchors);
    for (std::size_t i = 0; i < anchors; ++i) {
      EXPECT_EQ(marks[i].position, prefix.anchors[i].position);
      EXPECT_EQ(marks[i].key, hashed(prefix.anchors[i].key));
    }
  }
}

TEST(PrefixMarks, OfALongPromptAreBoundedAndHaveItsLastAnchors) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const PromptPrefix prefix = longer({}, 33 + random() % 500, random);
    const auto marks = marks_of(prefix, mark_key);
    ASSERT_EQ(marks.size(), most_marks);
    EXPECT_TRUE(std::ranges::is_sorted(marks));
    for (std::size_t i = 1; i <= last_marks; ++i)
      EXPECT_EQ(marks[most_marks - i].position, prefix.anchors[prefix.anchors.size() - i].position);
    for (const PrefixMark& mark : marks) {
      const auto same = [&](const auto& anchor) {
        return anchor.position == mark.position && hashed(anchor.key) == mark.key;
      };
      EXPECT_TRUE(std::ranges::any_of(prefix.anchors, same));
    }
  }
}

TEST(PrefixMarks, OfPromptsThatBeginAlikeHaveAsManyInCommonAsTheyShareAnchors) {
  std::size_t none = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t shared = 20 + random() % 60;
    const PromptPrefix begin = longer({}, shared, random);
    const PromptPrefix a = longer(begin, shared + 1 + random() % 60, random);
    const PromptPrefix b = longer(begin, shared + 1 + random() % 60, random);
    const auto both = common(marks_of(a, mark_key), marks_of(b, mark_key));
    for (const PrefixMark& mark : both) EXPECT_LE(mark.position, begin.length());
    // The same are chosen of what is shared, but that the longer prompt has room for fewer of them.
    const double share =
        static_cast<double>(shared) / static_cast<double>(std::max(a.anchors.size(), b.anchors.size()));
    EXPECT_GE(static_cast<double>(both.size()), 0.4 * 24 * share - 2) << seed;
    none += both.empty() ? 1 : 0;
    // The next turn of a conversation has an anchor where this prompt ended, and up to seven behind it.
    const auto next = marks_of(longer(begin, shared + random() % last_marks, random), mark_key);
    EXPECT_TRUE(std::ranges::binary_search(next, marks_of(begin, mark_key).back())) << seed;
  }
  EXPECT_EQ(none, 0);
}

}  // namespace
}  // namespace weir::metrics::wire
