// StreamMeter as the relay uses it: reads, pauses, limits, what it says while an answer flows. What it says of each
// kind of answer is in golden streams (stream_cases_test.cpp).
#include "metrics/measure/stream_meter.hpp"

#include <gtest/gtest.h>

#include <map>

#include "metrics/wire/engine/report.hpp"
#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

constexpr std::uint64_t one_ms = 1'000'000;

/// Returns an event whose chunk carries the cumulative count.
std::string counted(const std::string& text, int total, const std::string& finish = "null") {
  return chunk(delta(R"("content":")" + text + "\"", finish), usage(5, total));
}

TEST(BodyForm, IsToldByApiStatusAndType) {
  struct {
    Api api;
    unsigned status;
    std::string_view type;
    bool coded;
    BodyForm form;
  } const cases[] = {
      {Api::openai_chat, 200, "text/event-stream", false, BodyForm::sse},
      {Api::openai_chat, 200, "Text/Event-Stream; charset=utf-8", false, BodyForm::sse},
      {Api::openai_chat, 200, " text/event-stream ;x=y", false, BodyForm::sse},
      {Api::openai_chat, 200, "application/json", false, BodyForm::json},
      {Api::tgi_generate, 200, "application/json;charset=utf-8", false, BodyForm::json},
      {Api::tgi_generate, 201, "application/problem+json", false, BodyForm::json},
      {Api::other, 200, "text/event-stream", false, BodyForm::sse},
      {Api::other, 200, "application/json", false, BodyForm::opaque},
      {Api::openai_embeddings, 200, "application/json", false, BodyForm::json},
      {Api::ollama_chat, 200, "application/x-ndjson", false, BodyForm::lines},
      {Api::ollama_generate, 200, "Application/jsonl; charset=utf-8", false, BodyForm::lines},
      {Api::ollama_chat, 200, "application/json", false, BodyForm::json},
      {Api::ollama_chat, 200, "application/json-seq", false, BodyForm::json},
      {Api::ollama_chat, 404, "application/x-ndjson", false, BodyForm::opaque},
      {Api::openai_chat, 200, "text/event-stream", true, BodyForm::opaque},
      {Api::openai_chat, 200, "application/json", true, BodyForm::opaque},
      {Api::openai_chat, 400, "application/json", false, BodyForm::opaque},
      {Api::openai_chat, 500, "text/event-stream", false, BodyForm::opaque},
      {Api::openai_chat, 200, "text/event-streams", false, BodyForm::json},
      {Api::openai_chat, 200, "text/html", false, BodyForm::json},
      {Api::openai_chat, 200, "", false, BodyForm::json},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(body_form(one.api, one.status, one.type, one.coded), one.form) << one.status << " " << one.type;
  }
}

TEST(BodyForm, IsAStreamWhereOneWasAskedForAndTheTypeSaysNothingBetter) {
  for (const char* type : {"text/plain", "text/html; charset=utf-8", "application/octet-stream", ""}) {
    SCOPED_TRACE(type);
    EXPECT_EQ(body_form(Api::openai_chat, 200, type, false, true), BodyForm::sse);
    EXPECT_EQ(body_form(Api::ollama_chat, 200, type, false, true), BodyForm::lines);
    EXPECT_EQ(body_form(Api::ollama_generate, 200, type, false, true), BodyForm::lines);
    EXPECT_EQ(body_form(Api::other, 200, type, false, true), BodyForm::opaque);
    EXPECT_EQ(body_form(Api::openai_chat, 404, type, false, true), BodyForm::opaque);
    EXPECT_EQ(body_form(Api::openai_chat, 200, type, true, true), BodyForm::opaque);
  }
  EXPECT_EQ(body_form(Api::openai_chat, 200, "application/json", false, true), BodyForm::json);
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

TEST(StreamMeter, ReadsALongEventWithinTheLimit) {
  const std::string body = says(std::string(300'000, 'x')) + done;
  Replay replay(options_for(Api::openai_chat));
  for (std::size_t at = 0; at < body.size(); at += 4096) replay.feed(std::string_view(body).substr(at, 4096), start);
  replay.end();
  EXPECT_EQ(replay.answer().output_chars, 300'000U);
  EXPECT_FALSE(replay.answer().unparsed);
}

TEST(StreamMeterDialects, DoNotTakeAnthropicsFirstCountForOne) {
  Replay replay(options_for(anthropic));
  const std::string body = sample("anthropic_messages.sse");
  feed_by_event(replay, body.substr(0, body.find("event: message_delta")));
  // The placeholder of message_start is no count, so an answer that breaks off here has none.
  EXPECT_FALSE(replay.answer().output_tokens);
  EXPECT_FALSE(replay.answer().first_output_tokens);
  EXPECT_EQ(replay.answer().prompt_tokens, 125U);
  EXPECT_EQ(replay.answer().token_source, TokenSource::none);
}

TEST(StreamMeterDialects, CountSpeculativeTokensOfTgiThatCameInOneRead) {
  const auto token = [](const std::string& end) {
    return R"(data:{"token":{"id":5,"text":"a","special":false},"generated_text":)" + end + "}\n\n";
  };
  Replay replay(options_for(tgi));
  replay.feed(token("null"), ms(0));
  const auto read = replay.feed(token("null") + token("null") + token("null"), ms(30));
  EXPECT_EQ(read.tokens, 3U);
  replay.feed(token("\"aaaaa\""), ms(40));
  replay.end();
  EXPECT_EQ(replay.answer().output_tokens, 5U);
  EXPECT_EQ(replay.answer().tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(count(replay.shard.inter_token_latency), 4U);
  EXPECT_EQ(replay.shard.inter_token_latency.sum(), 40'000'000U);
}

TEST(StreamMeterJson, SeesAJsonAnswersEndAtOnce) {
  Replay replay(options_for(Api::openai_chat, BodyForm::json));
  EXPECT_FALSE(replay.meter.begun());
  replay.feed("{\"choices\":[]", start);
  EXPECT_TRUE(replay.meter.begun());
  EXPECT_FALSE(replay.meter.complete());
  replay.feed("}", start);
  EXPECT_TRUE(replay.meter.complete());
  replay.feed("\n", start);
  EXPECT_TRUE(replay.meter.complete());
}

TEST(StreamMeterJson, OfABrokenDocumentNothingIsSaidHoweverItIsCut) {
  const std::string body =
      "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"}}],\"error\":{},\"usage\":{\"completion_tokens\":3},"
      "\"\xc2\xa7" +
      std::string(100, '\\') + "\xa3\":1";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    Replay replay(options_for(Api::openai_chat, BodyForm::json));
    replay.feed(std::string_view(body).substr(0, cut), start);
    replay.feed(std::string_view(body).substr(cut), start);
    EXPECT_FALSE(replay.meter.refused());
    replay.end();
    ASSERT_EQ(replay.answer().token_events, 0U) << cut;
    ASSERT_FALSE(replay.answer().output_tokens) << cut;
    ASSERT_TRUE(replay.answer().unparsed) << cut;
  }
}

bool unread(StreamMeter::Options options, const std::string& bytes) {
  return Replay(options).feed(bytes, ms(1)).unread;
}

TEST(StreamMeterUnread, IsEveryByteOfWhatIsNoStream) {
  for (const auto form : {BodyForm::opaque, BodyForm::json}) {
    const auto options = options_for(Api::openai_chat, form);
    EXPECT_TRUE(unread(options, "{"));
    EXPECT_FALSE(unread(options, ""));
    EXPECT_FALSE(Replay(options).meter.at_event_boundary());
  }
}

TEST(StreamMeterFingerprint, TakesEventsThatAreNotParsedAgain) {
  const SipKey key{3, 4};
  for (const std::string member : {"content", "reasoning_content"}) {
    std::string body, text;
    for (int i = 0; i < 200; ++i) {
      const std::string piece = " t" + std::to_string(i);
      body += chunk(delta("\"" + member + "\":\"" + piece + "\""));
      text += piece;
    }
    StreamMeter::Options options = options_for(chat);
    options.fingerprint_key = &key;
    record::FingerprintMaker maker(key);
    member == "content" ? maker.text(text) : maker.reasoning(text);
    EXPECT_EQ(*replayed(body + stop + done, options)->answer().fingerprint, maker.finish());
  }
}

TEST(EngineFigures, OfTheHeadAreThoseOfTgi) {
  const std::map<std::string_view, std::string_view> head{{"x-compute-type", "1-gpu"},  {"x-total-time", "1250"},
                                                          {"x-validation-time", "1"},   {"x-queue-time", "40"},
                                                          {"x-inference-time", "1209"}, {"x-time-per-token", "12"},
                                                          {"x-prompt-tokens", "550"},   {"x-generated-tokens", "100"}};
  const auto value_of = [](const auto& fields) {
    return [&fields](std::string_view name) {
      const auto at = fields.find(name);
      return at == fields.end() ? std::string_view() : at->second;
    };
  };
  EXPECT_EQ(wire::engine_head(value_of(head)),
            (wire::EngineFigures{
                .queue = 0.04, .total = 1.25, .time_per_token = 0.012, .prompt_tokens = 550, .output_tokens = 100}));

  for (const std::string_view odd : {"", "-1", "1.5", "12ms", " 12", "99999999999999999999"}) {
    const std::map<std::string_view, std::string_view> fields{{"x-queue-time", odd}, {"x-prompt-tokens", odd}};
    EXPECT_EQ(wire::engine_head(value_of(fields)), wire::EngineFigures{}) << odd;
  }
}

TEST(EngineFigures, OfTheHeadStandUntilTheBodySaysMore) {
  StreamMeter::Options options = options_for(tgi, BodyForm::json);
  options.engine = wire::EngineFigures{.queue = 0.04, .total = 1.25, .prompt_tokens = 550, .output_tokens = 100};
  const auto bare = replayed(R"({"generated_text":"ab"})", options);
  EXPECT_EQ(bare->answer().engine, options.engine);
  EXPECT_EQ(bare->answer().prompt_tokens, 550U);
  EXPECT_EQ(bare->answer().output_tokens, 100U);
  EXPECT_EQ(bare->answer().token_source, TokenSource::usage);

  const auto detailed =
      replayed(R"({"generated_text":"ab","details":{"generated_tokens":2,"input_length":3}})", options);
  EXPECT_EQ(detailed->answer().prompt_tokens, 3U);
  EXPECT_EQ(detailed->answer().output_tokens, 2U);

  options.api = Api::openai_chat;
  const auto timed = replayed(R"({"choices":[],"timings":{"prompt_ms":500}})", options);
  EXPECT_EQ(timed->answer().engine->queue, 0.04);
  EXPECT_EQ(timed->answer().engine->prefill, 0.5);
}

}  // namespace
}  // namespace weir::metrics::measure
