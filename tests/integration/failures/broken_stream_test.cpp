// A replica breaks off after the client has seen something. The client gets every byte there was, learns that the
// answer is not whole, and gets nothing that looks like its good end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::StartsWith;

const auto cut = AnyOf(Eq(BodyEnd::fin), Eq(BodyEnd::reset));

/// The body must have exactly one whole error event behind `events`.
boost::json::object error_event_behind(const std::string& events, const std::string& body) {
  EXPECT_THAT(body, StartsWith(events));
  auto rest = std::string_view(body).substr(std::min(events.size(), body.size()));
  EXPECT_TRUE(rest.starts_with("data:")) << rest;
  EXPECT_TRUE(rest.ends_with("\n\n")) << rest;
  EXPECT_EQ(rest.find("\n\n"), rest.size() - 2) << "one event: " << rest;
  boost::system::error_code error;
  const auto json = boost::json::parse(rest.substr(std::min<std::size_t>(5, rest.size())), error);
  EXPECT_TRUE(!error && json.is_object()) << rest;
  return json.is_object() ? json.as_object() : boost::json::object();
}

/// Sends what it is given and breaks off when the client has it.
class Breaking {
 public:
  enum class How { reset, close, close_in_chunk };

  Breaking(std::string bytes, std::size_t visible, How how) : bytes_(std::move(bytes)), visible_(visible), how_(how) {}

  void operator()(Exchange& exchange) {
    exchange.send(sse_head() + chunk(bytes_));
    if (how_ == How::close_in_chunk) exchange.send("40\r\n");
    received_.wait_for(visible_, "bytes at the client");
    how_ == How::reset ? exchange.reset() : exchange.close();
  }

  Response read(HttpClient& client, std::string_view request) {
    client.send(request);
    auto got = client.response_head();
    while (client.read_more(got)) received_.advance_to(got.body.size());
    return got;
  }

 private:
  std::string bytes_;
  std::size_t visible_;
  How how_;
  Progress received_;
};

class BrokenStream : public ::testing::TestWithParam<Breaking::How> {};

std::string first_events(const StreamScript& script, std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes += script.events.at(i);
  return bytes;
}

TEST_P(BrokenStream, EndsInAnErrorEventAndIsCut) {
  const auto sent = first_events(vllm_chat(8), 4);
  Breaking breaking(sent, sent.size(), GetParam());
  ScriptedReplica replica(std::ref(breaking));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto got = breaking.read(client, post(chat, chat_body()));

  const auto error = error_event_behind(sent, got.body);
  ASSERT_TRUE(error.contains("error") && error.at("error").is_object()) << got.body;
  EXPECT_TRUE(error.at("error").as_object().contains("message"));
  EXPECT_THAT(got.end, cut);
  const auto metrics = weir.metrics_after(1);
  expect_idle(metrics);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "upstream_reset"}}), 1);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 0);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), 3);
  const auto line = weir.log_lines(1).front();
  EXPECT_EQ(member(line, "output_tokens"), "3");
  EXPECT_EQ(member(line, "tokens_source"), "counted");
  EXPECT_EQ(metrics.sum("weir_time_per_output_token_seconds_count"), 0);
}

TEST_P(BrokenStream, OfTgiEndsInTgisOwnErrorEvent) {
  const auto sent = first_events(tgi_stream(8), 3);
  Breaking breaking(sent, sent.size(), GetParam());
  ScriptedReplica replica(std::ref(breaking));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto got = breaking.read(client, post("/generate_stream", tgi_body()));

  const auto error = error_event_behind(sent, got.body);
  EXPECT_TRUE(error.contains("error") && error.at("error").is_string()) << got.body;
  EXPECT_TRUE(error.contains("error_type")) << got.body;
  EXPECT_THAT(got.end, cut);
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "upstream_reset"}}), 1);
}

TEST_P(BrokenStream, OfAnHttp10ClientEndsInAReset) {
  const auto sent = first_events(vllm_chat(8), 4);
  Breaking breaking(sent, sent.size(), GetParam());
  ScriptedReplica replica(std::ref(breaking));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  auto request = post(chat, chat_body_with_usage());
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  EXPECT_EQ(breaking.read(client, request).end, BodyEnd::reset) << "a FIN would make the answer look whole";
}

TEST_P(BrokenStream, InTheMiddleOfAnEventIsCutWithoutAnother) {
  const auto sent = first_events(vllm_chat(8), 4);
  const auto with_half = sent.substr(0, sent.size() - 30);
  Breaking breaking(with_half, with_half.size(), GetParam());
  ScriptedReplica replica(std::ref(breaking));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto got = breaking.read(client, post(chat, chat_body_with_usage()));

  EXPECT_EQ(got.body, with_half) << "every byte, and nothing within an event";
  EXPECT_THAT(got.end, cut);
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "upstream_reset"}}), 1);
}

TEST_P(BrokenStream, InTheMiddleOfAnEventThatWeirHeldBackEndsAtTheEventBefore) {
  const auto script = vllm_chat(8);
  const auto whole = first_events(script, 3);
  Breaking breaking(whole + script.events[3].substr(0, 50), whole.size(), GetParam());
  ScriptedReplica replica(std::ref(breaking));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto got = breaking.read(client, post(chat, chat_body()));

  EXPECT_TRUE(error_event_behind(whole, got.body).contains("error"));
  EXPECT_THAT(got.end, cut);
}

TEST_P(BrokenStream, OfAWholeAnswerIsCutToo) {
  Event seen;
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"choices\":[");
    seen.wait("the client to have the first bytes");
    GetParam() == Breaking::How::reset ? exchange.reset() : exchange.close();
  });
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  client.send(post(chat, whole_chat_body()));
  auto got = client.response_head();
  client.read_until(got, "{\"choices\":[");
  seen.set();
  client.rest(got);
  EXPECT_EQ(got.body, "{\"choices\":[");
  EXPECT_THAT(got.end, cut);
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "upstream_reset"}}), 1);
}

std::string how_it_breaks(const ::testing::TestParamInfo<Breaking::How>& test) {
  const std::array names{"resets", "closes", "closes_within_a_chunk"};
  return names[static_cast<std::size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Replica, BrokenStream,
                         ::testing::Values(Breaking::How::reset, Breaking::How::close, Breaking::How::close_in_chunk),
                         how_it_breaks);

TEST(BrokenStream, BytesThatLieBeforeTheResetAreNotLost) {
  const auto sent = first_events(vllm_chat(200), 150);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(sent));
    exchange.reset();
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u);
  EXPECT_TRUE(error_event_behind(sent, got.body).contains("error"));
  EXPECT_THAT(got.end, cut);
}

TEST(BrokenStream, ThatEndsInGoodOrderWithoutItsMarkerIsTruncated) {
  const auto sent = first_events(vllm_chat(8), 4);
  ScriptedReplica replica(
      [&](Exchange& exchange) { exchange.send(sse_head() + chunk(sent) + std::string(last_chunk)); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.body, sent);
  EXPECT_EQ(got.end, BodyEnd::whole) << "the framing was whole; what is missing is the replica's affair";
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "truncated"}}), 1);
  EXPECT_EQ(metrics.sum("weir_time_per_output_token_seconds_count"), 0);
}

TEST(BrokenStream, WithAFinishButNoMarkerIsWhole) {
  auto script = vllm_chat(4);
  script.marker.clear();
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_EQ(member(weir.log_lines(1).front(), "complete"), "finish");
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "ok"}}), 1);
}

TEST(BrokenStream, AnErrorEventInMidStreamIsRelayedAndCounted) {
  const auto sent = first_events(vllm_chat(8), 4) + std::string(vllm_error) + "data: [DONE]\n\n";
  ScriptedReplica replica(
      [&](Exchange& exchange) { exchange.send(sse_head() + chunk(sent) + std::string(last_chunk)); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.body, sent);
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "upstream_error"}}), 1);
}

}  // namespace
}  // namespace weir::integration
