#include "lab/load/stream_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/sim/answer.hpp"
#include "tests/http.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using testing::ElementsAre;

std::vector<std::string> split(std::string_view bytes, std::size_t piece) {
  EventSplitter splitter;
  std::vector<std::string> events;
  for (std::size_t i = 0; i < bytes.size(); i += piece) {
    splitter.feed(bytes.substr(i, piece), [&](std::string_view data) { events.emplace_back(data); });
  }
  return events;
}

TEST(EventSplitter, ReadsTheStandardsCornersAtEverySplit) {
  const struct {
    std::string bytes;
    std::vector<std::string> events;
  } cases[] = {
      {"data: a\n\ndata:b\n\n", {"a", "b"}},
      {"data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}},
      {"data: a\r\rdata: b\r\r", {"a", "b"}},
      {"data: a\r\n\rdata: b\n\r\n", {"a", "b"}},
      {"\xef\xbb\xbf"
       "data: a\n\n",
       {"a"}},
      {":\n\n: comment\ndata: a\nid: 1\nevent: x\nretry: 5\n\n", {"a"}},
      {"data: a\ndata:  b\ndata\n\n", {"a\n b\n"}},
      {"data\n\n", {""}},
      {"\n\n\n", {}},
      {"datax: a\n\n data: b\n\n", {}},
      {"data: a\n\ndata: unfinished\n", {"a"}},
      {"data: [DONE]\n\n", {"[DONE]"}},
      {"data: \xc3\xa9\xe6\xb0\xb4\xf0\x9f\x90\x9f\n\n", {"\xc3\xa9\xe6\xb0\xb4\xf0\x9f\x90\x9f"}},
  };
  for (const auto& c : cases) {
    for (std::size_t piece = 1; piece <= c.bytes.size(); ++piece) {
      EXPECT_EQ(split(c.bytes, piece), c.events) << c.bytes << " in pieces of " << piece;
    }
  }
}

std::string event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }

TEST(StreamReader, TheRoleAndTheEmptyFinishAreNoTokens) {
  StreamReader reader(Api::chat);
  reader.feed(event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})"),
              at(10));
  EXPECT_FALSE(reader.first_token);
  reader.feed(event(R"({"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]})"), at(20));
  reader.feed(
      event(
          R"({"choices":[{"index":0,"delta":{"content":"\"usage\":{\"completion_tokens\":99}"},"finish_reason":null}]})"),
      at(35));
  reader.feed(event(R"({"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]})"), at(50));
  reader.feed(event(R"({"choices":[],"usage":{"prompt_tokens":31,"total_tokens":34,"completion_tokens":3}})"), at(90));
  EXPECT_FALSE(reader.complete);
  reader.feed("data: [DONE]\n\n", at(90));
  EXPECT_TRUE(reader.complete);
  EXPECT_EQ(reader.token_events, 2u);
  EXPECT_EQ(reader.first_token, at(20));
  EXPECT_EQ(reader.last_token, at(35));
  EXPECT_EQ(reader.last_choice, at(50));
  EXPECT_EQ(reader.prompt_tokens, 31u);
  EXPECT_EQ(reader.output_tokens, 3u);
  EXPECT_THAT(reader.gaps, ElementsAre(testing::FloatEq(0.015f)));
  EXPECT_DOUBLE_EQ(*reader.tpot(), 0.015);  // (50 - 20) / (3 - 1)
}

TEST(StreamReader, WithoutUsageTokensAreEvents) {
  StreamReader reader(Api::completions);
  for (int i = 0; i < 5; ++i)
    reader.feed(event(R"({"choices":[{"index":0,"text":" w","finish_reason":null}]})"), at(20 * i));
  reader.feed(event(R"({"choices":[{"index":0,"text":"","finish_reason":"stop"}]})"), at(100));
  EXPECT_EQ(reader.token_events, 5u);
  EXPECT_EQ(reader.output_tokens, std::nullopt);
  EXPECT_DOUBLE_EQ(*reader.tpot(), 0.020);
}

TEST(StreamReader, ReasoningAndToolCallsAreTokens) {
  StreamReader reader(Api::chat);
  reader.feed(event(R"({"choices":[{"delta":{"reasoning":"hm"}}]})") +
                  event(R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})") +
                  event(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})") +
                  event(R"({"choices":[{"delta":{"reasoning_content":null,"content":null}}],"usage":null})"),
              at(1));
  EXPECT_EQ(reader.token_events, 3u);
  StreamReader thinking(Api::chat);
  thinking.feed(event(R"({"choices":[{"delta":{"reasoning":"hm"}}]})"), at(1));
  thinking.feed(event(R"({"choices":[{"delta":{"content":"a"}}]})"), at(2));
  EXPECT_EQ(thinking.first_token, at(1));
  EXPECT_EQ(thinking.first_output, at(2)) << "a thought is no output";
}

TEST(StreamReader, AnErrorEventIsAnErrorInEveryShape) {
  const struct {
    Api api;
    std::string json, says;
  } cases[] = {
      {Api::chat, R"({"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}})",
       "out of memory"},
      {Api::tgi, R"({"error":"Model is overloaded","error_type":"overloaded"})", "Model is overloaded"},
      {Api::chat, R"({"error":{"code":7}})", R"({"code":7})"},
      {Api::chat, "{broken", "an event is not a JSON object"},
      {Api::chat, "[1]", "an event is not a JSON object"},
  };
  for (const auto& c : cases) {
    StreamReader reader(c.api);
    reader.feed(event(c.json), at(1));
    reader.feed("data: [DONE]\n\n", at(1));
    EXPECT_EQ(reader.error, c.says);
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
          reader.feed(std::string_view(body).substr(i, piece), at(1));
        ASSERT_TRUE(reader.complete);
        ASSERT_EQ(reader.error, "");
        ASSERT_EQ(reader.output_tokens, 12u);
        ASSERT_EQ(reader.prompt_tokens, 40u);
        ASSERT_EQ(reader.token_events, by_stop && api != Api::tgi ? 11u : 12u);
      }
    }
  }
}

}  // namespace
}  // namespace weir::lab::load
