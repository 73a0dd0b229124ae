#include "lab/tasks/task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lab/engine/words.hpp"
#include "lab/tasks/number_words.hpp"

namespace weir::lab::tasks {
namespace {

TEST(NumberWords, AreEnglish) {
  const std::pair<std::uint64_t, const char*> cases[]{{0, "zero"},
                                                      {7, "seven"},
                                                      {13, "thirteen"},
                                                      {20, "twenty"},
                                                      {42, "forty-two"},
                                                      {100, "one hundred"},
                                                      {999, "nine hundred ninety-nine"},
                                                      {1'000, "one thousand"},
                                                      {402'091, "four hundred two thousand ninety-one"},
                                                      {12'000'003, "twelve million three"}};
  for (const auto& [number, words] : cases) EXPECT_EQ(in_words(number), words);
  engine::Random random(1);
  for (int i = 0; i < 2'000; ++i) {
    const std::uint64_t number = random.below(most_in_words + 1) >> random.below(30);
    EXPECT_EQ(number_of(in_words(number)), number) << in_words(number);
  }
  EXPECT_EQ(number_of("Forty-Two"), 42u);
  EXPECT_EQ(number_of("forty-twee"), std::nullopt);
  EXPECT_EQ(number_of(""), std::nullopt);
}

TEST(Sonnets, AreWholeAndHaveNoLineTwice) {
  const auto lines = sonnet_lines();
  EXPECT_EQ(lines.size(), 13u * 14u);
  EXPECT_EQ(std::set<std::string_view>(lines.begin(), lines.end()).size(), lines.size());
  for (const auto line : lines) EXPECT_THAT(line, testing::Not(testing::IsEmpty()));
}

TEST(Task, HasTheLengthAskedFor) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::uint64_t wanted = 100 + 17 * seed;
    const std::uint64_t tokens = engine::count_tokens(make_task(wanted, 150, engine::Random(seed)).prompt);
    EXPECT_LE(tokens, wanted);
    EXPECT_GE(tokens + 4, wanted) << seed;
  }
  EXPECT_LT(engine::count_tokens(make_task(1, 150, engine::Random(1)).prompt), 90u);
}

TEST(Task, FollowsFromItsSeedAndNoTwoBeginAlike) {
  const auto prompt = [](std::uint64_t seed) { return make_task(550, 150, engine::Random(seed)).prompt; };
  EXPECT_EQ(prompt(1), prompt(1));
  EXPECT_NE(prompt(1).substr(0, 20), prompt(2).substr(0, 20));
}

TEST(Solve, IsRightWithoutErrorsAndFillsTheAnswer) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Task task = make_task(300 + seed, 150, engine::Random(seed));
    ASSERT_TRUE(is_task(task.prompt));
    engine::Random random(seed);
    const std::string answer = solve(task.prompt, 0, random);
    EXPECT_GE(engine::count_tokens(answer), 140u);
    const Checked checked = check(task, answer);
    EXPECT_TRUE(checked.right_number) << answer;
    EXPECT_EQ(checked.lines, 16u);
    EXPECT_EQ(checked.right_lines, checked.lines);
  }
}

TEST(Solve, ErrsAsOftenAsAskedFor) {
  engine::Random random(7);
  double numbers = 0, lines = 0, all_lines = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Task task = make_task(400, 150, engine::Random(seed));
    const Checked checked = check(task, solve(task.prompt, 0.2, random));
    numbers += checked.right_number;
    lines += double(checked.right_lines);
    all_lines += double(checked.lines);
  }
  EXPECT_NEAR(numbers / 500, 0.8, 0.06);
  EXPECT_NEAR(lines / all_lines, 0.8, 0.02);
}

TEST(Task, IsToldFromOtherPrompts) {
  EXPECT_FALSE(is_task(""));
  EXPECT_FALSE(is_task("forty-two"));
  EXPECT_FALSE(is_task("What is the sum of twelve and three?"));
  const std::string prompt = make_task(200, 20, engine::Random(3)).prompt;
  EXPECT_FALSE(is_task("x" + prompt)) << "the number cannot be read";
}

Task small_task() {
  Task task = make_task(100, 20, engine::Random(1));
  task.number = 402'091;
  task.prompt.replace(task.prompt.find("Add nothing else.\n\n") + 19, std::string::npos,
                      "So do our minutes prioritize to their end;\nI grant I never saw a goddess go;");
  return task;
}

TEST(Check, TakesTheNumberFromTheFirstLine) {
  const std::pair<const char*, bool> cases[]{{"402091", true},
                                             {"402,091\nSo do", true},
                                             {"402 091", true},
                                             {"\n  402091\n", true},
                                             {"The number is 402091.", true},
                                             {"**402091**", true},
                                             {"402092", false},
                                             {"4020911", false},
                                             {"402 and 091", false},
                                             {"1. 402091", false},
                                             {"So do our minutes prioritize to their end;\n402091", false},
                                             {"", false},
                                             {"99999999999999999999402091", false}};
  for (const auto& [answer, right] : cases) EXPECT_EQ(check(small_task(), answer).right_number, right) << answer;
}

TEST(Check, CountsTheLinesThatWereInThePrompt) {
  const struct {
    const char* answer;
    std::uint64_t lines, right;
  } cases[] = {
      {"1\nSo do our minutes prioritize to their end;\nI grant I never saw a goddess go;\n", 2, 2},
      {"1\n\n- so do our minutes prioritize to their end\r\n2. I grant I never saw a goddess go", 2, 2},
      {"1\nSo do our minutes prioritize to their end;\nI grant I nev", 2, 2},
      {"1\nSo do our min\nI grant I never saw a goddess go;", 2, 1},
      {"1\nSo do our minutes prioritize to our end;\nI grant I never saw a goddess go;", 2, 1},
      {"1\nThat music hath a far more pleasing sound;\nI never", 2, 0},
      {"1", 0, 0},
  };
  for (const auto& c : cases) {
    const Checked checked = check(small_task(), c.answer);
    EXPECT_EQ(checked.lines, c.lines) << c.answer;
    EXPECT_EQ(checked.right_lines, c.right) << c.answer;
  }
}

}  // namespace
}  // namespace weir::lab::tasks
