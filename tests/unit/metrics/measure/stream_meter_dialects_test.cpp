// Promises that hold for every dialect.
#include "metrics/measure/stream_meter.hpp"
#include "metrics/wire/dialects/dialect.hpp"

#include <gtest/gtest.h>
#include <algorithm>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

constexpr auto kobold = Api::kobold_generate;
constexpr auto ollama = Api::ollama_chat;

StreamMeter::Options stream_of(Api api) {
  const bool lines = api == Api::ollama_chat || api == Api::ollama_generate;
  return options_for(api, lines ? BodyForm::lines : BodyForm::sse);
}

/// Returns an event as `api` frames it.
std::string event_of(Api api, const std::string& json) {
  return stream_of(api).form == BodyForm::lines ? json + "\n" : "data: " + json + "\n\n";
}

/// A dialect with one event that has a text of `chars` letters, and one that is an error.
struct Speaker {
  Api api;
  std::string before, behind;  // They enclose the text.
  std::string error;

  std::string says(const std::string& text) const { return event_of(api, before + text + behind); }
  friend void PrintTo(const Speaker& one, std::ostream* out) { *out << name_of(one.api); }
};

const Speaker speakers[] = {
    {Api::openai_chat, R"({"choices":[{"index":0,"delta":{"content":")", R"("}}]})", R"({"error":{"message":"m"}})"},
    {Api::openai_completions, R"({"choices":[{"index":0,"text":")", R"("}]})", R"({"object":"error","message":"m"})"},
    {responses, R"({"type":"response.output_text.delta","delta":")", R"("})", R"({"type":"error","message":"m"})"},
    {anthropic, R"({"type":"content_block_delta","delta":{"text":")", R"("}})",
     R"({"type":"error","error":{"type":"overloaded_error"}})"},
    {tgi, R"({"token":{"id":1,"text":")", R"("},"generated_text":null})", R"({"error":"overloaded"})"},
    {sglang, R"({"output_ids":[1],"meta_info":{"finish_reason":null},"text":")", R"("})",
     R"({"text":"","meta_info":{"finish_reason":{"type":"abort","message":"m"},"completion_tokens":0}})"},
    {llamacpp, R"({"content":")", R"(","stop":false})",
     R"({"error":{"code":500,"message":"m","type":"server_error"}})"},
    {kobold, R"({"token":")", R"("})", R"({"error":"m"})"},
    {Api::ollama_generate, R"({"response":")", R"(","done":false})", R"({"error":"m"})"},
    {ollama, R"({"message":{"content":")", R"("},"done":false})", R"({"error":"m"})"},
};

class Dialects : public testing::TestWithParam<Speaker> {};

TEST_P(Dialects, SayErrorsInBand) {
  const Speaker& one = GetParam();
  const std::string error = event_of(one.api, one.error);
  const auto refused = replayed(error, stream_of(one.api));
  EXPECT_TRUE(refused->answer().in_band_error);
  EXPECT_TRUE(refused->meter.refused());
  EXPECT_FALSE(refused->answer().first_choice);
  EXPECT_FALSE(refused->answer().unparsed);

  const auto later = replayed(one.says("a") + error, stream_of(one.api));
  EXPECT_TRUE(later->answer().in_band_error);
  EXPECT_FALSE(later->meter.refused());
  EXPECT_EQ(later->answer().token_events, 1U);
}

TEST_P(Dialects, GoOnBehindWhatIsNoJson) {
  const Speaker& one = GetParam();
  for (const std::string broken : {"{\"x\":", "{}x", "hello", "[1]", "{\"x\" 1}"}) {
    const auto replay = replayed(one.says("a") + event_of(one.api, broken) + one.says("ab"), stream_of(one.api));
    EXPECT_TRUE(replay->answer().unparsed) << broken;
    EXPECT_EQ(replay->answer().token_events, 2U) << broken;
    EXPECT_EQ(replay->answer().events, 3U) << broken;
  }
}

TEST_P(Dialects, DoNotBelieveABrokenText) {
  const Speaker& one = GetParam();
  for (const std::string text : {"\xFF", "\\q", "\x01"}) {
    const auto replay = replayed(one.says(text), stream_of(one.api));
    EXPECT_TRUE(replay->answer().unparsed);
    EXPECT_EQ(replay->answer().token_events, 0U);
    EXPECT_EQ(replay->answer().output_chars, 0U);
  }
}

TEST_P(Dialects, SkipAnEventBeyondTheLimitAndReadTheNext) {
  const Speaker& one = GetParam();
  const std::string huge(StreamMeter::carry_limit, 'x');
  const std::string body = one.says("a") + one.says(huge) + one.says("ab");
  const SipKey key{3, 4};
  StreamMeter::Options options = stream_of(one.api);
  options.fingerprint_key = &key;
  for (const std::size_t step : {body.size(), std::size_t{65536}, std::size_t{4099}}) {
    for (const bool strip : {false, true}) {
      options.strip_usage = strip;
      Replay replay(options);
      for (std::size_t at = 0; at < body.size(); at += step) {
        replay.feed(std::string_view(body).substr(at, step), start);
      }
      replay.end();
      EXPECT_EQ(replay.answer().events, 3U) << step;
      EXPECT_EQ(replay.answer().token_events, 2U) << step;
      EXPECT_TRUE(replay.unread);
      EXPECT_EQ(boost::json::serialize(seen(replay).at("unparsed")), R"({"event_too_long":1})") << step;
      EXPECT_EQ(*replay.answer().fingerprint, record::Fingerprint()) << "what is not whole has none";
      EXPECT_TRUE(replay.forwarded == body) << step;
    }
  }
}

/// The event that was not read may have been the last one.
TEST_P(Dialects, TakeAStreamWithAnEventBeyondTheLimitForWholeIfItsFramingIs) {
  const Speaker& one = GetParam();
  const std::string huge = one.says(std::string(StreamMeter::carry_limit, 'x'));
  const bool any = wire::dialect_of(one.api).end == wire::StreamEnd::any;
  const std::string cut = stream_of(one.api).form == BodyForm::lines ? "{\"a\":" : "data: {\"a\":";
  const auto ended = [&](const std::string& body, bool whole, bool framed) {
    Replay replay(stream_of(one.api));
    replay.feed(body, start);
    replay.end(whole, framed);
    return replay.answer().complete;
  };
  for (const std::string& last : {huge, huge + one.says("a")}) {
    EXPECT_EQ(ended(one.says("a") + last, true, true), Completeness::framing);
    EXPECT_EQ(ended(one.says("a") + last, true, false), Completeness::eof);
    EXPECT_EQ(ended(one.says("a") + last, false, true), Completeness::none) << "the framing broke";
    EXPECT_EQ(ended(one.says("a") + last + cut, true, false), any ? Completeness::eof : Completeness::none);
  }
  const auto within = ended(one.says("a") + huge.substr(0, huge.size() - 3), true, false);
  EXPECT_EQ(within, wire::dialect_of(one.api).end == wire::StreamEnd::marker ? Completeness::none : Completeness::eof);
}

TEST_P(Dialects, SurviveValuesOfOtherKinds) {
  const Api api = GetParam().api;
  for (
      const std::string json :
      {R"({"choices":{},"delta":[],"message":"m","response":[],"usage":3,"text":null,"token":{},"meta_info":[]})",
       R"({"type":7,"content":{},"tokens":{},"stop":"yes","done":1,"timings":[],"metrics":3,"details":"x","index":-1})",
       R"({"type":"content_block_delta","delta":"x"})", R"({"type":"response.output_text.delta","delta":{}})",
       R"({"type":"response.completed","response":null})", R"({"type":"message_delta","delta":null,"usage":null})"}) {
    const auto replay = replayed(event_of(api, json) + GetParam().says("ab"), stream_of(api));
    EXPECT_FALSE(replay->answer().unparsed) << json;
    EXPECT_FALSE(replay->answer().in_band_error) << json;
    EXPECT_EQ(replay->answer().events, 2U) << json;
  }
}

std::string api_name(const testing::TestParamInfo<Speaker>& one) {
  std::string name(name_of(one.param.api));
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Apis, Dialects, testing::ValuesIn(speakers), api_name);

}  // namespace
}  // namespace weir::metrics::measure
