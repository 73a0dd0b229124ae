// Prompts whose texts are known: what the parts have in common is held against what the texts have.
#include "lab/load/traces/logged_prompts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lab/engine/words.hpp"

namespace weir::lab::load::traces {
namespace {

using metrics::wire::PrefixMark;
using testing::ElementsAre;
using Token = std::uint64_t;
using Part = TraceEntry::Part;

std::size_t common(const auto& a, const auto& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> tokens_of(const TraceEntry& entry) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> tokens;
  for (const Part& part : entry.parts)
    for (std::uint64_t i = 0; i < part.tokens; ++i) tokens.emplace_back(part.text, i);
  return tokens;
}

/// A mark where the text itself says so, as messages do, and at the end. A token has four bytes.
std::vector<PrefixMark> marks_of(const std::vector<Token>& text) {
  std::vector<PrefixMark> marks;
  std::uint64_t hash = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    hash = (hash ^ text[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    if (text[i] % 40 == 0 || i + 1 == text.size())
      marks.push_back({4 * (i + 1), static_cast<std::uint32_t>(hash >> 32)});
  }
  return marks;
}

struct Said {
  std::vector<Token> prompt, answer;
};

/// Draws prompts that begin with a part of an earlier one, or go on from an earlier one and its answer.
std::vector<Said> drawn(engine::Random& random, std::size_t count) {
  std::vector<Said> all;
  std::vector<std::size_t> fresh;  // Those that begin like none.
  Token next = 1;
  const auto more = [&](std::vector<Token>& text, std::uint64_t tokens) {
    for (std::uint64_t i = 1; i <= tokens; ++i)
      text.push_back(40 * next++ + (i < tokens && random.below(30) > 0 ? 1 : 0));
  };
  while (all.size() < count) {
    Said one;
    if (const auto kind = all.empty() ? 0 : random.below(4); kind > 1) {
      const Said& before = all[random.below(all.size())];
      one.prompt = before.prompt;
      one.prompt.insert(one.prompt.end(), before.answer.begin(), before.answer.end());
    } else if (kind == 1) {
      // A prompt that is cut within an answer would be taken to repeat it.
      const Said& before = all[fresh[random.below(fresh.size())]];
      one.prompt.assign(before.prompt.begin(),
                        before.prompt.begin() + static_cast<std::ptrdiff_t>(random.below(before.prompt.size())));
    } else {
      fresh.push_back(all.size());
    }
    more(one.prompt, 1 + random.below(300));
    more(one.answer, 1 + random.below(200));
    all.push_back(std::move(one));
  }
  return all;
}

LoggedPrompt logged(const Said& said, std::size_t i) {
  LoggedPrompt prompt;
  prompt.at = static_cast<double>(10 * i);
  prompt.ended = prompt.at + 9;
  prompt.prompt_tokens = said.prompt.size();
  prompt.output_tokens = said.answer.size();
  prompt.marks = marks_of(said.prompt);
  return prompt;
}

std::vector<TraceEntry> entries_of(const std::vector<LoggedPrompt>& log) {
  std::vector<TraceEntry> entries;
  for (const LoggedPrompt& prompt : log) {
    entries.emplace_back().prompt_tokens = prompt.prompt_tokens;
    entries.back().output_tokens = prompt.output_tokens;
  }
  LogFacts facts;
  give_parts(log, entries, facts);
  return entries;
}

TEST(LoggedPrompts, ShareWhatLiesBeforeTheirLastCommonMarkAndNoMoreThanTheirTexts) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    engine::Random random(seed);
    const auto said = drawn(random, 60);
    std::vector<LoggedPrompt> log;
    for (std::size_t i = 0; i < said.size(); ++i) log.push_back(logged(said[i], i));
    const auto entries = entries_of(log);
    for (std::size_t i = 0; i < said.size(); ++i) {
      const auto tokens = tokens_of(entries[i]);
      ASSERT_EQ(tokens.size(), said[i].prompt.size());
      EXPECT_TRUE(entries[i].parts.front().begins_message);
      EXPECT_EQ(std::ranges::count_if(entries[i].parts, &Part::begins_message) % 2, 1) << "the last one is the user's";
      for (std::size_t j = 0; j < i; ++j) {
        const auto shared = common(log[i].marks, log[j].marks);
        const std::size_t by_marks = shared == 0 ? 0 : log[i].marks[shared - 1].position / 4;
        const std::size_t found = common(tokens, tokens_of(entries[j]));
        EXPECT_GE(found, by_marks) << seed << ": " << i << " and " << j;
        EXPECT_LE(found, common(said[i].prompt, said[j].prompt)) << seed << ": " << i << " and " << j;
      }
      if (!entries[i].parent) continue;
      const std::size_t parent = *entries[i].parent;
      EXPECT_LT(parent, i);
      EXPECT_EQ(common(said[i].prompt, said[parent].prompt), said[parent].prompt.size()) << "its prompt goes on";
      EXPECT_DOUBLE_EQ(entries[i].think, log[i].at - log[parent].ended);
      EXPECT_EQ(entries[i].conversation, entries[parent].conversation);
    }
  }
}

TEST(LoggedPrompts, OfATurnRepeatTheAnswerBeforeIt) {
  Said first{{3, 40, 80}, {6, 120}}, second{{3, 40, 80, 6, 120, 8, 9}, {1}}, other{{3, 40, 99, 98}, {1}};
  const auto entries = entries_of({logged(first, 0), logged(second, 1), logged(other, 2)});
  const auto text = [&](std::size_t i, std::size_t part) { return entries[i].parts[part].text; };
  EXPECT_THAT(entries[1].parts,
              ElementsAre(entries[0].parts[0], Part{entries[0].answer, 2, true}, Part{text(1, 2), 2, true}));
  EXPECT_THAT(entries[2].parts, ElementsAre(Part{text(0, 0), 2, true}, Part{text(2, 1), 2, false}));
  EXPECT_EQ(entries[1].parent, 0);
  EXPECT_EQ(entries[2].parent, std::nullopt);
}

/// Turns on one replica, by groups or by keys, that find so many tokens of the 100 + 80 before.
std::vector<TraceEntry> turns_that_find(std::uint64_t cached, bool keyed, const std::string& replica = "a") {
  std::vector<LoggedPrompt> log(2);
  log[0] = {.at = 0, .ended = 1, .prompt_tokens = 100, .output_tokens = 80, .turn = 1, .group = 7, .replica = "a"};
  log[1] = {
      .at = 2, .ended = 3, .prompt_tokens = 200, .cached_tokens = cached, .turn = 2, .group = 7, .replica = replica};
  if (keyed) {
    log[0].marks = {{400, 1}};
    log[1].marks = {{400, 1}, {800, 2}};
  }
  return entries_of(log);
}

TEST(LoggedPrompts, RepeatNoAnswersWhereReplicasFindOnlyThePromptsBeforeThem) {
  for (const bool keyed : {false, true}) {
    const auto repeats = [&](std::uint64_t cached, const std::string& replica = "a") {
      const auto entries = turns_that_find(cached, keyed, replica);
      EXPECT_EQ(entries[1].parts.size(), 3);
      EXPECT_EQ(entries[1].parts[0], entries[0].parts[0]);
      EXPECT_EQ(entries[1].parts[1].tokens, 80);
      return entries[1].parts[1].text == entries[0].answer;
    };
    EXPECT_TRUE(repeats(176));
    EXPECT_FALSE(repeats(96));
    EXPECT_TRUE(repeats(0)) << "the replica had lost it, which says nothing";
    EXPECT_TRUE(repeats(96, "b")) << "another replica";
  }
}

TEST(LoggedPrompts, ThatWereUnderWayAreNoParents) {
  std::vector<LoggedPrompt> log(2);
  log[0] = {.at = 0, .ended = 10, .prompt_tokens = 100, .output_tokens = 80, .marks = {{400, 1}}};
  log[1] = {.at = 9, .prompt_tokens = 200, .marks = {{400, 1}, {800, 2}}};
  EXPECT_EQ(entries_of(log)[1].parent, std::nullopt);
  EXPECT_EQ(entries_of(log)[1].parts[0], entries_of(log)[0].parts[0]) << "the texts begin alike all the same";
  log[1].at = 10;
  EXPECT_EQ(entries_of(log)[1].parent, 0);
  log[1].marks.pop_back();
  EXPECT_EQ(entries_of(log)[1].parent, std::nullopt) << "the same prompt again is no turn";
}

TEST(LoggedPrompts, AreTheSameAgainWhereTheyEndAlike) {
  std::vector<LoggedPrompt> log(2);
  log[0] = {.at = 0, .prompt_tokens = 100, .marks = {{250, 1}, {400, 2}}};
  log[1] = {.at = 1, .prompt_tokens = 100, .marks = {{250, 1}, {400, 2}}};
  const auto entries = entries_of(log);
  EXPECT_EQ(entries[0].parts, entries[1].parts);
  // The tokens of a text without marks of its own lie evenly.
  log[1] = {.at = 1, .prompt_tokens = 1000, .marks = {{250, 1}, {4000, 3}}};
  EXPECT_EQ(entries_of(log)[1].parts[0].tokens, 63);
  log[1] = {.at = 1, .prompt_tokens = 50, .marks = {{250, 1}, {400, 3}}};
  EXPECT_EQ(entries_of(log)[1].parts[0].tokens, 50) << "no prompt has more tokens than it has";
}

}  // namespace
}  // namespace weir::lab::load::traces
