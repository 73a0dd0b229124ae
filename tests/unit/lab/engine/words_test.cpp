#include "lab/engine/words.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

namespace weir::lab::engine {
namespace {

struct Counted {
  std::string_view text;
  std::uint64_t tokens;
};

class CountTokens : public testing::TestWithParam<Counted> {};

TEST_P(CountTokens, FollowsTheRule) { EXPECT_EQ(count_tokens(GetParam().text), GetParam().tokens) << GetParam().text; }

INSTANTIATE_TEST_SUITE_P(Texts, CountTokens,
                         testing::Values(Counted{"", 0}, Counted{" ", 0}, Counted{"  ", 1}, Counted{"a", 1},
                                         Counted{"river", 1}, Counted{"rivers", 2}, Counted{"the river", 2},
                                         Counted{"the  river", 3}, Counted{"12", 1}, Counted{"1234", 2},
                                         Counted{"a1", 2}, Counted{"Hi!", 2}, Counted{"a\nb", 3}, Counted{"café", 1},
                                         Counted{"вода", 2}, Counted{"河流", 2}, Counted{"🐟", 2},
                                         Counted{"\xff\xfe", 2}, Counted{"\xe6\xb2", 2}));

TEST(CountTokensOfProse, IsAboutFourCharactersAToken) {
  Random random(1);
  const std::string text = prompt_text(10'000, random);
  EXPECT_NEAR(static_cast<double>(text.size()) / 10'000.0, 4.2, 0.5);
}

TEST(PromptText, HasExactlyTheTokensAskedFor) {
  Random random(7);
  for (std::uint64_t tokens = 1; tokens < 300; ++tokens) EXPECT_EQ(count_tokens(prompt_text(tokens, random)), tokens);
}

TEST(AnswerTokens, AreNeverEmptyAndEscapedRight) {
  std::set<std::string> seen;
  bool beyond_ascii = false;
  for (std::uint64_t i = 1; i < 2'000; ++i) {
    const auto read = boost::json::parse('"' + std::string(answer_token(3, i)) + '"');
    const std::string text(read.as_string());
    ASSERT_FALSE(text.empty());
    beyond_ascii |= std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    seen.insert(text);
  }
  EXPECT_TRUE(beyond_ascii);
  EXPECT_GT(seen.size(), 50u);
  EXPECT_EQ(answer_token(3, 17), answer_token(3, 17));
}

TEST(Pieces, AreTheTextAndAsManyAsItsTokens) {
  const char* const texts[] = {"",
                               " ",
                               "a",
                               "a  b c ",
                               "Shall I compare thee to a summer's day?\nThou art more lovely",
                               "402091\n\nincomprehensibilities",
                               "caf\xc3\xa9 \xf0\x9f\x90\x9f\xf0\x9f\x90\x9f \xe6\xb0\xb4\xe6\xb2\xb3",
                               "\xff\xfe broken"};
  for (const std::string text : texts) {
    std::string together;
    const auto pieces = pieces_of(text);
    for (const auto piece : pieces) together += piece;
    EXPECT_EQ(pieces.size(), count_tokens(text)) << text;
    EXPECT_EQ(together, text == " " ? "" : text);
  }
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    const std::string text = prompt_text(100, random);
    EXPECT_EQ(pieces_of(text).size(), 100u);
  }
}

}  // namespace
}  // namespace weir::lab::engine
