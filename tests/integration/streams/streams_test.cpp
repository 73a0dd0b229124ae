// A client gets the bytes of a stream that it would have seen without weir, and weir counts the stream exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Runs one of many streams. The replica sends an event only when the client has all before it, so that no two of them
/// share a read.
struct Stepped {
  StreamScript script;
  Progress received;
};

void play_in_step(Exchange& exchange, Stepped& stream) {
  exchange.send(sse_head());
  std::size_t sent = 0;
  for (const auto& event : stream.script.events) {
    stream.received.wait_for(sent, "bytes at the client");
    exchange.send(chunk(event));
    sent += event.size();
  }
  stream.received.wait_for(sent, "bytes at the client");
  if (asks_for_usage(exchange.request())) exchange.send(chunk(stream.script.usage));
  exchange.send(chunk(stream.script.marker) + std::string(last_chunk));
}

TEST(Streams, SixtyAtOnceOverTwoReplicasAreRelayedUnchangedAndCountedExactly) {
  constexpr std::size_t count = 60;
  std::vector<std::unique_ptr<Stepped>> streams;
  std::size_t prompt_tokens = 0, output_tokens = 0, gaps = 0, body_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto stream = std::make_unique<Stepped>();
    stream->script = vllm_chat(5 + i % 13, 20 + i, "s" + std::to_string(i) + "w");
    prompt_tokens += stream->script.prompt_tokens;
    output_tokens += stream->script.output_tokens;
    gaps += stream->script.token_events - 1;
    body_bytes += stream->script.body(true).size();
    streams.push_back(std::move(stream));
  }
  const auto by_number = [&](Exchange& exchange) {
    const auto& body = exchange.request().body;
    play_in_step(exchange, *streams.at(std::stoul(body.substr(body.find("number ") + 7))));
  };
  ScriptedReplica first(by_number), second(by_number);
  WeirUnderTest weir(pool_of({&first, &second}));

  std::vector<std::future<Response>> answers;
  for (std::size_t i = 0; i < count; ++i)
    answers.push_back(std::async(std::launch::async, [&, i] {
      HttpClient client(weir.port());
      client.send(post(chat, chat_body("number " + std::to_string(i))));
      auto got = client.response_head();
      while (client.read_more(got)) streams[i]->received.advance_to(got.body.size());
      return got;
    }));
  for (std::size_t i = 0; i < count; ++i) {
    const auto got = answers[i].get();
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.end, BodyEnd::whole);
    EXPECT_EQ(got.body, streams[i]->script.body(false)) << "stream " << i;
  }

  const auto metrics = weir.metrics_after(count);
  expect_idle(metrics);
  EXPECT_EQ(metrics.sum("weir_requests_total"), count);
  EXPECT_EQ(metrics.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "openai.chat"}, {"pool", "chat"}}),
            count);
  EXPECT_EQ(metrics.sum("weir_prompt_tokens_total"), prompt_tokens);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), output_tokens);
  EXPECT_EQ(metrics.sum("weir_output_tokens_overcounted_total"), 0);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 0);
  for (const auto* per_request :
       {"weir_time_to_first_token_seconds", "weir_client_time_to_first_token_seconds",
        "weir_time_per_output_token_seconds", "weir_request_duration_seconds", "weir_queue_duration_seconds",
        "weir_request_output_tokens_per_second", "weir_request_prompt_tokens", "weir_request_output_tokens",
        "weir_prompt_estimate_ratio"}) {
    EXPECT_EQ(metrics.sum(per_request + std::string("_count")), count) << per_request;
    EXPECT_EQ(metrics.sum(per_request + std::string("_bucket"), {{"le", "+Inf"}}), count) << per_request;
  }
  EXPECT_EQ(metrics.sum("weir_inter_chunk_latency_seconds_count"), gaps);
  EXPECT_EQ(metrics.sum("weir_inter_token_latency_seconds_count"), gaps)
      << "settled by usage at the end of each stream";
  EXPECT_EQ(metrics.sum("weir_itl_unknown_requests_total"), 0);
  EXPECT_EQ(metrics.sum("weir_request_prompt_tokens_sum"), prompt_tokens);
  EXPECT_EQ(metrics.sum("weir_request_output_tokens_sum"), output_tokens);
  EXPECT_EQ(metrics.sum("weir_bytes_total", {{"direction", "response"}}), body_bytes);
  for (const auto* replica : {&first, &second}) EXPECT_GT(replica->requests().size(), count / 4);
  EXPECT_EQ(weir.log_lines(count).size(), count);
}

TEST(Streams, UsageThatWeirAskedForIsAddedToTheRequestAndNothingElse) {
  const auto script = vllm_chat(4, 17);
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));

  const auto received = replica.only_request();
  EXPECT_TRUE(asks_for_usage(received));
  auto body = boost::json::parse(received.body).as_object();
  body.erase("stream_options");
  EXPECT_EQ(boost::json::value(body), boost::json::parse(chat_body()));
  const auto line = weir.log_lines(1).front();
  EXPECT_EQ(member(line, "outcome"), "ok");
  EXPECT_EQ(member(line, "complete"), "marker");
  EXPECT_EQ(member(line, "tokens_source"), "usage");
  EXPECT_EQ(member(line, "prompt_tokens"), "17");
  EXPECT_EQ(member(line, "output_tokens"), "4");
  EXPECT_EQ(member(line, "finish_reason"), "stop");
}

TEST(Streams, UsageThatTheClientAskedForStays) {
  const auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body_with_usage())).body, script.body(true));
  EXPECT_EQ(replica.only_request().body, chat_body_with_usage());
  EXPECT_EQ(weir.metrics_after(1).sum("weir_output_tokens_total"), 4);
}

TEST(Streams, ABodyThatIsNotJsonGoesToTheReplicaAsItIs) {
  ScriptedReplica replica(
      [](Exchange& exchange) { exchange.send(answer("400 Bad Request", "{\"error\":\"what?\"}")); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, "{\"stream\":true,"));
  EXPECT_EQ(got.status, 400u);
  EXPECT_EQ(got.body, "{\"error\":\"what?\"}");
  EXPECT_EQ(replica.only_request().body, "{\"stream\":true,");
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "client_error"}}), 1);
}

// Some engines take 1 for true, and NaN for a number.
TEST(Streams, WhatCameAsAStreamIsMeasuredAsOneHoweverItWasAskedFor) {
  const StreamScript script = vllm_chat(3, 5, "w");
  ScriptedReplica replica(
      [&](Exchange& exchange) { exchange.send(sse_head() + chunk(script.body(true)) + std::string(last_chunk)); });
  WeirUnderTest weir(pool_of({&replica}));
  for (const std::string body : {R"({"messages":[],"stream":1})", R"({"messages":[],"stream":true,"temperature":NaN})"})
    EXPECT_EQ(fetch(weir.port(), post(chat, body)).body, script.body(true));
  const auto metrics = weir.metrics_after(2);
  EXPECT_EQ(metrics.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "openai.chat"}, {"stream", "true"}}), 2);
  EXPECT_EQ(metrics.sum("weir_request_duration_seconds_count", {{"stream", "true"}}), 2);
  for (const auto& line : weir.log_lines(2)) {
    EXPECT_TRUE(line.at("stream").as_bool());
    EXPECT_FALSE(line.at("ttft_s").is_null());
    EXPECT_FALSE(line.at("gap_bins").is_null());
  }
}

TEST(Streams, CompletionsAndTgiSpeakTheirOwnDialects) {
  const auto completions = vllm_completions(6);
  const auto tgi = tgi_stream(7);
  ScriptedReplica replica(
      [&](Exchange& exchange) { play(exchange, exchange.request().target == "/generate_stream" ? tgi : completions); });
  WeirUnderTest weir(pool_of({&replica}));

  EXPECT_EQ(fetch(weir.port(), post("/v1/completions", R"({"model":"m","prompt":"Once","stream":true})")).body,
            completions.body(false));
  EXPECT_EQ(fetch(weir.port(), post("/generate_stream", tgi_body())).body, tgi.body(false));

  const auto metrics = weir.metrics_after(2);
  EXPECT_EQ(metrics.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "openai.completions"}}), 1);
  EXPECT_EQ(metrics.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "tgi.generate"}}), 1);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), 13);
  EXPECT_EQ(metrics.sum("weir_prompt_tokens_total"), 11);
  EXPECT_EQ(replica.requests().at(1).body, tgi_body()) << "TGI needs no usage asked for";
}

/// One stream, cut and dressed in every way that leaves it the same stream.
struct Cut {
  const char* name;
  bool crlf;
  const char* prelude;  ///< It comes before the first event.
  void (*send)(Exchange&, const std::string& body);
};

std::ostream& operator<<(std::ostream& out, const Cut& one) { return out << one.name; }

void in_one_piece(Exchange& exchange, const std::string& body) { exchange.send(chunk(body) + std::string(last_chunk)); }

void in_chunks_of_one_byte(Exchange& exchange, const std::string& body) {
  std::string framed;
  for (const char byte : body) framed += chunk(std::string_view(&byte, 1));
  exchange.send(framed + std::string(last_chunk));
}

void in_reads_of_one_byte(Exchange& exchange, const std::string& body) {
  exchange.send_bytewise(chunk(body) + std::string(last_chunk));
}

void in_sevens(Exchange& exchange, const std::string& body) {
  for (std::size_t at = 0; at < body.size(); at += 7) exchange.send(chunk(std::string_view(body).substr(at, 7)));
  exchange.send(last_chunk);
}

class CutStreams : public ::testing::TestWithParam<Cut> {};

TEST_P(CutStreams, ArriveUnchangedAndAreCountedTheSame) {
  const auto& cut = GetParam();
  auto script = vllm_chat(6, 12);
  if (cut.crlf) script = with_crlf(script);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head());
    cut.send(exchange, cut.prelude + script.body(asks_for_usage(exchange.request())));
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto stripped = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(stripped.body, cut.prelude + script.body(false));
  EXPECT_EQ(stripped.end, BodyEnd::whole);
  const auto untouched = fetch(weir.port(), post(chat, chat_body_with_usage()));
  EXPECT_EQ(untouched.body, cut.prelude + script.body(true));
  EXPECT_EQ(untouched.end, BodyEnd::whole);

  const auto metrics = weir.metrics_after(2);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 2);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), 12);
  EXPECT_EQ(metrics.sum("weir_prompt_tokens_total"), 24);
  EXPECT_EQ(metrics.sum("weir_unparsed_total"), 0);
}

INSTANTIATE_TEST_SUITE_P(Streams, CutStreams,
                         ::testing::Values(Cut{"in_one_piece", false, "", in_one_piece},
                                           Cut{"in_chunks_of_one_byte", false, "", in_chunks_of_one_byte},
                                           Cut{"in_reads_of_one_byte", false, "", in_reads_of_one_byte},
                                           Cut{"with_events_over_several_reads", false, "", in_sevens},
                                           Cut{"with_crlf", true, "", in_one_piece},
                                           Cut{"with_crlf_in_reads_of_one_byte", true, "", in_reads_of_one_byte},
                                           Cut{"with_comments_first", false, ": hello\n\n:\n\n", in_one_piece},
                                           Cut{"with_a_byte_order_mark", false, "\xEF\xBB\xBF", in_sevens}),
                         [](const auto& test) { return test.param.name; });

TEST(Streams, AWholeAnswerIsRelayedWithItsLengthAndCounted) {
  const auto body = vllm_whole_chat(9, 40);
  ScriptedReplica replica([&](Exchange& exchange) { exchange.send(answer("200 OK", body)); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, whole_chat_body()));
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body, body);
  EXPECT_EQ(got.head.field("content-length"), std::to_string(body.size()));
  EXPECT_EQ(replica.only_request().body, whole_chat_body());
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "openai.chat"}}), 1);
  EXPECT_EQ(metrics.sum("weir_prompt_tokens_total"), 40);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), 9);
  EXPECT_EQ(metrics.sum("weir_time_to_first_token_seconds_count"), 0) << "TTFT exists for streams only";
  EXPECT_EQ(metrics.sum("weir_request_duration_seconds_count"), 1);
}

TEST(Streams, AnAnswerOfFiveMegabytesIsIdentical) {
  std::string text;
  for (unsigned i = 0; text.size() < 5'000'000; ++i) text += "token " + std::to_string(i * 2654435761u) + ", ";
  const auto body =
      "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"" + text +
      "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"total_tokens\":10,\"completion_tokens\":7}}";
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().number == 1) return exchange.send(answer("200 OK", body));
    exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    for (std::size_t at = 0; at < body.size(); at += 70'001)
      exchange.send(chunk(std::string_view(body).substr(at, 70'001)));
    exchange.send(last_chunk);
  });
  WeirUnderTest weir(pool_of({&replica}));

  for (int i = 0; i < 2; ++i) {
    const auto got = fetch(weir.port(), post(chat, whole_chat_body()));
    EXPECT_EQ(got.end, BodyEnd::whole);
    EXPECT_TRUE(got.body == body) << "5 MB differ; " << got.body.size() << " of " << body.size() << " bytes";
  }
  EXPECT_EQ(weir.metrics_after(2).sum("weir_output_tokens_total"), 14);
}

TEST(Streams, NothingSecretReachesLogMetricsOrErrors) {
  const auto script = vllm_chat(4, 12, "answerword");
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto fields = "Authorization: Bearer planted-key\r\nCookie: planted-cookie\r\n";
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body("planted-prompt"), fields)).status, 200u);
  EXPECT_EQ(replica.only_request().head.field("authorization"), "Bearer planted-key");
  weir.log_lines(1);
  for (const auto* secret : {"planted", "answerword"}) {
    EXPECT_THAT(weir.log_text(), Not(HasSubstr(secret)));
    EXPECT_THAT(weir.output(), Not(HasSubstr(secret)));
    EXPECT_THAT(fetch(weir.metrics_port(), get("/metrics"), "GET").body, Not(HasSubstr(secret)));
  }
}

}  // namespace
}  // namespace weir::integration
