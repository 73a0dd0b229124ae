// StreamMeter copes with the ways in which engines and peers differ. The tests feed streams event by event: the i-th
// dispatched event arrives at ms(i).
#include "metrics/measure/stream_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

constexpr std::uint64_t one_ms = 1'000'000;

/// Returns an event whose chunk carries the cumulative count.
std::string counted(const std::string& text, int total, const std::string& finish = "null") {
  return chunk(delta(R"("content":")" + text + "\"", finish), usage(5, total));
}

TEST(StreamMeter, TakesTokensPerEventFromContinuousUsage) {
  const auto replay =
      replayed(chunk(delta(R"("role":"assistant","content":"")"), usage(5, 0)) + counted("a", 2) + counted("b c d", 5) +
               counted("e", 6) + counted("", 7, "\"stop\"") + chunk("", usage(5, 7)) + done);
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(a.first_output_tokens, 2U);
  EXPECT_EQ(a.output_tokens, 7U);
  EXPECT_EQ(a.token_source, TokenSource::usage);
  EXPECT_EQ(a.token_events, 4U);
  EXPECT_EQ(a.counted_tokens, 7U);
  // The gaps are 1 ms each, with 3, 1 and 1 tokens.
  const series::Histogram& itl = replay->shard.inter_token_latency;
  EXPECT_EQ(count(itl), 5U);
  EXPECT_EQ(itl.sum(), 3 * (one_ms / 3) + 2 * one_ms);
  EXPECT_EQ(count(replay->shard.inter_chunk_latency), 3U);
}

TEST(StreamMeter, AddsTheGapOfAnEventWithoutTokensToTheNext) {
  const auto replay = replayed(counted("a", 1) + counted("b", 1) + counted("c", 3) + done);
  const series::Histogram& itl = replay->shard.inter_token_latency;
  EXPECT_EQ(count(itl), 2U);
  EXPECT_EQ(itl.sum(), 2 * one_ms);  // It is 2 ms for two tokens.
  EXPECT_EQ(count(replay->shard.inter_chunk_latency), 2U);
  EXPECT_EQ(replay->answer().counted_tokens, 3U);
}

TEST(StreamMeter, DoesNotCountBackwards) {
  const auto replay = replayed(counted("a", 3) + counted("b", 1) + counted("c", 4) + done);
  EXPECT_EQ(replay->answer().counted_tokens, 4U);
  EXPECT_EQ(replay->answer().output_tokens, 4U);
}

// Some gateways put a usage object of zeros into each chunk.
TEST(StreamMeter, TakesACountOfNoughtBesideATokenForNoCount) {
  const std::string events = counted("a", 0) + counted("b", 0) + chunk("", usage(5, 0)) + stop;
  const auto unknown = replayed(events + done);
  EXPECT_EQ(unknown->answer().output_tokens, std::nullopt);
  EXPECT_EQ(unknown->answer().token_source, TokenSource::none);
  const auto settled = replayed(events + chunk("", usage(5, 2)) + done);
  EXPECT_EQ(settled->answer().output_tokens, 2U);
  EXPECT_EQ(settled->answer().tokens_per_event, TokensPerEvent::settled);
}

TEST(StreamMeter, TakesTokensPerEventFromTokenIds) {
  const auto ids = [](const std::string& text, const std::string& list, const std::string& finish = "null") {
    return chunk(delta(R"("content":")" + text + "\"", finish, 0, R"(,"token_ids":)" + list));
  };
  const auto replay =
      replayed(ids("", "null") + ids("a", "[1]") + ids("bc", "[2,3]") + ids("", "[9]", "\"stop\"") + done);
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(a.output_tokens, 4U);
  EXPECT_EQ(a.first_output_tokens, 1U);
  EXPECT_EQ(count(replay->shard.inter_token_latency), 3U);
  EXPECT_EQ(replay->shard.inter_token_latency.sum(), 2 * one_ms);
}

TEST(StreamMeter, TakesTokensPerEventFromTimings) {
  const auto timed = [](const std::string& text, int predicted) {
    return chunk(delta(R"("content":")" + text + "\""),
                 R"(,"timings":{"cache_n":3,"prompt_n":8,"predicted_n":)" + std::to_string(predicted) + "}");
  };
  const auto replay = replayed(timed("a", 1) + timed("b", 2) + timed("cd", 4) + stop + done);
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(a.output_tokens, 4U);
  EXPECT_EQ(a.prompt_tokens, 11U);
  EXPECT_EQ(a.cached_tokens, 3U);
  EXPECT_EQ(count(replay->shard.inter_token_latency), 3U);
}

TEST(StreamMeter, TakesUsageFromTheLastTimingsWhereNoUsageIs) {
  const auto replay =
      replayed(says("a") + says("b") +
               chunk(delta("", "\"stop\""), R"(,"timings":{"cache_n":3,"prompt_n":8,"predicted_n":3})") + done);
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.output_tokens, 3U);
  EXPECT_EQ(a.prompt_tokens, 11U);
  EXPECT_EQ(a.token_events, 2U);
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::settled);
  EXPECT_EQ(count(replay->shard.inter_token_latency), 0U);
}

TEST(StreamMeter, SettlesAtTheEndWhetherEveryEventWasOneToken) {
  const std::string ends = chunk(delta(R"("content":"b")", "\"length\""));  // The last token comes with the finish.
  struct {
    const char* what;
    std::string events;
    int n;
    TokensPerEvent wanted;
  } const cases[] = {
      {"n events", says("a") + ends, 2, TokensPerEvent::settled},
      {"n events and an empty close", says("a") + says("b") + stop, 3, TokensPerEvent::settled},
      {"n events, and the close is none", says("a") + says("b") + stop, 2, TokensPerEvent::settled},
      {"one more, and no empty close", says("a") + ends, 3, TokensPerEvent::unknown},
      {"two more", says("a") + says("b") + stop, 4, TokensPerEvent::unknown},
      {"fewer", says("a") + says("b") + stop, 1, TokensPerEvent::unknown},
      {"no close at all", says("a") + says("b"), 3, TokensPerEvent::unknown},
  };
  for (const auto& one : cases) {
    const auto replay = replayed(one.events + chunk("", usage(3, one.n)) + done);
    EXPECT_EQ(name_of(replay->answer().tokens_per_event), name_of(one.wanted)) << one.what;
    EXPECT_EQ(replay->answer().gaps.count(), 1U) << one.what;
    EXPECT_EQ(count(replay->shard.inter_token_latency), 0U) << one.what;
  }
}

TEST(StreamMeter, DoesNotSettleWithoutUsageOrWithMoreChoicesThanAskedFor) {
  EXPECT_EQ(replayed(says("a") + says("b") + stop + done)->answer().tokens_per_event, TokensPerEvent::unknown);
  const std::string events = says("a", 0) + says("b", 1) + chunk("", usage(3, 2)) + done;
  EXPECT_EQ(replayed(events)->answer().tokens_per_event, TokensPerEvent::unknown);
}

TEST(StreamMeter, DoesNotSettleOverAnEventItCouldNotRead) {
  const auto replay = replayed(says("a") + "data: {broken\n\n" + says("b") + stop + chunk("", usage(3, 3)) + done);
  EXPECT_EQ(replay->answer().tokens_per_event, TokensPerEvent::unknown);
}

TEST(StreamMeter, DoesNotTakeACountThatComesOnceForTokensOfItsEvent) {
  // The first count stands on the fourth event, so nobody knows how many of its tokens are that event's own.
  const auto replay = replayed(says("a") + says("b") + says("c") + counted("d", 4) + done);
  EXPECT_EQ(count(replay->shard.inter_token_latency), 0U);
  EXPECT_EQ(replay->answer().output_tokens, 4U);
  EXPECT_EQ(replay->answer().tokens_per_event, TokensPerEvent::settled);
  EXPECT_EQ(replay->answer().counted_tokens, 4U);
}

TEST(StreamMeter, MeasuresGapsPerChoice) {
  StreamMeter::Options two = options_for(Api::openai_chat);
  two.choices = 2;
  // Choice 0 comes at 0, 2 and 3 ms; choice 1 at 1 and 4 ms.
  const auto replay = replayed(says("a", 0) + says("A", 1) + says("b", 0) + says("c", 0) + says("B", 1) +
                                   chunk(delta("", "\"stop\"", 0)) + chunk(delta("", "\"length\"", 1)) + done,
                               two);
  EXPECT_EQ(count(replay->shard.inter_chunk_latency), 3U);
  EXPECT_EQ(replay->shard.inter_chunk_latency.sum(), (2 + 1 + 3) * one_ms);
  EXPECT_EQ(replay->answer().token_events, 5U);
  EXPECT_EQ(replay->answer().finish_reason, "stop");
}

TEST(StreamMeter, CountsPerChoiceWhereUsageDoes) {
  StreamMeter::Options two = options_for(Api::openai_chat);
  two.choices = 2;
  const auto counts = [](const std::string& text, int index, int total) {
    return chunk(delta(R"("content":")" + text + "\"", "null", index), usage(5, total));
  };
  const auto replay =
      replayed(counts("a", 0, 1) + counts("A", 1, 1) + counts("b", 0, 3) + counts("B", 1, 2), two, false);
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(a.output_tokens, 5U);  // They have 3 and 2, without the final usage.
  EXPECT_EQ(count(replay->shard.inter_token_latency), 3U);
  EXPECT_EQ(replay->shard.inter_token_latency.sum(), (2 + 2) * one_ms);
}

TEST(StreamMeter, ReadsSeveralChoicesOfOneEvent) {
  const auto replay =
      replayed(chunk(delta(R"("content":"a")", "null", 0) + "," + delta(R"("content":"b")", "null", 1)) + done);
  EXPECT_EQ(replay->answer().token_events, 2U);
  EXPECT_EQ(replay->answer().events, 2U);
}

TEST(StreamMeter, SurvivesAChoiceIndexOutOfAllBounds) {
  const auto replay = replayed(says("a", 2'000'000'000) + says("b", 2'000'000'000) + done);
  EXPECT_EQ(replay->answer().token_events, 2U);
  EXPECT_EQ(count(replay->shard.inter_chunk_latency), 0U);
  EXPECT_EQ(replay->answer().complete, Completeness::marker);
}

TEST(StreamMeter, GivesAllEventsOfOneReadItsMoment) {
  Replay replay(options_for(Api::openai_chat));
  const auto read = replay.feed(says("a") + says("b"), ms(0));
  EXPECT_EQ(read.events, 2U);
  EXPECT_EQ(read.token_events, 2U);
  EXPECT_EQ(read.tokens, 2U);
  EXPECT_TRUE(read.first_token);
  EXPECT_FALSE(replay.answer().token_events_in_different_reads);
  EXPECT_EQ(count(replay.shard.inter_chunk_latency), 1U);
  EXPECT_EQ(replay.shard.inter_chunk_latency.sum(), 0U);

  const auto next = replay.feed(says("c"), ms(7));
  EXPECT_FALSE(next.first_token);
  EXPECT_TRUE(replay.answer().token_events_in_different_reads);
  EXPECT_EQ(replay.shard.inter_chunk_latency.sum(), 7 * one_ms);
  EXPECT_EQ(replay.answer().reads, 2U);
}

TEST(StreamMeter, CountsTheSpansOfOneReadOnce) {
  Replay replay(options_for(Api::openai_chat));
  const std::string body = says("a") + says("b");
  replay.feed(std::string_view(body).substr(0, 10), ms(1));
  replay.feed(std::string_view(body).substr(10), ms(1));
  replay.feed("", ms(2));
  EXPECT_EQ(replay.answer().reads, 1U);
  replay.feed(":", ms(3));
  EXPECT_EQ(replay.answer().reads, 2U);
}

TEST(StreamMeter, MeasuresTheFirstTokenFromBothOrigins) {
  Replay replay(options_for(Api::openai_chat));  // It was received at -100 and sent at -60.
  replay.feed(chunk(delta(R"("role":"assistant","content":"")")), ms(5));
  EXPECT_EQ(count(replay.shard.time_to_first_token), 0U);
  replay.feed(says("a"), ms(10));
  EXPECT_EQ(replay.shard.time_to_first_token.sum(), 70 * one_ms);
  EXPECT_EQ(replay.shard.client_time_to_first_token.sum(), 110 * one_ms);
  replay.feed(says("b"), ms(20));
  EXPECT_EQ(count(replay.shard.time_to_first_token), 1U);
}

TEST(StreamMeter, ObservesNoGapOverAPause) {
  const auto with_counts = {counted("a", 1), counted("b", 2), counted("c", 3)};
  Replay replay(options_for(Api::openai_chat));
  int t = 0;
  for (const std::string& event : with_counts) {
    replay.feed(event, ms(t += 10));
    if (t == 10) replay.meter.paused();
  }
  EXPECT_EQ(count(replay.shard.inter_chunk_latency), 1U);
  EXPECT_EQ(replay.answer().gaps.count(), 1U);
  EXPECT_EQ(count(replay.shard.inter_token_latency), 1U);
  EXPECT_EQ(replay.shard.inter_token_latency.sum(), 10 * one_ms);
  EXPECT_EQ(replay.answer().counted_tokens, 3U);
}

TEST(StreamMeter, ObservesNoGapWithinWhatAPauseGathered) {
  Replay replay(options_for(Api::openai_chat));
  replay.feed(counted("a", 1), ms(0));
  replay.feed(counted("b", 2), ms(10));
  replay.meter.paused();
  replay.feed(counted("c", 3) + counted("d", 4) + counted("e", 5), ms(500));
  replay.meter.paused();  // The read was full, so more is to come.
  replay.feed(counted("f", 6) + counted("g", 7), ms(501));
  replay.feed(counted("h", 8), ms(521));
  replay.feed(counted("i", 9) + counted("j", 10), ms(541));
  // The gaps are from a to b, g to h, h to i and i to j.
  EXPECT_EQ(count(replay.shard.inter_chunk_latency), 4U);
  EXPECT_EQ(replay.shard.inter_chunk_latency.sum(), 50 * one_ms);
  EXPECT_EQ(count(replay.shard.inter_token_latency), 4U);
  EXPECT_EQ(replay.shard.inter_token_latency.sum(), 50 * one_ms);
  EXPECT_EQ(replay.answer().gaps.count(), 4U);
  EXPECT_EQ(replay.answer().coalesced_reads, 1U) << "weir's own pause accuses nobody";
  EXPECT_EQ(replay.answer().coalesced_token_events, 2U);
  EXPECT_EQ(replay.answer().counted_tokens, 10U);
}

TEST(StreamMeter, ObservesNoTokensWhoseGapWasPausedInPart) {
  Replay replay(options_for(Api::openai_chat));
  replay.feed(counted("a", 1), ms(0));
  replay.meter.paused();
  replay.feed(counted("b", 1), ms(10));  // It has k = 0, so its gap, paused, goes to the next.
  replay.feed(counted("c", 2), ms(20));
  EXPECT_EQ(count(replay.shard.inter_token_latency), 0U);
  EXPECT_EQ(count(replay.shard.inter_chunk_latency), 1U);
}

TEST(StreamMeter, TellsHowAnAnswerWasComplete) {
  StreamMeter::Options chat = options_for(Api::openai_chat);
  StreamMeter::Options two = chat;
  two.choices = 2;
  const StreamMeter::Options tgi = options_for(Api::tgi_generate);
  const StreamMeter::Options other = options_for(Api::other);
  const StreamMeter::Options opaque = options_for(Api::openai_chat, BodyForm::opaque);
  const StreamMeter::Options json = options_for(Api::openai_chat, BodyForm::json);
  const StreamMeter::Options kobold = options_for(Api::kobold_generate);
  const std::string last_native = tgi_event(R"({"token":{"id":5,"text":"a"},"generated_text":"a","details":null})");
  const std::string native = tgi_event(R"({"token":{"id":5,"text":"a"},"generated_text":null,"details":null})");
  struct {
    const char* what;
    StreamMeter::Options options;
    std::string body;
    bool whole, framed;
    Completeness wanted;
  } const cases[] = {
      {"marker", chat, says("a") + stop + done, true, true, Completeness::marker},
      {"marker, framing broken behind it", chat, says("a") + stop + done, false, true, Completeness::marker},
      {"marker, close", chat, says("a") + stop + done, true, false, Completeness::marker},
      {"finish", chat, says("a") + stop, true, true, Completeness::finish},
      {"finish, close", chat, says("a") + stop, true, false, Completeness::finish},
      {"finish, framing broken", chat, says("a") + stop, false, true, Completeness::none},
      {"no finish", chat, says("a"), true, true, Completeness::none},
      {"nothing", chat, "", true, true, Completeness::none},
      {"an empty finish reason", chat, chunk(delta(R"("content":"a")", "\"\"")), true, true, Completeness::none},
      {"one of two finished", two, says("a") + says("b", 1) + stop, true, true, Completeness::none},
      {"one of two seen", two, says("a") + stop, true, true, Completeness::none},
      {"two finished", two, stop + chunk(delta("", "\"stop\"", 1)), true, true, Completeness::finish},
      {"unasked choice unfinished", chat, stop + says("b", 1), true, true, Completeness::none},
      {"native end", tgi, native + last_native, true, true, Completeness::marker},
      {"no native end", tgi, native, true, true, Completeness::none},
      {"[DONE] is not TGI's end", tgi, native + done, true, true, Completeness::none},
      {"other, whole", other, "data: x\n\n", true, true, Completeness::framing},
      {"other, close", other, "data: x\n\n", true, false, Completeness::eof},
      {"other, marker", other, "data: x\n\n" + done, true, false, Completeness::marker},
      {"other, broken", other, "data: x\n\n", false, true, Completeness::none},
      {"Kobold, close", kobold, "data: {\"token\":\"a\"}\n\n", true, false, Completeness::eof},
      {"Kobold cut, close", kobold, "data: {\"token\":\"a\"}\n\ndata: {\"tok", true, false, Completeness::none},
      {"Kobold cut, framing whole", kobold, "data: {\"token\":\"a\"}\n\ndata: {\"tok", true, true,
       Completeness::framing},
      {"opaque, whole", opaque, "xyz", true, true, Completeness::framing},
      {"opaque, close", opaque, "xyz", true, false, Completeness::eof},
      {"opaque, broken", opaque, "xyz", false, true, Completeness::none},
      {"JSON, whole", json, R"({"choices":[]})", true, true, Completeness::framing},
      {"JSON, close", json, R"({"choices":[]})", true, false, Completeness::eof},
      {"JSON cut, close", json, R"({"choices":[)", true, false, Completeness::none},
      {"JSON cut, framing whole", json, R"({"choices":[)", true, true, Completeness::framing},
      {"JSON, framing broken", json, R"({"choices":[]})", false, true, Completeness::none},
  };
  for (const auto& one : cases) {
    const auto replay = replayed(one.body, one.options, one.whole, one.framed);
    EXPECT_EQ(name_of(replay->answer().complete), name_of(one.wanted)) << one.what;
    EXPECT_EQ(replay->answer().end, ms(1'000'000)) << one.what;
  }
}

TEST(StreamMeter, CountsALastEventWithoutBlankLineIfItIsWhole) {
  struct {
    std::string tail;
    std::uint32_t events;
    Completeness complete;
  } const cases[] = {
      {"data: [DONE]\n", 3, Completeness::marker},
      {"data: [DONE]", 3, Completeness::marker},
      {"data: [DONE", 2, Completeness::finish},
      {R"(data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}})", 3, Completeness::finish},
      {R"(data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2})", 2, Completeness::finish},
      {"data: {", 2, Completeness::finish},
      {": ping", 2, Completeness::finish},
  };
  for (const auto& one : cases) {
    const auto replay = replayed(says("a") + stop + one.tail);
    EXPECT_EQ(replay->answer().events, one.events) << one.tail;
    EXPECT_EQ(name_of(replay->answer().complete), name_of(one.complete)) << one.tail;
    EXPECT_FALSE(replay->answer().unparsed) << one.tail;

    const auto broken = replayed(says("a") + stop + one.tail, options_for(Api::openai_chat), false);
    EXPECT_EQ(broken->answer().events, 2U) << one.tail;
  }
}

TEST(StreamMeter, ShowsWhatWasSeenWhereNoEndCame) {
  Replay replay(options_for(Api::tgi_generate));
  feed_by_event(replay, sample("tgi_generate_stream.sse").substr(0, 400));
  const record::Answer& a = replay.answer();
  EXPECT_FALSE(a.end);
  EXPECT_EQ(a.output_tokens, 3U);
  EXPECT_EQ(a.token_source, TokenSource::events);
  EXPECT_EQ(a.tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(a.complete, Completeness::none);
}

TEST(StreamMeter, CountsNativeTokensWhereNoDetailsAre) {
  const auto token = [](const std::string& whole) {
    return tgi_event(R"({"token":{"id":5,"text":"a"},"generated_text":)" + whole + R"(,"details":null})");
  };
  const auto replay = replayed(token("null") + token("null") + token("\"aaa\""), options_for(Api::tgi_generate));
  EXPECT_EQ(replay->answer().output_tokens, 3U);
  EXPECT_EQ(replay->answer().token_source, TokenSource::events);
  EXPECT_EQ(replay->answer().prompt_tokens, std::nullopt);
  EXPECT_EQ(replay->answer().finish_reason, "");
  EXPECT_TRUE(replay->meter.complete());
}

TEST(StreamMeter, KeepsAtMostThirtyTwoPlainBytesOfAFinishReason) {
  const auto replay = replayed(chunk(delta("", R"("a\"b é0123456789012345678901234567890")")) + done);
  EXPECT_EQ(replay->answer().finish_reason, "a??b???0123456789012345678901234");
}

TEST(StreamMeter, GoesOnBehindBrokenJson) {
  for (const std::string broken :
       {R"({"choices":[)", R"({"choices":[{"delta":{"content":"a}]})", "{}x", "hello", "[1]",
        "{\"choices\":[{\"delta\":{\"content\":\"\xFF\"}}]}", R"({"choices":[{"delta":{"content":"\q"}}]})"}) {
    const auto replay = replayed("data: " + broken + "\n\n" + says("b") + done);
    EXPECT_TRUE(replay->answer().unparsed) << broken;
    EXPECT_EQ(replay->answer().token_events, 1U) << broken;
    EXPECT_EQ(replay->answer().events, 3U) << broken;
    EXPECT_EQ(replay->shard.unparsed.value(series::Unparsed::broken_json), 1U) << broken;
  }
}

TEST(StreamMeter, SkipsAnEventBeyondTheLimitAndReadsTheNext) {
  static_assert(StreamMeter::carry_limit == 1'048'576);
  const std::string huge(StreamMeter::carry_limit, 'x');
  const std::string body = says("a") + says(huge) + says("b") + done;
  for (const std::size_t step : {body.size(), std::size_t{65536}, std::size_t{4099}}) {
    for (const bool strip : {false, true}) {
      StreamMeter::Options options = options_for(Api::openai_chat);
      options.strip_usage = strip;
      Replay replay(options);
      for (std::size_t at = 0; at < body.size(); at += step) {
        replay.feed(std::string_view(body).substr(at, step), start);
      }
      replay.end();
      EXPECT_EQ(replay.answer().events, 4U) << step;
      EXPECT_EQ(replay.answer().token_events, 2U) << step;
      EXPECT_TRUE(replay.answer().unparsed) << step;
      EXPECT_EQ(replay.shard.unparsed.value(series::Unparsed::event_too_long), 1U) << step;
      EXPECT_TRUE(replay.forwarded == body) << step;
    }
  }
}

TEST(StreamMeter, ReadsALongEventWithinTheLimit) {
  const std::string body = says(std::string(300'000, 'x')) + done;
  Replay replay(options_for(Api::openai_chat));
  for (std::size_t at = 0; at < body.size(); at += 4096) replay.feed(std::string_view(body).substr(at, 4096), start);
  replay.end();
  EXPECT_EQ(replay.answer().output_chars, 300'000U);
  EXPECT_FALSE(replay.answer().unparsed);
}

TEST(StreamMeter, RelaysAnOpaqueBodyUnread) {
  const auto replay = replayed(says("a") + done, options_for(Api::openai_chat, BodyForm::opaque));
  EXPECT_EQ(replay->answer().events, 0U);
  EXPECT_FALSE(replay->answer().first_token);
  EXPECT_TRUE(replay->meter.has_event());
  EXPECT_FALSE(replay->meter.complete());
  EXPECT_FALSE(replay->meter.at_event_boundary());
  EXPECT_EQ(replay->forwarded, says("a") + done);
}

TEST(StreamMeter, SaysThatItCouldNotReadACodedBody) {
  StreamMeter::Options options = options_for(Api::openai_chat, BodyForm::opaque);
  options.coded = true;
  const auto replay = replayed(says("a") + done, options);
  EXPECT_TRUE(replay->answer().unparsed);
  EXPECT_EQ(replay->shard.unparsed.value(series::Unparsed::coded_body), 1U);
  EXPECT_EQ(replay->forwarded, says("a") + done);
}

}  // namespace
}  // namespace weir::metrics::measure
