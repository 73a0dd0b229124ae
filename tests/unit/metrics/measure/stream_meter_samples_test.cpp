// Each sample stream of the engines' formats must say what stands here, and no split of it changes that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"
#include "tests/unit/split_grid.hpp"

namespace weir::metrics::measure {
namespace {

/// Indices count dispatched events, [DONE] included and comments not; -1 means none.
struct Sample {
  const char* file;
  Api api;
  const char* line_end;
  std::uint32_t events;
  int first_choice, first_token, first_output, last_choice;
  std::uint32_t token_events;
  const char* finish_reason;
  Completeness complete;
  bool error;
  int prompt, cached, output;
  std::uint64_t chars;  // It counts the code points of text and reasoning.
  TokensPerEvent tokens_per_event;
  bool usage_event;  // It has the event that asking for usage brings.
  std::uint32_t choices = 1;

  friend void PrintTo(const Sample& sample, std::ostream* out) { *out << sample.file; }
};

constexpr auto marker = Completeness::marker;
constexpr auto none = Completeness::none;
constexpr auto settled = TokensPerEvent::settled;
constexpr auto wire = TokensPerEvent::wire;
constexpr auto unknown = TokensPerEvent::unknown;

constexpr Sample samples[] = {
    {"vllm_chat.sse", chat, "\n", 10, 0, 1, 1, 7, 6, "stop", marker, false, 31, -1, 7, 19, settled, true},
    {"vllm_chat_continuous_usage.sse", chat, "\n", 10, 0, 1, 1, 7, 7, "stop", marker, false, 40, 32, 11, 44, wire,
     true},
    {"vllm_chat_error_midstream.sse", chat, "\n", 5, 0, 1, 1, 2, 2, "", marker, true, -1, -1, -1, 7, unknown, false},
    {"vllm_chat_truncated.sse", chat, "\n", 2, 0, 1, 1, 1, 1, "", none, false, -1, -1, -1, 3, unknown, false},
    {"vllm_completions.sse", completions, "\n", 8, 0, 0, 0, 5, 5, "stop", marker, false, 6, -1, 6, 18, settled, true},
    {"sglang_chat.sse", chat, "\n", 12, 0, 1, 5, 9, 8, "stop", marker, false, 18, 16, 13, 21, unknown, true},
    {"tgi_generate_stream.sse", tgi, "\n", 5, 0, 0, 0, 4, 5, "eos_token", marker, false, 6, -1, 5, 19, wire, false},
    {"tgi_generate_stream_error.sse", tgi, "\n", 1, -1, -1, -1, -1, 0, "", none, true, -1, -1, -1, 0, unknown, false},
    {"tgi_chat.sse", chat, "\n", 6, 0, 0, 0, 3, 3, "stop", marker, false, 17, -1, 4, 8, settled, true},
    {"tgi_completions.sse", completions, "\n", 5, 0, 0, 0, 3, 3, "stop", marker, false, 4, -1, 4, 11, settled, false},
    {"llamacpp_chat.sse", chat, "\n", 7, 0, 1, 1, 4, 3, "stop", marker, false, 11, 3, 4, 12, settled, true},
    {"sglang_generate.sse", sglang, "\n", 6, 0, 0, 0, 4, 5, "stop", marker, false, 5, 1, 8, 24, wire, false},
    {"sglang_generate_error.sse", sglang, "\n", 2, -1, -1, -1, -1, 0, "", marker, true, -1, -1, -1, 0, unknown, false},
    {"llamacpp_completion.sse", llamacpp, "\n", 4, 0, 0, 0, 3, 4, "eos", marker, false, 7, 0, 4, 12, wire, false},
    {"responses_api.sse", responses, "\n", 11, 4, 4, 4, 10, 3, "completed", marker, false, 37, 0, 4, 9, settled, false},
    {"anthropic_messages.sse", anthropic, "\n", 8, 3, 3, 3, 6, 2, "end_turn", marker, false, 125, 100, 15, 6, unknown,
     false},
    {"aphrodite_kobold_stream.sse", Api::kobold_generate, "\n", 3, 0, 0, 0, 2, 3, "", Completeness::framing, false, -1,
     -1, -1, 11, unknown, false},
    {"ollama_generate.ndjson", Api::ollama_generate, "\n", 3, 0, 0, 0, 2, 2, "stop", marker, false, 26, -1, 3, 7,
     settled, false},
    // These samples show what those above do not.
    {"vllm_chat_metrics.sse", chat, "\n", 6, 0, 1, 2, 3, 3, "length", marker, false, 9, -1, 3, 5, settled, true},
    {"sglang_generate_two_samples.sse", sglang, "\n", 7, 0, 0, 0, 5, 6, "stop", marker, false, 4, 2, 7, 10, wire, false,
     2},
    {"sglang_generate_incremental.sse", sglang, "\n", 4, 0, 0, 0, 2, 3, "stop", marker, false, 4, 2, 4, 6, wire, false},
    {"sglang_generate_abort.sse", sglang, "\n", 3, 0, 0, 0, 0, 2, "abort", marker, true, 4, 2, 2, 4, wire, false},
    {"llamacpp_chat_timings.sse", chat, "\n", 7, 0, 3, 3, 5, 3, "stop", marker, false, 11, 3, 4, 9, wire, false},
    {"llamacpp_completion_two_prompts.sse", llamacpp, "\n", 5, 0, 0, 0, 4, 4, "eos", Completeness::finish, false, 3, 0,
     4, 3, wire, false, 2},
    {"llamacpp_chat_two_choices.sse", chat, "\n", 10, 0, 1, 1, 7, 3, "stop", marker, false, 9, 4, 7, 5, unknown, true,
     2},
    {"llamacpp_chat_timings_per_token.sse", chat, "\n", 6, 0, 1, 1, 4, 3, "length", marker, false, 9, 0, 4, 15, wire,
     false},
    {"llamacpp_completions_two_prompts.sse", completions, "\n", 7, 0, 0, 0, 5, 2, "length", marker, false, 3, 0, 4, 2,
     settled, false, 2},
    {"litellm_chat.sse", chat, "\n", 5, 0, 0, 0, 2, 2, "stop", marker, false, 12, -1, 3, 5, settled, true},
    {"responses_tool_call.sse", responses, "\n", 8, 1, 1, 4, 7, 4, "completed", marker, false, 12, 8, 9, 3, unknown,
     false},
    {"responses_incomplete.sse", responses, "\n", 5, 1, 1, 1, 3, 2, "max_output_tokens", marker, false, 5, 0, 2, 7,
     settled, false},
    {"responses_failed.sse", responses, "\n", 4, 2, 2, 2, 3, 1, "failed", marker, true, -1, -1, -1, 1, unknown, false},
    {"anthropic_thinking_tool.sse", anthropic, "\n", 17, 2, 2, 8, 15, 6, "tool_use", marker, false, 35, 20, 30, 18,
     unknown, false},
    {"anthropic_error.sse", anthropic, "\n", 4, 2, 2, 2, 2, 1, "", none, true, 25, -1, -1, 2, unknown, false},
    {"ollama_chat.ndjson", Api::ollama_chat, "\n", 5, 0, 0, 2, 4, 4, "stop", marker, false, -1, -1, 12, 7, unknown,
     false},
    {"edge_bom.sse", chat, "\n", 6, 0, 1, 1, 3, 2, "stop", marker, false, 3, -1, 3, 2, settled, true},
    {"edge_comments_multiline.sse", chat, "\n", 7, 0, 1, 1, 3, 2, "stop", marker, false, 3, -1, 3, 2, settled, true},
    {"edge_cr.sse", chat, "\r", 6, 0, 1, 1, 3, 2, "stop", marker, false, 3, -1, 3, 2, settled, true},
    {"edge_crlf.sse", chat, "\r\n", 6, 0, 1, 1, 3, 2, "stop", marker, false, 3, -1, 3, 2, settled, true},
    {"edge_no_final_blank_line.sse", chat, "\n", 6, 0, 1, 1, 3, 2, "stop", marker, false, 3, -1, 3, 2, settled, true},
    {"edge_utf8.sse", chat, "\n", 7, 0, 1, 1, 4, 3, "stop", marker, false, 3, -1, 3, 10, settled, true},
};

std::optional<Moment> moment(int index) { return index < 0 ? std::nullopt : std::optional(ms(index)); }
std::optional<std::uint64_t> number(int n) {
  return n < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(n));
}

/// Returns the sample without its usage events, found by looking at the text between blank lines.
std::string without_usage(const Sample& of, std::string body) {
  if (!of.usage_event) return body;
  const std::string blank_line = std::string(of.line_end) + of.line_end;
  for (const std::string_view bare : {R"("choices":[],)", R"("choices":[{"index":0,"delta":{}}],)"}) {
    for (std::size_t inside = 0; (inside = body.find(bare)) != std::string::npos;) {
      const std::size_t before = body.rfind(blank_line, inside);
      const std::size_t behind = body.find(blank_line, inside);
      body.erase(before + blank_line.size(), behind - before);
    }
  }
  return body;
}

class StreamMeterSamples : public testing::TestWithParam<Sample> {
 protected:
  const Sample& expected() const { return GetParam(); }
  StreamMeter::Options options(bool strip) const {
    StreamMeter::Options options = options_for(expected().api, lines() ? BodyForm::lines : BodyForm::sse);
    options.strip_usage = strip;
    options.choices = expected().choices;
    return options;
  }
  bool lines() const { return std::string_view(expected().file).ends_with(".ndjson"); }
};

TEST_P(StreamMeterSamples, SayWhatTheyMustSay) {
  Replay replay(options(false));
  feed_by_event(replay, sample(expected().file));
  replay.end();
  const record::Answer& a = replay.answer();
  EXPECT_EQ(a.events, expected().events);
  EXPECT_EQ(a.first_choice, moment(expected().first_choice));
  EXPECT_EQ(a.first_token, moment(expected().first_token));
  EXPECT_EQ(a.first_output, moment(expected().first_output));
  EXPECT_EQ(a.last_choice, moment(expected().last_choice));
  EXPECT_EQ(a.token_events, expected().token_events);
  EXPECT_EQ(a.finish_reason, expected().finish_reason);
  EXPECT_EQ(name_of(a.complete), name_of(expected().complete));
  EXPECT_EQ(a.in_band_error, expected().error);
  EXPECT_EQ(a.prompt_tokens, number(expected().prompt));
  EXPECT_EQ(a.cached_tokens, number(expected().cached));
  EXPECT_EQ(a.output_tokens, number(expected().output));
  EXPECT_EQ(a.output_chars, expected().chars);
  EXPECT_EQ(name_of(a.tokens_per_event), name_of(expected().tokens_per_event));
  EXPECT_FALSE(a.unparsed);
  EXPECT_EQ(replay.meter.complete(), expected().complete == marker);
}

TEST_P(StreamMeterSamples, FillTheShardAsTheyFlow) {
  Replay replay(options(false));
  feed_by_event(replay, sample(expected().file));
  const bool token = expected().first_token >= 0;
  const auto ttft = token ? static_cast<std::uint64_t>(60 + expected().first_token) * 1'000'000 : 0;
  EXPECT_EQ(replay.shard.time_to_first_token.sum(), ttft);
  EXPECT_EQ(count(replay.shard.time_to_first_token), token ? 1U : 0U);
  EXPECT_EQ(replay.shard.client_time_to_first_token.sum(), token ? ttft + 40'000'000 : 0);
  const std::uint64_t gaps = token ? expected().token_events - expected().choices : 0;
  EXPECT_EQ(count(replay.shard.inter_chunk_latency), gaps);
  EXPECT_EQ(replay.answer().gaps.count(), gaps);
  if (expected().tokens_per_event != wire) {
    EXPECT_EQ(count(replay.shard.inter_token_latency), 0U);
  }
  EXPECT_EQ(replay.shard.output_tokens.value(), replay.answer().counted_tokens);
}

TEST_P(StreamMeterSamples, AreForwardedUnchanged) {
  Replay replay(options(false));
  const std::string body = sample(expected().file);
  feed_by_event(replay, body);
  EXPECT_EQ(replay.forwarded, body);
  replay.end();
  EXPECT_EQ(replay.forwarded, body);
}

TEST_P(StreamMeterSamples, LoseTheirUsageEventAndNothingElse) {
  const std::string body = sample(expected().file);
  const std::string wanted = without_usage(expected(), body);
  ASSERT_EQ(wanted.size() < body.size(), expected().usage_event);
  Replay replay(options(true));
  replay.feed(body, start);
  replay.end();
  EXPECT_EQ(replay.forwarded, wanted);
}

TEST_P(StreamMeterSamples, AreTheSameHoweverTheyAreSplit) {
  const std::string body = sample(expected().file);
  for (const bool strip : {false, true}) {
    Replay whole(options(strip));
    whole.feed(body, start);
    whole.end();
    const std::string wanted = words(whole);
    for (std::size_t cut = 1; cut < body.size(); cut += split_step) {
      Replay split(options(strip));
      split.feed(std::string_view(body).substr(0, cut), start);
      split.feed(std::string_view(body).substr(cut), start);
      split.end();
      ASSERT_EQ(words(split), wanted) << "cut at " << cut << (strip ? ", stripping" : "");
    }
    Replay bytes(options(strip));
    for (const char& byte : body) bytes.feed({&byte, 1}, start);
    bytes.end();
    ASSERT_EQ(words(bytes), wanted) << "byte by byte" << (strip ? ", stripping" : "");
  }
}

/// Bytes are changed, lost and doubled. Nobody knows what they then say, but every split says the same.
TEST_P(StreamMeterSamples, AreTheSameHoweverTheyAreSplitWhenDamaged) {
  const std::string intact = sample(expected().file);
  std::uint64_t random = 7;
  const auto below = [&](std::size_t bound) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(random >> 33) % bound;
  };
  constexpr std::string_view odd = "\n\r\"\\{}[]:,0-n \xFF";
  for (int round = 0; round < 40; ++round) {
    std::string body = intact;
    for (std::size_t damages = 1 + below(3); damages > 0; --damages) {
      const std::size_t at = below(body.size());
      const std::size_t length = std::min(1 + below(40), body.size() - at);
      const std::size_t how = below(3);
      if (how == 0) body[at] = odd[below(odd.size())];
      if (how == 1) body.erase(at, length);
      if (how == 2) body.insert(at, body.substr(at, length));
    }
    Replay whole(options(true));
    whole.feed(body, start);
    whole.end();
    Replay pieces(options(true));
    for (std::size_t from = 0, size = 0; from < body.size(); from += size) {
      size = std::min(1 + below(60), body.size() - from);
      pieces.feed(std::string_view(body).substr(from, size), start);
    }
    pieces.end();
    ASSERT_EQ(words(pieces), words(whole)) << "round " << round << ":\n" << body;
  }
}

TEST_P(StreamMeterSamples, ThatMayBreakOffLeaveTheClientAtAnEventBoundary) {
  const std::string body = sample(expected().file);
  const std::string stripped = without_usage(expected(), body);
  Replay held(options(true));
  Replay plain(options(false));
  for (std::size_t size = 1; size <= body.size(); ++size) {
    const std::string_view begun = std::string_view(body).substr(0, size);
    held.feed(begun.substr(size - 1), start);
    // Lines are never held back, because nobody asks Ollama for usage.
    ASSERT_TRUE(lines() || held.meter.at_event_boundary()) << "after " << size;
    ASSERT_TRUE(stripped.starts_with(held.forwarded)) << "after " << size;

    plain.feed(begun.substr(size - 1), start);
    const bool between = (lines() && begun.ends_with("\n")) || begun.ends_with("\n\n") || begun.ends_with("\r\r") ||
                         begun.ends_with("\n\r\n") || begun.ends_with("\r\n\r");
    ASSERT_EQ(plain.meter.at_event_boundary(), between) << "after " << size;
  }
  const std::string sent = held.forwarded;
  held.end(false);
  EXPECT_EQ(held.forwarded, sent);
}

std::string stem(const testing::TestParamInfo<Sample>& sample) {
  const std::string file = sample.param.file;
  return file.substr(0, file.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Engines, StreamMeterSamples, testing::ValuesIn(samples), stem);

}  // namespace
}  // namespace weir::metrics::measure
