// StreamMeter takes out the usage event that only weir asked for, and not a byte more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

StreamMeter::Options stripping() {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.strip_usage = true;
  return options;
}

TEST(StreamMeterStrip, StripsOnlyAnEventWithoutChoicesAndWithUsage) {
  const std::string kept[] = {
      chunk("", R"(,"usage":null)"),
      chunk("", R"(,"prompt_filter_results":[])"),
      chunk(delta(R"("content":"a")"), usage(3, 1)),
      chunk(delta("", "\"stop\""), usage(3, 4)),
      says(R"(\"choices\":[],\"usage\":{})"),
      R"(data: {"choices":[],"usage":{"prompt_tokens":3},"error":{"message":"m"}})"
      "\n\n",
      R"(data: {"choices":[],"usage":{"prompt_tokens":3})"
      "\n\n",  // It is broken.
      ": choices usage\n\n",
      done,
  };
  for (const std::string& event : kept) EXPECT_EQ(replayed(event, stripping())->forwarded, event);

  const std::string cut[] = {
      chunk("", usage(3, 4)),
      chunk("", usage(3, 4) + R"(,"timings":{"predicted_n":4})"),
      R"(data: {"usage":{"prompt_tokens":3}})"
      "\n\n",
      R"(data: {"choices":null,"usage":{"prompt_tokens":3}})"
      "\n\n",
      ": note\nid: 7\ndata: {\"usage\":{},\ndata: \"choices\":[]}\n\n",
  };
  for (const std::string& event : cut) {
    EXPECT_EQ(replayed(event, stripping())->forwarded, "");
    EXPECT_EQ(replayed(event + done, stripping())->forwarded, done);
    EXPECT_EQ(replayed(event, options_for(Api::openai_chat))->forwarded, event);
  }
}

/// Returns what LiteLLM sends last: its choice brings nothing.
std::string bare_usage(const std::string& members = "", const std::string& rest = "") {
  return chunk(R"({"index":0,"delta":{)" + members + "}" + rest + "}", usage(3, 4));
}

TEST(StreamMeterStrip, StripsAUsageEventWhoseChoicesBringNothing) {
  const std::string events[] = {
      bare_usage(),
      bare_usage(R"("content":"","role":null,"tool_calls":[],"refusal":null)"),
      bare_usage("", R"(,"finish_reason":null,"logprobs":null)"),
      chunk(R"({"index":0,"text":"","finish_reason":""})", usage(3, 4)),
      chunk(R"({"index":0,"delta":null})", usage(3, 4)),
  };
  for (const std::string& event : events) {
    const auto replay = replayed(says("a") + stop + event + done, stripping());
    EXPECT_EQ(replay->forwarded, says("a") + stop + done) << event;
    EXPECT_EQ(replay->answer().output_tokens, 4U) << event;
    EXPECT_EQ(replay->answer().token_events, 1U) << event;
    EXPECT_EQ(replay->answer().last_choice, ms(1)) << "the finish: a usage event carries no choice";
    EXPECT_EQ(replayed(says("a") + stop + event + done)->forwarded, says("a") + stop + event + done);
    // This event lacks its blank line.
    const std::string unended = event.substr(0, event.size() - 1);
    EXPECT_EQ(replayed(says("a") + stop + unended, stripping())->forwarded, says("a") + stop) << event;
  }
}

TEST(StreamMeterStrip, LeavesAnEventThatBringsMoreThanUsage) {
  const std::string events[] = {
      bare_usage(R"("role":"assistant")"),
      bare_usage(R"("content":" ")"),
      bare_usage(R"("tool_calls":[{"index":0}])"),
      bare_usage(R"("x":{})"),
      bare_usage("", R"(,"finish_reason":"stop")"),
      bare_usage("", R"(,"logprobs":{"content":[]})"),
      bare_usage("", R"(,"stop_reason":7)"),
      chunk(R"({"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}})", usage(3, 4)),
      chunk(R"({"index":0,"delta":{}})"),
      chunk(R"({"index":0,"delta":{}})", R"(,"usage":null)"),
  };
  for (const std::string& event : events) {
    const std::string body = says("a") + stop + event + done;
    EXPECT_EQ(replayed(body, stripping())->forwarded, body);
  }
}

TEST(StreamMeterStrip, LeavesAChunkWithoutTextOfAChoiceThatGoesOn) {
  // The engine reports usage on every chunk without being asked, and this step brought no text.
  const std::string body = says("a") + bare_usage() + says("b") + stop + done;
  const auto replay = replayed(body, stripping());
  EXPECT_EQ(replay->forwarded, body);
  EXPECT_EQ(replay->answer().last_choice, ms(3));
  // It belongs to another choice, which has not finished.
  const std::string other = says("a") + stop + chunk(R"({"index":1,"delta":{}})", usage(3, 4)) + done;
  EXPECT_EQ(replayed(other, stripping())->forwarded, other);
}

TEST(StreamMeterStrip, StripsTheUsageEventOfEachChoice) {
  StreamMeter::Options options = stripping();
  options.choices = 2;
  const std::string body = sample("llamacpp_chat_two_choices.sse");
  const auto replay = replayed(body, options);
  EXPECT_EQ(replay->forwarded.find("usage"), std::string::npos);
  EXPECT_EQ(replay->answer().output_tokens, 7U);
}

TEST(StreamMeterStrip, HoldsBackAnUnfinishedEventWhenStripping) {
  Replay replay(stripping());
  const std::string event = says("hello");
  replay.feed(says("a") + event.substr(0, 20), ms(0));
  EXPECT_EQ(replay.forwarded, says("a"));
  const auto read = replay.feed(event.substr(20, 5), ms(1));
  EXPECT_EQ(read.events, 0U);
  EXPECT_EQ(replay.forwarded, says("a"));
  replay.feed(event.substr(25) + "data", ms(2));
  EXPECT_EQ(replay.forwarded, says("a") + event);
  EXPECT_TRUE(replay.meter.at_event_boundary());
}

TEST(StreamMeterStrip, LetsAnEventThroughThatIsLongerThanItHolds) {
  // It cannot be taken out any more, however it was split.
  const std::string filler(StreamMeter::hold_limit, ' ');
  const std::string long_usage = R"(data: {"choices":[],)" + filler + usage(3, 4).substr(1) + "}\n\n";
  const std::string body = says("a") + long_usage + done;
  for (const std::size_t step : {body.size(), std::size_t{1000}, std::size_t{1}}) {
    Replay replay(stripping());
    for (std::size_t at = 0; at < body.size(); at += step) replay.feed(std::string_view(body).substr(at, step), start);
    replay.end();
    EXPECT_EQ(replay.forwarded, body) << step;
    EXPECT_EQ(replay.answer().output_tokens, 4U) << step;
  }

  Replay replay(stripping());
  replay.feed(says("a") + long_usage.substr(0, StreamMeter::hold_limit), start);
  EXPECT_EQ(replay.forwarded, says("a"));
  EXPECT_TRUE(replay.meter.at_event_boundary());
  replay.feed(long_usage.substr(StreamMeter::hold_limit, 1), start);
  EXPECT_EQ(replay.forwarded.size(), says("a").size() + StreamMeter::hold_limit + 1);
  EXPECT_FALSE(replay.meter.at_event_boundary());
}

TEST(StreamMeterStrip, SendsWhatItHeldIfTheAnswerEndedWhole) {
  EXPECT_EQ(replayed(says("a") + "data: [DONE]", stripping())->forwarded, says("a") + "data: [DONE]");
  EXPECT_EQ(replayed(says("a") + ": x", stripping())->forwarded, says("a") + ": x");
  EXPECT_EQ(replayed(says("a") + "data: {\"cho", stripping())->forwarded, says("a") + "data: {\"cho");
  const std::string usage_event = chunk("", usage(3, 4));
  const std::string unended = usage_event.substr(0, usage_event.size() - 1);
  const auto replay = replayed(says("a") + unended, stripping());
  EXPECT_EQ(replay->forwarded, says("a"));
  EXPECT_EQ(replay->answer().output_tokens, 4U);
}

TEST(StreamMeterStrip, DropsWhatItHeldIfTheAnswerBrokeOff) {
  EXPECT_EQ(replayed(says("a") + "data: [DONE]", stripping(), false)->forwarded, says("a"));
}

StreamMeter::Options stripping_all() {
  StreamMeter::Options options = stripping();
  options.strip_continuous_usage = true;
  return options;
}

/// Returns the stream as the engine would have written it unasked, without usage members and the last usage event.
std::string unasked(const std::string& body) {
  static const std::regex event(R"(data: [^\n]*"choices":\[\],"usage":[^\n]*\n\n)");
  static const std::regex member(R"(,"usage":\{[^{}]*(\{[^{}]*\})?[^{}]*\})");
  return std::regex_replace(std::regex_replace(body, event, ""), member, "");
}

TEST(StreamMeterStripContinuous, LeavesWhatTheEngineWouldHaveSentUnasked) {
  const std::string body = sample("vllm_chat_continuous_usage.sse");
  const std::string wanted = unasked(body);
  ASSERT_EQ(wanted.find("usage"), std::string::npos);
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    Replay replay(stripping_all());
    replay.feed(std::string_view(body).substr(0, cut), ms(0));
    replay.feed(std::string_view(body).substr(cut), ms(0));
    replay.end();
    ASSERT_EQ(replay.forwarded, wanted) << "cut at " << cut;
    ASSERT_EQ(replay.answer().output_tokens, 11U);
    ASSERT_EQ(replay.answer().tokens_per_event, TokensPerEvent::wire);
  }
  EXPECT_EQ(replayed(body, stripping_all())->forwarded, wanted) << "byte by byte";
}

TEST(StreamMeterStripContinuous, TakesTheMemberAndOneCommaWhereverItStands) {
  struct {
    std::string event, left;
  } const cases[] = {
      {R"({"choices":[{"index":0}],"usage":{"completion_tokens":1}})", R"({"choices":[{"index":0}]})"},
      {R"({"choices":[{"index":0}],"usage":{"completion_tokens":1},"x":1})", R"({"choices":[{"index":0}],"x":1})"},
      {R"({"usage":{"completion_tokens":1},"choices":[{"index":0}]})", R"({"choices":[{"index":0}]})"},
      {R"({ "usage" : {"completion_tokens":1} , "choices":[{"index":0}]})", R"({  "choices":[{"index":0}]})"},
      {R"({"choices":[{"index":0}] , "usage" : { "a":{"b":"}"} } })", R"({"choices":[{"index":0}]  })"},
      // weir did not ask for a value that is no object, and text that a model writes is no member.
      {R"({"choices":[{"index":0}],"usage":null})", R"({"choices":[{"index":0}],"usage":null})"},
      {R"({"choices":[{"delta":{"content":",\"usage\":{}"}}]})",
       R"({"choices":[{"delta":{"content":",\"usage\":{}"}}]})"},
      {R"({"choices":[{"usage":{"completion_tokens":1}}]})", R"({"choices":[{"usage":{"completion_tokens":1}}]})"},
      {R"({"choices":[{"index":0}],"usage":{"completion_tokens":1})",
       R"({"choices":[{"index":0}],"usage":{"completion_tokens":1})"},
  };
  for (const auto& one : cases) {
    for (const std::string end : {"\n\n", "\r\n\r\n", "\r\r"}) {
      const std::string body = ": c" + end.substr(end.size() / 2) + "data:" + one.event + end;
      const std::string left = ": c" + end.substr(end.size() / 2) + "data:" + one.left + end;
      EXPECT_EQ(replayed(body + done, stripping_all())->forwarded, left + done) << one.event;
      Replay whole(stripping_all());
      whole.feed(body + done, start);
      whole.end();
      EXPECT_EQ(whole.forwarded, left + done) << one.event;
    }
    // The last event lacks its blank line.
    const bool json = one.event.ends_with("}}") || one.event.ends_with("1}") || one.event.ends_with("null}") ||
                      one.event.ends_with("} }") || one.event.ends_with("]}");
    if (json) {
      EXPECT_EQ(replayed("data: " + one.event, stripping_all())->forwarded, "data: " + one.left);
    }
  }
}

TEST(StreamMeterStripContinuous, TakesTheUsageOfAStepWithoutTextAndTheUsageEventWhole) {
  const std::string body = chunk(delta(R"("content":"a")"), usage(3, 1)) + bare_usage("", R"(,"finish_reason":null)") +
                           chunk(delta("", "\"stop\""), usage(3, 4)) + bare_usage() + done;
  const auto replay = replayed(body, stripping_all());
  EXPECT_EQ(replay->forwarded, says("a") + chunk(R"({"index":0,"delta":{},"finish_reason":null})") + stop + done);
  EXPECT_EQ(replay->answer().output_tokens, 4U);
  EXPECT_EQ(replay->answer().tokens_per_event, TokensPerEvent::wire);
}

TEST(StreamMeterStripContinuous, TakesNothingOutOfAnEventWhoseUsageIsNoJson) {
  // A parser that skips by brackets takes it for an object, and would cut only a part of it.
  const std::string event =
      R"(data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":1,"x":"c{y":32}}})"
      "\n\n";
  EXPECT_EQ(replayed(event + done, stripping_all())->forwarded, event + done);
}

TEST(StreamMeterStripContinuous, IsNotDoneUnlessAsked) {
  const std::string event = chunk(delta(R"("content":"a")"), usage(3, 1));
  EXPECT_EQ(replayed(event, stripping())->forwarded, event);
  EXPECT_EQ(replayed(event)->forwarded, event);
}

TEST(StreamMeterStripContinuous, LeavesAnEventAsItIsThatCannotBeHeldOrMapped) {
  const std::string text(StreamMeter::hold_limit, 'x');
  const std::string long_event = chunk(delta(R"("content":")" + text + "\""), usage(3, 1));
  EXPECT_EQ(replayed(long_event + done, stripping_all())->forwarded, long_event + done);
  const std::string joined = "data: {\"choices\":[{\"index\":0}],\ndata: \"usage\":{\"completion_tokens\":1}}\n\n";
  EXPECT_EQ(replayed(joined + done, stripping_all())->forwarded, joined + done);
}

TEST(StreamMeterStripContinuous, LeavesTheUsageThatLlamaCppTellsUnasked) {
  const std::string body = sample("llamacpp_completions_two_prompts.sse");
  StreamMeter::Options options = stripping_all();
  options.api = Api::openai_completions;
  EXPECT_EQ(replayed(body, options)->forwarded, body);
}

StreamMeter::Options stripping_timings() {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.strip_timings = true;
  return options;
}

std::string timings(int predicted) {
  return R"(,"timings":{"cache_n":3,"prompt_n":8,"prompt_ms":31.25,"predicted_n":)" + std::to_string(predicted) + "}";
}

TEST(StreamMeterStripTimings, LeavesWhatLlamaCppWouldHaveSentUnasked) {
  // Its last chunk has them in any case. `é` came as two tokens, of which the first brought no event.
  const std::string role = chunk(delta(R"("role":"assistant","content":null)"));
  const std::string finish = chunk(delta("", "\"length\""), timings(4));
  const std::string body = role + chunk(delta(R"("content":"a")"), timings(1)) +
                           chunk(delta(R"("content":"é")"), timings(3)) + chunk(delta(R"("content":"b")"), timings(4)) +
                           finish + done;
  const std::string wanted = role + says("a") + says("é") + says("b") + finish + done;
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    Replay replay(stripping_timings());
    replay.feed(std::string_view(body).substr(0, cut), ms(0));
    replay.feed(std::string_view(body).substr(cut), ms(0));
    replay.end();
    ASSERT_EQ(replay.forwarded, wanted) << "cut at " << cut;
  }
  const auto replay = replayed(body, stripping_timings());
  EXPECT_EQ(replay->forwarded, wanted) << "byte by byte";
  EXPECT_EQ(replay->answer().output_tokens, 4U);
  EXPECT_EQ(replay->answer().tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(count(replay->shard.inter_token_latency), 3U) << "4 less the first";
  EXPECT_TRUE(replay->answer().timed);
}

TEST(StreamMeterStripTimings, LeavesUsageAndTheTimingsThatStandBesideItAlone) {
  // The client asked for usage, so timings stand on the usage event.
  const std::string end = stop + chunk("", usage(11, 2) + timings(2)) + done;
  EXPECT_EQ(replayed(chunk(delta(R"("content":"a")"), timings(1)) + end, stripping_timings())->forwarded,
            says("a") + end);
  const std::string both = chunk(delta(R"("content":"a")"), usage(3, 1) + timings(1));
  EXPECT_EQ(replayed(both, stripping_timings())->forwarded, chunk(delta(R"("content":"a")"), usage(3, 1)));
  const std::string other[] = {
      chunk(delta(R"("content":"a")"), R"(,"timings":null)"),
      chunk(delta(R"("content":"\"timings\":{}")")),
      chunk(delta(R"("content":"a")"), R"(,"x":{"timings":{"predicted_n":1}})"),
      chunk(delta(R"("content":"a")", "\"stop\""), timings(1)),
  };
  for (const std::string& event : other) EXPECT_EQ(replayed(event, stripping_timings())->forwarded, event);
  const std::string event = chunk(delta(R"("content":"a")"), timings(1));
  EXPECT_EQ(replayed(event, stripping())->forwarded, event) << "only where they were asked for";
  EXPECT_EQ(replayed(event)->forwarded, event);
}

TEST(StreamMeterStripTimings, TakesThemOffAnEventWithoutBlankLine) {
  const std::string event = chunk(delta(R"("content":"a")"), timings(1));
  const std::string left = says("a");
  EXPECT_EQ(replayed(event.substr(0, event.size() - 1), stripping_timings())->forwarded,
            left.substr(0, left.size() - 1));
}

}  // namespace
}  // namespace weir::metrics::measure
