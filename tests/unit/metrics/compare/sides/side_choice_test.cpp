#include "metrics/compare/sides/side_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::metrics::compare::sides {
namespace {

using ::testing::HasSubstr;

class SideChoiceOf : public ::testing::Test {
 protected:
  void add(std::string_view config, std::string_view replica, Role role = Role::primary, std::string_view shadow = "") {
    samples::Sample sample;
    sample.config = names.of(config);
    sample.replica = names.of(replica);
    sample.shadow = names.of(shadow);
    sample.role = role;
    samples.push_back(sample);
  }
  /// Returns "A, B", or the sentence.
  std::string chosen(By by, std::string_view a = "", std::string_view b = "") {
    const auto choice = choose_sides(samples, names, by, a, b);
    if (const auto* sentence = std::get_if<std::string>(&choice)) return *sentence;
    const auto& sides = std::get<SideChoice>(choice);
    return sides.a.label(names) + ", " + sides.b.label(names);
  }

  samples::Names names;
  std::vector<samples::Sample> samples;
};

TEST_F(SideChoiceOf, TwoSidesNeedNoNames) {
  add("fp8", "cand0", Role::shadow);
  add("fp16", "gpu0");
  EXPECT_EQ(chosen(By::config), "fp16, fp8");  // The primary's comes first.
  EXPECT_EQ(chosen(By::replica), "gpu0, cand0");
  EXPECT_EQ(chosen(By::role), "primary, shadow");
  EXPECT_EQ(chosen(By::config, "fp8"), "fp8, fp16");
  EXPECT_EQ(chosen(By::config, "", "fp16"), "fp8, fp16");
}

TEST_F(SideChoiceOf, OfOneRoleGoByName) {
  add("z", "r1");
  add("a", "r2");
  EXPECT_EQ(chosen(By::config), "a, z");
}

TEST_F(SideChoiceOf, AControlDoesNotMakeThree) {
  add("fp16", "gpu0");
  add("fp16", "control0", Role::shadow, "control");
  add("fp8", "cand0", Role::shadow, "candidate");
  EXPECT_EQ(chosen(By::config), "fp16, fp8");
  EXPECT_EQ(chosen(By::config, "fp16", "candidate"), "fp16, candidate");
}

TEST_F(SideChoiceOf, ACandidateAloneIsComparedWithTheOnlyPrimary) {
  add("fp16", "gpu0");
  add("fp16", "control0", Role::shadow, "control");
  add("fp8", "cand0", Role::shadow, "candidate");
  add("int4", "cand1", Role::shadow, "other");
  EXPECT_EQ(chosen(By::config, "", "int4"), "fp16, int4");
  EXPECT_EQ(chosen(By::config, "", "candidate"), "fp16, candidate") << "by the name of its [[shadow]]";
  EXPECT_EQ(chosen(By::replica, "", "cand1"), "gpu0, cand1");
  EXPECT_THAT(chosen(By::config, "", "fp16"), HasSubstr("--a is missing"));
  add("bf16", "gpu1");
  EXPECT_THAT(chosen(By::config, "", "int4"), HasSubstr("--a is missing")) << "two primaries";
}

TEST_F(SideChoiceOf, ASideIsComparedWithItselfOnlyInTwoRoles) {
  add("fp16", "gpu0");
  add("fp16", "control0", Role::shadow, "control");
  add("fp8", "cand0", Role::shadow, "candidate");
  EXPECT_EQ(chosen(By::config, "fp16", "fp16"), "fp16, fp16");
  EXPECT_EQ(chosen(By::config, "fp8", "fp8"),
            "--a and --b are both \"fp8\"; name two sides: by configuration there are \"fp16\", \"fp8\"");
  EXPECT_THAT(chosen(By::config, "candidate", "candidate"), HasSubstr("are both \"candidate\""));
}

TEST_F(SideChoiceOf, OneConfigurationInBothRolesIsComparedWithItself) {
  add("fp16", "gpu0");
  add("fp16", "control0", Role::shadow);
  EXPECT_EQ(chosen(By::config), "fp16, fp16");
}

TEST_F(SideChoiceOf, SaysWhatThereIs) {
  EXPECT_THAT(chosen(By::config), HasSubstr("by configuration there is none"));
  add("", "");
  EXPECT_THAT(chosen(By::replica), HasSubstr("by replica there is none"));
  add("a", "r1");
  EXPECT_THAT(chosen(By::config), HasSubstr("there is \"a\""));
  EXPECT_THAT(chosen(By::role), HasSubstr("by role there is \"primary\""));
  add("b\n", "r2");
  add("c", "r3");
  EXPECT_THAT(chosen(By::config), HasSubstr("there are \"a\", \"b\\u000A\", \"c\"; name two of them with --a and --b"));
  EXPECT_EQ(chosen(By::config, "c", "a"), "c, a");
  EXPECT_THAT(chosen(By::config, "c"), HasSubstr("--b is missing"));
  EXPECT_THAT(chosen(By::config, "", "c"), HasSubstr("--a is missing"));
  EXPECT_THAT(chosen(By::config, "d", "a"), HasSubstr("--a \"d\" is no configuration of these requests"));
  EXPECT_THAT(chosen(By::config, "a", "d"), HasSubstr("--b \"d\" is no configuration"));
}

TEST_F(SideChoiceOf, ACandidateIsWhateverIsBesideTheOnlyPrimary) {
  const auto candidates = [&](std::string_view a = "") {
    std::string text;
    for (const auto& one : choose_candidates(samples, names, By::config, a))
      text += one.a.label(names) + '/' + one.b.label(names) + ' ';
    return text;
  };
  add("fp16", "gpu0");
  add("fp8", "cand0", Role::shadow, "candidate");
  EXPECT_EQ(candidates(), "") << "two sides are compared as two";
  add("fp16", "control0", Role::shadow, "control");
  EXPECT_EQ(candidates(), "");
  add("int4", "cand1", Role::shadow, "other");
  EXPECT_EQ(candidates(), "fp16/fp8 fp16/int4 ");
  EXPECT_EQ(candidates("int4"), "int4/fp16 int4/fp8 ");
  EXPECT_EQ(candidates("none"), "");
  EXPECT_TRUE(choose_candidates(samples, names, By::role, "").empty());
  add("bf16", "gpu1");
  EXPECT_EQ(candidates(), "") << "two primaries: which is the side to be compared with?";
  EXPECT_EQ(candidates("fp16"), "fp16/bf16 fp16/fp8 fp16/int4 ");
}

TEST_F(SideChoiceOf, SidesAreCountedPrimariesFirst) {
  add("fp16", "gpu0", Role::shadow);
  add("fp8", "gpu1");
  add("fp16", "gpu2");
  add("fp16", "gpu2");
  add("", "");
  const auto sides = sides_of(samples, names, By::config);
  ASSERT_EQ(sides.size(), 3U);
  EXPECT_EQ(sides[0].text(names, By::config), "fp16");
  EXPECT_EQ(sides[1].text(names, By::config), "fp8");
  EXPECT_EQ(sides[2].role, Role::shadow);
  EXPECT_EQ(sides_of(samples, names, By::role).size(), 2U);
}

TEST_F(SideChoiceOf, WhatWasDroppedWithoutAReplicaIsOfItsShadowsSide) {
  add("fp16", "gpu0");
  add("fp8", "cand0", Role::shadow, "candidate");
  add("fp16", "control0", Role::shadow, "control");
  add("", "", Role::shadow, "candidate");
  samples.back().drop_reason = names.of("late_loop");
  add("", "", Role::shadow, "another");
  samples.back().drop_reason = names.of("late_loop");
  for (const auto by : {By::config, By::replica}) {
    const auto sides = sides_of(samples, names, by);
    const auto held = samples_of(sides, samples, by);
    ASSERT_EQ(held.size(), 3U);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const auto text = sides[i].text(names, by);
      EXPECT_EQ(held[i].size(), text == "fp8" || text == "cand0" ? 2U : 1U) << text;
    }
  }
}

}  // namespace
}  // namespace weir::metrics::compare::sides
