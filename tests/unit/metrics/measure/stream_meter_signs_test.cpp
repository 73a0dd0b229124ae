// What a stream shows of its replica beside tokens: that it has no room, or that something comes that cannot be read.
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

std::string data(const std::string& json) { return "data: " + json + "\n\n"; }

bool overloaded(const std::string& body, Api api = Api::openai_chat) {
  return replayed(body, options_for(api))->meter.overloaded();
}

TEST(StreamMeterOverload, IsToldByTheFirstErrorInTheWordsOfEachEngine) {
  const struct {
    Api api;
    const char* event;
    bool overload;
  } rows[] = {
      {Api::tgi_generate, R"({"error":"Model is overloaded","error_type":"overloaded"})", true},
      {Api::tgi_generate, R"({"error":"`inputs` must be shorter","error_type":"validation"})", false},
      {Api::openai_chat, R"({"error":{"message":"Model is overloaded","http_status_code":429}})", true},
      {Api::openai_chat, R"({"error":{"message":"Input validation error","http_status_code":422}})", false},
      {Api::openai_chat, R"({"error": {"message": "The request queue is full.", "code": 503}})", true},
      {Api::openai_chat, R"({"error":{"message":"m","code":"429"}})", true},
      {Api::openai_chat, R"({"error":{"message":"m","type":"InternalServerError","code":500}})", false},
      {Api::openai_chat, R"({"object":"error","message":"m","code":503})", true},
      {Api::openai_chat, R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})", true},
      {Api::openai_chat, R"({"error":{"message":"code 503, type overloaded"}})", false},
      {Api::sglang_generate, R"({"text":"","meta_info":{"finish_reason":{"type":"abort","status_code":503}}})", true},
      {Api::sglang_generate, R"({"error":{"message":"The input is too long"}})", false},
      {Api::anthropic_messages, R"({"type":"error","error":{"type":"overloaded_error","message":"m"}})", true},
      {Api::anthropic_messages, R"({"type":"error","error":{"type":"api_error","message":"m"}})", false},
  };
  for (const auto& row : rows) EXPECT_EQ(overloaded(data(row.event), row.api), row.overload) << row.event;
}

TEST(StreamMeterOverload, IsNoneBehindTokens) {
  EXPECT_FALSE(overloaded(chunk(delta(R"("content":"a")")) + data(R"({"error":{"message":"m","code":503}})")));
}

bool unread(StreamMeter::Options options, const std::string& bytes) {
  return Replay(options).feed(bytes, ms(1)).unread;
}

TEST(StreamMeterUnread, IsWhatMayHoldTokensAndShowsNone) {
  const struct {
    Api api;
    std::string bytes;
    bool unread;
  } rows[] = {
      {Api::openai_chat, ": ping\n\n", false},
      {Api::openai_chat, "data: \n\n", false},
      {Api::openai_chat, "data: null\n\n", false},
      {Api::openai_chat, "data: {\"a\":", false},
      {Api::openai_chat, data(R"({"novel":"text"})"), true},
      {Api::openai_chat, data("{\"broken"), true},
      {Api::openai_chat, chunk(delta(R"("content":"a")")), false},
      {Api::openai_chat, chunk(delta(R"("role":"assistant","content":"")")), false},
      {Api::openai_chat, chunk("", usage(5, 0)), false},
      {Api::openai_chat, data(R"({"error":{"message":"m"}})"), false},
      {Api::openai_chat, chunk(delta(R"("content":"a")")) + data(R"({"novel":"text"})"), false},
      {Api::openai_chat, chunk(delta(R"("content":"a")")) + data("{\"broken"), true},
      {Api::anthropic_messages, data(R"({"type":"ping"})"), false},
      {Api::anthropic_messages, data(R"({"type":"novel_delta","words":"a"})"), true},
  };
  for (const auto& row : rows) EXPECT_EQ(unread(options_for(row.api), row.bytes), row.unread) << row.bytes;
}

TEST(StreamMeterUnread, IsAnEventThatIsTooLong) {
  Replay replay(options_for(Api::openai_chat));
  bool any = false;
  const std::string piece(64 * 1024, 'x');
  replay.feed("data: {\"a\":\"", ms(1));
  for (int i = 0; i < 20; ++i) any |= replay.feed(piece, ms(2 + i)).unread;
  any |= replay.feed("\"}\n\n", ms(30)).unread;
  EXPECT_TRUE(any);
}

TEST(StreamMeterUnread, IsEveryByteOfWhatIsNoStream) {
  for (const auto form : {BodyForm::opaque, BodyForm::json}) {
    const auto options = options_for(Api::openai_chat, form);
    EXPECT_TRUE(unread(options, "{"));
    EXPECT_FALSE(unread(options, ""));
  }
}

}  // namespace
}  // namespace weir::metrics::measure
