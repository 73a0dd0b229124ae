// StreamMeter reports each choice if there are several, and token events that share a read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

StreamMeter::Options choices(std::uint32_t n) {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.choices = n;
  return options;
}

std::string counted(const std::string& text, int index, int tokens) {
  return chunk(delta(R"("content":")" + text + "\"", "null", index), usage(3, tokens));
}
std::string closes(int index) { return chunk(delta("", "\"stop\"", index)); }

std::string told(const std::vector<record::ChoiceTimes>& all) {
  std::string text;
  for (const record::ChoiceTimes& one : all) {
    text += words(std::optional(one.first_token)) + "-" + words(std::optional(one.last)) + " " +
            std::to_string(one.first_tokens) + "/" + std::to_string(one.tokens) + "; ";
  }
  return text;
}

TEST(StreamMeterChoices, HaveTimesOfTheirOwnWhereTheWireCountsTheirTokens) {
  // Choice 0 has 2, 3 and 1 tokens at 0, 2 and 4 ms; choice 1 has 1 and 4 at 1 and 3 ms.
  const auto replay = replayed(counted("a", 0, 2) + counted("b", 1, 1) + counted("c", 0, 5) + counted("d", 1, 5) +
                                   counted("e", 0, 6) + chunk("", usage(3, 11)) + done,
                               choices(2));
  EXPECT_EQ(replay->answer().output_tokens, 11U);
  EXPECT_EQ(told(replay->answer().choices), "0-4000000 2/6; 1000000-3000000 1/5; ");
}

TEST(StreamMeterChoices, HaveTimesOfTheirOwnWhereEveryEventWasOneToken) {
  const std::string events =
      says("a", 0) + says("b", 1) + says("c", 0) + closes(0) + says("d", 1) + closes(1);  // The events come at 0 to 5
                                                                                          // ms.
  const auto without_end = replayed(events + chunk("", usage(3, 4)) + done, choices(2));
  EXPECT_EQ(without_end->answer().tokens_per_event, TokensPerEvent::settled);
  EXPECT_EQ(told(without_end->answer().choices), "0-3000000 1/2; 1000000-5000000 1/2; ");
  const auto with_end = replayed(events + chunk("", usage(3, 6)) + done, choices(2));
  EXPECT_EQ(with_end->answer().tokens_per_event, TokensPerEvent::settled);
  EXPECT_EQ(told(with_end->answer().choices), "0-3000000 1/3; 1000000-5000000 1/3; ");
}

TEST(StreamMeterChoices, HaveNoTimesOfTheirOwnWhereACountIsUnknown) {
  const std::string events = says("a", 0) + says("b", 1) + says("c", 0) + closes(0) + says("d", 1) + closes(1);
  EXPECT_TRUE(replayed(events + chunk("", usage(3, 9)) + done, choices(2))->answer().choices.empty());
  EXPECT_TRUE(replayed(events + done, choices(2))->answer().choices.empty());
  EXPECT_TRUE(replayed(events + chunk("", usage(3, 4)) + done, choices(3))->answer().choices.empty());
  // The engine counts one choice and not the other.
  EXPECT_TRUE(replayed(counted("a", 0, 2) + says("b", 1) + says("c", 1) + done, choices(2))->answer().choices.empty());
}

TEST(StreamMeterChoices, AreNotCountedByAUsageThatIsOfOneOfThem) {
  const std::string events = says("a", 0) + says("b", 0) + says("c", 1) + says("d", 1) + closes(0) + closes(1);
  const auto counted_by = [&](int tokens, std::uint32_t n) {
    return replayed(events + chunk("", usage(3, tokens)) + done, choices(n))->answer().output_tokens;
  };
  EXPECT_EQ(counted_by(3, 2), std::nullopt) << "four events with text are four tokens at least";
  EXPECT_EQ(counted_by(4, 2), 4U);
  EXPECT_EQ(counted_by(5, 2), 5U);
  EXPECT_EQ(counted_by(3, 1), 3U) << "a parser may cut one token into several events";
}

TEST(StreamMeterChoices, OfASingleChoiceTheAnswerItselfTells) {
  EXPECT_TRUE(replayed(says("a") + says("b") + stop + chunk("", usage(3, 2)) + done)->answer().choices.empty());
}

TEST(StreamMeterChoices, WhoseTokensCameInOneReadHaveNoTimeOfGeneration) {
  Replay replay(choices(2));
  replay.feed(says("a", 0) + says("b", 0) + says("c", 1), ms(0));
  replay.feed(says("d", 1) + closes(0) + closes(1) + chunk("", usage(3, 4)) + done, ms(7));
  replay.end();
  EXPECT_EQ(told(replay.answer().choices), "0-7000000 2/2; 0-7000000 1/2; ");
}

TEST(StreamMeterChoices, OfAListOfPromptsDoNotPassOnesPromptForAll) {
  const auto llamacpp = [](int index, int prompt, bool stop) {
    return R"(data: {"index":)" + std::to_string(index) + R"(,"content":"a","tokens_predicted":1,"tokens_evaluated":)" +
           std::to_string(prompt) + R"(,"stop":)" + (stop ? "true" : "false") +
           R"(,"timings":{"cache_n":4}})"
           "\n\n";
  };
  const auto sglang = [](int index, int prompt, bool) {
    return R"(data: {"text":"a","index":)" + std::to_string(index) + R"(,"meta_info":{"prompt_tokens":)" +
           std::to_string(prompt) +
           R"(,"cached_tokens":4,"completion_tokens":1}})"
           "\n\n";
  };
  const auto prompt_of = [](Api api, const std::string& body, std::uint32_t n, std::uint32_t prompts) {
    StreamMeter::Options options = options_for(api);
    options.choices = n;
    options.prompts = prompts;
    const auto replay = replayed(body, options);
    return words(replay->answer().prompt_tokens) + "/" + words(replay->answer().cached_tokens);
  };
  EXPECT_EQ(prompt_of(Api::llamacpp_completion, llamacpp(0, 7, true) + llamacpp(1, 8, true), 2, 2), "-/-");
  EXPECT_EQ(prompt_of(Api::sglang_generate, sglang(0, 7, false) + sglang(1, 8, false) + sglang(0, 7, false), 2, 2),
            "-/-");
  EXPECT_EQ(prompt_of(Api::sglang_generate, sglang(0, 7, false) + sglang(1, 7, false), 2, 2), "-/-") << "of one length";
  EXPECT_EQ(prompt_of(Api::sglang_generate, sglang(0, 7, false) + sglang(1, 7, false), 2, 1), "7/4") << "two samples";
  EXPECT_EQ(prompt_of(Api::llamacpp_completion, llamacpp(0, 7, true), 1, 1), "7/4");
  // An event for all of them knows the sum.
  EXPECT_EQ(prompt_of(Api::openai_completions,
                      chunk(delta("", "null", 0), usage(7, 1)) + chunk(delta("", "null", 1), usage(8, 1)) +
                          chunk("", usage(15, 2)) + done,
                      2, 2),
            "15/-");
}

std::string slot_usage(int prompt, int tokens) {
  return chunk("", usage(prompt, tokens) + R"(,"timings":{"prompt_n":)" + std::to_string(prompt) +
                       R"(,"predicted_n":)" + std::to_string(tokens) + "}");
}

TEST(UsageOfEachChoice, AddsUpTheTokensAndTellsOfOnePrompt) {
  // In llama.cpp's answer with n = 2, choice 1 ends first.
  const std::string body = says("a", 0) + says("b", 1) + says("c", 0) + closes(1) + slot_usage(7, 30) + says("d", 0) +
                           closes(0) + slot_usage(7, 50) + done;
  const auto replay = replayed(body, choices(2));
  EXPECT_EQ(replay->answer().output_tokens, 80U);
  EXPECT_EQ(replay->answer().prompt_tokens, 7U);
}

TEST(UsageOfEachChoice, IsNotKnownUntilEachHasTold) {
  const std::string begun = says("a", 0) + says("b", 1) + closes(0) + slot_usage(7, 30);
  EXPECT_EQ(replayed(begun, choices(2))->answer().output_tokens, std::nullopt);
  // One choice ends before the other begins.
  const auto after = replayed(
      says("a", 0) + closes(0) + slot_usage(7, 2) + says("b", 1) + closes(1) + slot_usage(7, 3) + done, choices(2));
  EXPECT_EQ(after->answer().output_tokens, 5U);
}

TEST(UsageOfEachChoice, SettlesOneTokenAnEvent) {
  const auto replay = replayed(
      says("a", 0) + says("b", 1) + says("c", 0) + closes(0) + slot_usage(7, 2) + closes(1) + slot_usage(7, 1) + done,
      choices(2));
  EXPECT_EQ(replay->answer().output_tokens, 3U);
  EXPECT_EQ(replay->answer().tokens_per_event, TokensPerEvent::settled);
}

TEST(UsageOfEachChoice, IsToldFromTotalsThatAreRepeated) {
  const auto total = [](int tokens) { return chunk("", usage(7, tokens)); };
  const std::string body = says("a", 0) + says("b", 1) + total(2) + closes(0) + total(2) + says("c", 1) + closes(1) +
                           total(3) + total(3) + done;
  EXPECT_EQ(replayed(body, choices(2))->answer().output_tokens, 3U);
  // With one choice its usage is that of all; reported twice it is the same.
  const std::string one = says("a") + stop + slot_usage(7, 5) + slot_usage(7, 5) + done;
  EXPECT_EQ(replayed(one, choices(1))->answer().output_tokens, 5U);
}

TEST(UsageOfEachChoice, OfAListOfPromptsTellsNothingOfAllPrompts) {
  StreamMeter::Options options = choices(2);
  options.prompts = 2;
  const auto replay = replayed(
      says("a", 0) + closes(0) + slot_usage(7, 5) + says("b", 1) + closes(1) + slot_usage(9, 5) + done, options);
  EXPECT_EQ(replay->answer().prompt_tokens, std::nullopt);
  EXPECT_EQ(replay->answer().output_tokens, 10U);
}

struct Reads {
  std::uint32_t token_reads, coalesced_reads, coalesced_token_events;
  bool operator==(const Reads&) const = default;
  friend void PrintTo(const Reads& r, std::ostream* out) {
    *out << r.token_reads << " reads, " << r.coalesced_reads << " coalesced with " << r.coalesced_token_events;
  }
};

Reads reads(const Replay& replay) {
  const record::Answer& a = replay.answer();
  return {a.token_reads, a.coalesced_reads, a.coalesced_token_events};
}

TEST(Coalescing, CountsReadsThatBringSeveralTokenEventsOfOneChoice) {
  Replay replay(choices(1));
  replay.feed(says("a"), ms(0));
  EXPECT_EQ(reads(replay), (Reads{1, 0, 0}));
  replay.feed(says("b") + says("c") + says("d"), ms(1));
  EXPECT_EQ(reads(replay), (Reads{2, 1, 3}));
  replay.feed(": note\n\n" + stop, ms(2));
  replay.feed(says("e") + stop, ms(3));
  EXPECT_EQ(reads(replay), (Reads{3, 1, 3}));
  replay.feed(says("f") + says("g"), ms(4));
  EXPECT_EQ(reads(replay), (Reads{4, 2, 5}));
}

TEST(Coalescing, TakesTheSpansOfOneReadForOne) {
  Replay replay(choices(1));
  replay.feed(says("a"), ms(1));
  replay.feed(says("b"), ms(1));
  EXPECT_EQ(reads(replay), (Reads{1, 1, 2}));
}

TEST(Coalescing, IsNotThatSeveralChoicesAdvanceTogether) {
  Replay replay(choices(2));
  replay.feed(says("a", 0) + says("b", 1), ms(0));
  replay.feed(says("c", 0) + says("d", 1), ms(1));
  EXPECT_EQ(reads(replay), (Reads{2, 0, 0}));
  replay.feed(says("e", 0) + says("f", 1) + says("g", 1) + says("h", 0), ms(2));
  EXPECT_EQ(reads(replay), (Reads{3, 1, 4}));
}

}  // namespace
}  // namespace weir::metrics::measure
