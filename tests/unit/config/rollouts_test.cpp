#include "config/rollouts.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "load_text.hpp"

namespace weir::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string old_and_new =
    "[admin]\nstate = '/var/lib/weir'\n[[pool]]\nname = 'chat'\n"
    "replica = [{ name = 'a', url = 'http://a', config = 'old' }, { name = 'b', url = 'http://b', config = 'new' }]\n"
    "[[slo]]\nname = 'fast'\npool = 'chat'\ne2e = 1\n";
const std::string to_new =
    "[[shadow]]\nname = 'fp8'\nof = 'chat'\ntwin = 'a'\nreplica = [{ name = 'c', url = 'http://b', config = 'new' }]\n";
const std::string named = "name = 'r'\npool = 'chat'\ncandidate = 'new'\n";

Rollout rollout(const std::string& lines) {
  return settings_in(old_and_new + to_new + "[[rollout]]\n" + lines).rollouts.at(0);
}
auto errors(const std::string& lines) { return errors_in(old_and_new + to_new + "[[rollout]]\n" + lines); }

std::string steps_of(const Rollout& rollout) {
  std::string text;
  for (const auto& step : rollout.steps) text += (text.empty() ? "" : ", ") + to_text(step);
  return text;
}

TEST(RolloutSettings, HaveTheUsualStepsWithAndWithoutAShadow) {
  EXPECT_EQ(steps_of(rollout(named)), "1% 10m, 5% 10m, 25% 20m, 50% 20m, 100%");
  EXPECT_EQ(steps_of(rollout(named + "shadow = 'fp8'\n")), "shadow 20m, 1% 10m, 5% 10m, 25% 20m, 50% 20m, 100%");
  EXPECT_EQ(rollout(named).answers, OtherAnswers::look);
  EXPECT_EQ(rollout(named + std::string("answers = 'any'\n")).answers, OtherAnswers::any);
}

TEST(RolloutSettings, SameAnswersNeedAShadowAndAControlOfTheSamePrimary) {
  const auto control = [](const std::string& twin) {
    return "[[shadow]]\nname = 'aa'\nof = 'chat'\ntwin = '" + twin +
           "'\ncontrol = true\nreplica = [{ name = 'd', url = 'http://d', config = 'old' }]\n";
  };
  const auto with = [&](const std::string& others, const std::string& lines) {
    return old_and_new + to_new + others + "[[rollout]]\n" + named + "answers = 'same'\n" + lines;
  };
  EXPECT_EQ(settings_in(with(control("a"), "shadow = 'fp8'\n")).rollouts.at(0).answers, OtherAnswers::same);
  EXPECT_THAT(errors_in(with(control("a"), "")),
              ElementsAre(HasSubstr("answers = \"same\": compares the answers of a shadow")));
  EXPECT_THAT(errors_in(with("", "shadow = 'fp8'\n")),
              ElementsAre(HasSubstr("needs a control of the shadow's primary")));
  EXPECT_THAT(errors_in(with(control("b"), "shadow = 'fp8'\n")), ElementsAre(HasSubstr("needs a control")));
  EXPECT_THAT(errors_in(with("", "shadow = 'fp9'\n")), ElementsAre(HasSubstr("did you mean \"fp8\"")));
  const std::string sampled =
      "[[shadow]]\nname = 'part'\nof = 'chat'\nsample = 0.5\n"
      "replica = [{ name = 'e', url = 'http://e', config = 'new' }]\n";
  EXPECT_THAT(errors_in(with(control("a") + sampled, "shadow = 'part'\n")),
              ElementsAre(HasSubstr("give the shadow \"part\" twin = \"REPLICA\"")));
}

TEST(RolloutSettings, TakeTheFirstObjectiveOfThePool) {
  EXPECT_EQ(rollout(named).slo, "fast");
  auto other = settings_in(
      "[admin]\nstate = 's'\n" +
      old_and_new.substr(old_and_new.find("[[pool]]"), old_and_new.find("[[slo]]") - old_and_new.find("[[pool]]")) +
      "[[rollout]]\n" + named);
  EXPECT_EQ(other.rollouts.at(0).slo, "") << "the pool has none";
}

/// Shares are written as they are read, though 7 % times 100 is no whole number in binary.
TEST(RolloutSettings, StepsAreWrittenAsTheyAreRead) {
  for (int tenths = 1; tenths < 1000; ++tenths) {
    const auto share = std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") + '%';
    const auto read = rollout(named + "steps = ['" + share + " 1500ms', '100%']\n");
    EXPECT_EQ(steps_of(read), share + " 1500ms, 100%");
    EXPECT_NEAR(read.steps[0].share, tenths / 1000.0, 1e-12);
  }
}

TEST(RolloutSettings, SayAllErrorsAtOnce) {
  EXPECT_THAT(errors("name = 'r'\npool = 'caht'\ncandidate = 'new'\nshadow = 'fp9'\nslo = 'fats'\n"
                     "steps = ['5% 10m', 'shadow 20m', '5% 10m']\n"),
              ElementsAre(HasSubstr("pool = \"caht\": is no pool of the file; did you mean \"chat\"?"),
                          HasSubstr("shadow = \"fp9\": is no shadow of the file; did you mean \"fp8\"?"),
                          HasSubstr("slo = \"fats\": is no objective of the file; did you mean \"fast\"?"),
                          HasSubstr("steps = \"5% 10m\": comes first, and shadow is set; begin with a step such as"),
                          HasSubstr("steps = \"shadow 20m\": comes after a step with a share"),
                          HasSubstr("steps = \"5% 10m\": is the last one, and the last step is \"100%\"; add that")));
  EXPECT_THAT(errors_in("[[pool]]\nname = 'p'\nreplica = [{ name = 'a', url = 'http://a' }]\n[[rollout]]\n"),
              ElementsAre(HasSubstr("[[rollout]]: name is missing"), HasSubstr("[[rollout]]: pool is missing"),
                          HasSubstr("[[rollout]]: candidate is missing; say which config"),
                          HasSubstr("[[rollout]]: needs a place that outlasts a restart of weir; set [admin] state")));
}

TEST(RolloutSettings, EachErrorHasItsSentence) {
  EXPECT_THAT(
      errors("name = 'r'\npool = 'chat'\ncandidate = 'nev'\n"),
      ElementsAre(HasSubstr("candidate = \"nev\": is no config of the pool \"chat\"; did you mean \"new\"?")));
  EXPECT_THAT(errors_in("[admin]\nstate = 's'\n[[pool]]\nname = 'p'\nreplica = [{ name = 'a', url = 'http://a' }]\n"
                        "[[rollout]]\nname = 'r'\npool = 'p'\ncandidate = 'a'\n"),
              ElementsAre(HasSubstr("is the config of all replicas of the pool, so that no stable side is left")));
  EXPECT_THAT(errors(named + "[[rollout]]\nname = 'r2'\npool = 'chat'\ncandidate = 'old'\n"),
              ElementsAre(AllOf(HasSubstr("pool = \"chat\": is taken in line"), HasSubstr("one rollout at a time"))));
  EXPECT_THAT(errors(named + "steps = ['shadow 1m', '100%']\n"),
              ElementsAre(HasSubstr("needs a [[shadow]] that mirrors to the candidate; set shadow = \"NAME\"")));
  EXPECT_THAT(errors(named + "steps = ['5% 1m', '5% 1m', '100%']\n"),
              ElementsAre(HasSubstr("is no more than the step before it; shares grow")));
  EXPECT_THAT(errors(named + "steps = ['5%', '100%']\n"), ElementsAre(HasSubstr("has no time; write how long")));
  EXPECT_THAT(errors(named + "steps = ['5% 1m', '100% 1m']\n"),
              ElementsAre(HasSubstr("has a time, and no step follows")));
  EXPECT_THAT(errors(named + "steps = []\n"), ElementsAre(HasSubstr("is empty; write some such as")));
  for (const auto* wrong : {"'0% 1m'", "'101% 1m'", "'5 1m'", "'-5% 1m'", "'5% 0s'", "'5% soon'", "'shade 1m'", "5",
                            "'%'", "''", "'nan% 1m'"})
    EXPECT_THAT(errors(named + "steps = [" + wrong + ", '100%']\n"),
                ElementsAre(HasSubstr("must be \"shadow\" or a share")))
        << wrong;
  EXPECT_THAT(
      errors_in(old_and_new +
                "[[shadow]]\nname = 'k'\nof = 'chat'\ntwin = 'a'\ncontrol = true\nreplica = [{ name = 'c', url = "
                "'http://c', config = 'old' }]\n[[rollout]]\n" +
                named + "shadow = 'k'\n"),
      ElementsAre(HasSubstr("is a control, which runs the configuration in use")));
  EXPECT_THAT(errors_in(old_and_new +
                        "[[shadow]]\nname = 'k'\nof = 'chat'\ntwin = 'a'\nreplica = [{ name = 'c', url = "
                        "'http://c', config = 'newer' }]\n[[rollout]]\n" +
                        named + "shadow = 'k'\n"),
              ElementsAre(HasSubstr("mirrors to \"c\", whose config is \"newer\" and not \"new\"")));
}

}  // namespace
}  // namespace weir::config
