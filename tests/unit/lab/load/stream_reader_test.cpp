#include "lab/load/stream_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lab/sim/answer.hpp"
#include "tests/http.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using metrics::Completeness;
using testing::ElementsAre;

std::string event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }
std::string delta(const std::string& members, const std::string& rest = "") {
  return event(R"({"choices":[{"index":0,"delta":{)" + members + "}" + rest + "}]}");
}
const std::string stop = delta("", R"(,"finish_reason":"stop")");

TEST(StreamReader, TheRoleAndTheEmptyFinishAreNoTokens) {
  StreamReader reader(Api::chat);
  feed(reader, delta(R"("role":"assistant","content":"")"), at(10));
  EXPECT_FALSE(reader.stream().answer.first_token);
  feed(reader, delta(R"("content":"a")"), at(20));
  feed(reader, delta(R"("content":"\"usage\":{\"completion_tokens\":99}")"), at(35));
  EXPECT_FALSE(reader.stream().closed_empty());
  feed(reader, stop, at(50));
  EXPECT_TRUE(reader.stream().closed_empty());
  feed(reader, event(R"({"choices":[],"usage":{"prompt_tokens":31,"total_tokens":34,"completion_tokens":3}})"), at(90));
  feed(reader, "data: [DONE]\n\n", at(90));
  reader.end(true, at(91));
  EXPECT_EQ(reader.stream().answer.complete, Completeness::marker);
  EXPECT_EQ(reader.stream().answer.token_events, 2u);
  EXPECT_EQ(reader.stream().answer.first_token, at(20));
  EXPECT_EQ(reader.stream().answer.last_choice, at(50));
  EXPECT_EQ(reader.stream().answer.prompt_tokens, 31u);
  EXPECT_EQ(reader.stream().output_tokens(), 3u);
  EXPECT_THAT(reader.stream().gaps, ElementsAre(testing::FloatEq(0.015f)));
  EXPECT_DOUBLE_EQ(*reader.stream().tpot(), 0.015);  // (50 - 20) / (3 - 1)
}

TEST(StreamReader, WithoutUsageTokensAreEvents) {
  StreamReader reader(Api::completions);
  for (int i = 0; i < 5; ++i)
    feed(reader, event(R"({"choices":[{"index":0,"text":" w","finish_reason":null}]})"), at(20 * i));
  feed(reader, event(R"({"choices":[{"index":0,"text":"","finish_reason":"stop"}]})"), at(100));
  EXPECT_EQ(reader.stream().output_tokens(), 5u);
  EXPECT_EQ(reader.stream().answer.output_tokens, std::nullopt);
  EXPECT_DOUBLE_EQ(*reader.stream().tpot(), 0.020);
}

TEST(StreamReader, EverythingThatIsATokenToWeirIsOneHere) {
  for (const char* members : {R"("reasoning":"hm")", R"("tool_calls":[{"index":0}])", R"("function_call":{"name":"f"})",
                              R"("refusal":"No")", R"("content":[{"type":"text","text":"a"}])"}) {
    StreamReader reader(Api::chat);
    feed(reader, delta(R"("role":"assistant")") + delta(members) + stop, at(1));
    EXPECT_EQ(reader.stream().answer.token_events, 1u) << members;
  }
  StreamReader counted(Api::chat);
  const auto count = [](int n) {
    return event(R"({"choices":[{"index":0,"delta":{"content":""}}],"usage":{"completion_tokens":)" +
                 std::to_string(n) + "}}");
  };
  for (const int n : {0, 3, 3, 5}) feed(counted, count(n), at(10 * n));
  EXPECT_EQ(counted.stream().answer.first_token, at(30)) << "a count that rises is a token, whatever the delta shows";
  EXPECT_EQ(counted.stream().answer.token_events, 2u);
  EXPECT_EQ(counted.stream().output_tokens(), 5u);
  EXPECT_DOUBLE_EQ(*counted.stream().tpot(), 0.010);  // (50 - 30) / (5 - 3)
}

TEST(StreamReader, AThoughtIsNoOutput) {
  StreamReader reader(Api::chat);
  feed(reader, delta(R"("reasoning":"hm")"), at(1));
  feed(reader, delta(R"("content":"a\n\u00e9")"), at(2));
  feed(reader, delta(R"("content":"b")"), at(3));
  EXPECT_EQ(reader.stream().answer.first_output, at(2));
  EXPECT_EQ(reader.stream().answer.output_chars, 6u);
}

TEST(StreamReader, AStreamIsCompleteWhereItIsToWeir) {
  const std::string said = delta(R"("content":"a")");
  const struct {
    std::string body;
    bool framed;
    Completeness complete;
  } cases[] = {{said + stop + "data: [DONE]\n\n", true, Completeness::marker},
               {said + stop + "data: [DONE]", true, Completeness::marker},
               {said + "data:[DONE]\n\n", true, Completeness::marker},
               {said + stop, true, Completeness::finish},
               {said + stop, false, Completeness::finish},
               {said, true, Completeness::none},
               {said + stop.substr(0, 40), true, Completeness::none},
               {"", true, Completeness::none}};
  for (const auto& c : cases) {
    StreamReader reader(Api::chat);
    if (!c.body.empty()) feed(reader, c.body, at(1));
    reader.end(c.framed, at(2));
    EXPECT_EQ(reader.stream().answer.complete, c.complete) << c.body;
  }
  const StreamReader reader(Api::chat);
  EXPECT_TRUE(reader.reads(200, "text/event-stream; charset=utf-8", false));
  EXPECT_TRUE(reader.reads(200, "", false)) << "some servers name no type";
  EXPECT_FALSE(reader.reads(200, "application/json", false));
  EXPECT_FALSE(reader.reads(200, "text/event-stream", true));
}

TEST(StreamReader, TellsTheWordsOfAnErrorAtEverySplit) {
  const struct {
    Api api;
    std::string json, says;
  } cases[] = {
      {Api::chat, R"({"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}})",
       "out of memory"},
      {Api::tgi, R"({"error":"Model is overloaded","error_type":"overloaded"})", "Model is overloaded"},
      {Api::chat, R"({"error":{"code":7}})", R"({"code":7})"},
      {Api::chat, R"({"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]})"},
  };
  for (const auto& c : cases) {
    for (const std::string& end : {std::string("\n\ndata: [DONE]\n\n"), std::string()}) {
      const std::string body = delta(R"("content":"the error")") + "data: " + c.json + end;
      for (std::size_t piece = 1; piece <= body.size(); ++piece) {
        StreamReader reader(c.api);
        for (std::size_t i = 0; i < body.size(); i += piece) feed(reader, body.substr(i, piece), at(1));
        reader.end(true, at(1));
        ASSERT_TRUE(reader.stream().answer.in_band_error);
        ASSERT_EQ(reader.stream().error, c.says) << body << " in pieces of " << piece;
      }
    }
  }
}

/// Returns what a simulated replica writes, without its head and chunk framing.
std::string body_of(const sim::Answer& answer, std::uint64_t tokens) {
  std::string framed;
  for (std::uint64_t i = 1; i <= tokens; ++i) answer.append_tokens(framed, i, i);
  std::string body;
  tests::BodyReader(tests::BodyReader::Framing::chunked).read(framed, body);
  return body;
}

TEST(StreamReader, CountsWhatTheSimulatedReplicaSaysAtEverySplit) {
  for (const sim::Route route : {sim::Route::chat, sim::Route::completions, sim::Route::tgi_generate_stream}) {
    for (const bool by_stop : {false, true}) {
      sim::Request request;
      request.route = route;
      request.stream = request.include_usage = request.details = true;
      request.prompt_tokens = 40;
      const sim::Answer answer(request, {12, by_stop}, "m", 5, 1);
      const std::string body = body_of(answer, 12);
      const Api api = route == sim::Route::chat          ? Api::chat
                      : route == sim::Route::completions ? Api::completions
                                                         : Api::tgi;
      for (std::size_t piece = 1; piece < 300; ++piece) {
        StreamReader reader(api);
        for (std::size_t i = 0; i < body.size(); i += piece)
          feed(reader, std::string_view(body).substr(i, piece), at(static_cast<int>(i)));
        reader.end(true, at(1'000'000));
        ASSERT_EQ(reader.stream().answer.complete, Completeness::marker);
        ASSERT_EQ(reader.stream().error, "");
        ASSERT_EQ(reader.stream().output_tokens(), 12u);
        ASSERT_EQ(reader.stream().answer.prompt_tokens, 40u);
        ASSERT_EQ(reader.stream().answer.token_events, by_stop && api != Api::tgi ? 11u : 12u);
        ASSERT_EQ(reader.stream().gaps.size(), reader.stream().answer.token_events - 1);
      }
    }
  }
}

}  // namespace
}  // namespace weir::lab::load
