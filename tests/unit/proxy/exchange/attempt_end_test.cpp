// Answers end whole, broken off, too late, or left by the client, and the lease ends with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string sized_head(std::size_t size) { return sse_head("Content-Length: " + std::to_string(size) + "\r\n"); }

/// The body has exactly one whole error event behind `events`.
void expect_error_event(const std::string& body, const std::string& events, const std::string& lead = "data: ") {
  ASSERT_THAT(body, StartsWith(events + lead));
  const auto rest = body.substr(events.size() + lead.size());
  ASSERT_EQ(rest.find("\n\n"), rest.size() - 2) << rest;
  EXPECT_TRUE(boost::json::parse(rest).as_object().contains("error")) << rest;
}

constexpr End all_breaks[]{End::reset, End::closed, End::bad_framing, End::timed_out};

Outcome outcome_of(End how) {
  return how == End::timed_out     ? Outcome::timeout
         : how == End::bad_framing ? Outcome::upstream_error
                                     : Outcome::upstream_reset;
}
void break_off(AttemptStory& attempt, End how) {
  if (how == End::timed_out) {
    attempt.passes(attempt.machine->deadline());
  } else if (how == End::bad_framing) {
    attempt.arrives("no size\r\n");
  } else {
    attempt.breaks(how);
  }
}

TEST(RelayBreak, AtAnEventBoundaryAddsAnErrorEventAndCuts) {
  for (const auto how : all_breaks)
    for (const bool http_1_1 : {true, false})
      for (const bool injected : {false, true}) {
        Circumstances one;
        one.http_1_1 = http_1_1;
        one.injected = injected;
        AttemptStory attempt(one);
        attempt.arrives(sse_head() + chunk(token("a") + token("b")));
        break_off(attempt, how);
        EXPECT_EQ(attempt.machine->reply(), Reply::relayed);
        EXPECT_EQ(attempt.machine->outcome(), outcome_of(how));
        expect_error_event(attempt.seen().body, token("a") + token("b"));
        EXPECT_TRUE(attempt.machine->cut());
        EXPECT_FALSE(attempt.seen().whole);
        EXPECT_FALSE(attempt.machine->client_reusable());
        EXPECT_FALSE(attempt.machine->upstream_reusable());
        EXPECT_EQ(attempt.machine->bytes_out(), attempt.seen().body.size());
        EXPECT_EQ(attempt.machine->answer().token_events, 2u);
        EXPECT_EQ(attempt.machine->answer().complete, metrics::Completeness::none);
      }
}

// vLLM's engine dies: it says so, and its server goes with it.
TEST(RelayBreak, BehindAnErrorOfTheReplicasOwnAddsNoneAndIsNotTheCause) {
  for (const auto how : all_breaks) {
    AttemptStory attempt;
    const std::string events = token("a") + "data: {\"error\": {\"message\": \"EngineCore died\"}}\n\n";
    attempt.arrives(sse_head() + chunk(events));
    break_off(attempt, how);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_error);
    EXPECT_EQ(attempt.seen().body, events);
    EXPECT_TRUE(attempt.machine->cut());
    EXPECT_FALSE(attempt.seen().whole);
  }
}

TEST(RelayBreak, SpeaksTheDialectOfTheClient) {
  const std::string event = R"(data:{"token":{"id":1,"text":"a","special":false},"generated_text":null})"
                            "\n\n";
  Circumstances one;
  one.api = Api::tgi_generate;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk(event)).breaks(End::reset);
  expect_error_event(attempt.seen().body, event, "data:");
  EXPECT_THAT(attempt.seen().body, HasSubstr(R"("error_type":"upstream_error")"));
}

TEST(RelayBreak, InsideAnEventCutsWithoutAWord) {
  const auto part = token("b").substr(0, 40);
  for (const auto how : all_breaks) {
    AttemptStory attempt;
    attempt.arrives(sse_head() + chunk(token("a") + part));
    break_off(attempt, how);
    EXPECT_EQ(attempt.seen().body, token("a") + part);
    EXPECT_TRUE(attempt.machine->cut());
    EXPECT_FALSE(attempt.seen().whole);
    Circumstances one;
    one.injected = true;
    AttemptStory held(one);
    held.arrives(sse_head() + chunk(token("a") + part));
    break_off(held, how);
    expect_error_event(held.seen().body, token("a")) /* what was held back is as if it had not come */;
    AttemptStory let_through(one);
    const auto long_part = token(std::string(9'000, 'x')).substr(0, 9'000);
    let_through.arrives(sse_head() + chunk(token("a") + long_part));
    break_off(let_through, how);
    EXPECT_EQ(let_through.seen().body, token("a") + long_part) << "a long event had begun";
  }
}

TEST(RelayBreak, OfAPromisedLengthCutsWithoutAWord) {
  const auto body = token("a") + done_event;
  AttemptStory attempt;
  attempt.arrives(sized_head(body.size()) + token("a")).breaks(End::reset);
  EXPECT_EQ(attempt.seen().body, token("a")) << "an event of weir's own would pass for the replica's";
  EXPECT_TRUE(attempt.machine->cut());
  EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_reset);
}

TEST(RelayBreak, OfADocumentCutsIt) {
  Circumstances one;
  one.stream = false;
  for (const std::string head : {"Content-Length: 50\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n14\r\n"}) {
    AttemptStory attempt(one);
    attempt.arrives("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + "{\"choices\":[")
        .breaks(End::closed);
    EXPECT_EQ(attempt.seen().body, "{\"choices\":[");
    EXPECT_TRUE(attempt.machine->cut());
    EXPECT_FALSE(attempt.seen().whole);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_reset);
  }
}

TEST(RelayBreak, BehindTheEndMarkerIsNone) {
  for (const auto how : all_breaks) {
    AttemptStory attempt;
    attempt.arrives(sse_head() + chunk(token("a") + finish_event + done_event));
    EXPECT_FALSE(attempt.machine->done());
    break_off(attempt, how);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::ok);
    EXPECT_EQ(attempt.seen().body, token("a") + finish_event + done_event);
    EXPECT_TRUE(attempt.seen().whole) << "the client's body ends in good order";
    EXPECT_TRUE(attempt.machine->client_reusable());
    EXPECT_FALSE(attempt.machine->upstream_reusable());
    EXPECT_EQ(attempt.machine->answer().complete, metrics::Completeness::marker);
  }
}

TEST(RelayBreak, BehindTheEndMarkerLeavesAPromisedLengthOpen) {
  const auto body = token("a") + done_event;
  for (const auto how : {End::reset, End::closed, End::timed_out}) {
    AttemptStory attempt;
    attempt.arrives(sized_head(body.size() + 1) + body);
    break_off(attempt, how);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::ok);
    EXPECT_FALSE(attempt.seen().whole);
    EXPECT_TRUE(attempt.machine->cut()) << "the client still waits for a byte: its connection can serve nothing else";
    EXPECT_FALSE(attempt.machine->client_reusable());
  }
}

TEST(RelayBreak, WhereTheCloseIsTheEndIsOnlyAReset) {
  for (const auto how : {End::reset, End::closed}) {
    AttemptStory attempt;
    attempt.arrives(sse_head("") + token("a") + finish_event).breaks(how);
    EXPECT_EQ(attempt.machine->outcome(), how == End::closed ? Outcome::ok : Outcome::upstream_reset);
    EXPECT_EQ(attempt.machine->cut(), how == End::reset);
    EXPECT_EQ(attempt.seen().whole, how == End::closed);
    EXPECT_FALSE(attempt.machine->upstream_reusable());
  }
}

TEST(RelayOutcome, OfWholeAnswers) {
  const std::string message = R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]})";
  const std::string event = "data: {\"type\":\"response.output_text.delta\"}\n\n";
  const auto stream = [](const std::string& body) { return sse_head() + chunk(body) + last_chunk; };
  const struct {
    const char* what;
    Api api;
    bool streamed;
    std::string bytes;
    Outcome outcome;
    std::uint32_t choices = 1;
  } rows[]{
      {"a document", Api::openai_chat, false, answer("200 OK", message), Outcome::ok},
      {"an error in a 200", Api::openai_chat, false, answer("200 OK", R"({"error":{"message":"x"}})"),
       Outcome::upstream_error},
      {"marker", Api::openai_chat, true, stream(token("a") + done_event), Outcome::ok},
      {"finish, no marker", Api::openai_chat, true, stream(token("a") + finish_event), Outcome::ok},
      {"neither", Api::openai_chat, true, stream(token("a")), Outcome::truncated},
      {"a finish of one choice, of two", Api::openai_chat, true, stream(token("a") + finish_event), Outcome::truncated,
       2},
      {"no token", Api::openai_chat, true, stream(finish_event + done_event), Outcome::ok_empty},
      {"an error among events", Api::openai_chat, true, stream(token("a") + refusing_event + done_event),
       Outcome::upstream_error},
      {"what could not be read is not known to be empty", Api::openai_chat, false, answer("200 OK", "data: x\n\n"),
       Outcome::ok},
      {"an API whose tokens are not read", Api::other, true, stream(event), Outcome::ok},
      {"a document of such an API", Api::other, false, answer("200 OK", "[1]"), Outcome::ok},
      {"a document where a stream was asked for", Api::openai_chat, true, answer("200 OK", message), Outcome::ok},
      {"text where a document is due", Api::openai_chat, false, answer("200 OK", "hello", "text/plain"), Outcome::ok},
      {"a page where a stream was asked for", Api::openai_chat, true, answer("200 OK", "<h1>hello</h1>", "text/html"),
       Outcome::truncated},
      {"a stream under a wrong type", Api::openai_chat, true,
       answer("200 OK", token("a") + finish_event + done_event, "text/plain"), Outcome::ok},
      {"a way elsewhere", Api::openai_chat, true, answer("301 Moved Permanently", "moved", "text/html"),
       Outcome::upstream_error},
      {"a way elsewhere, for a document", Api::openai_chat, false, answer("307 Temporary Redirect", "", "text/html"),
       Outcome::upstream_error},
      {"a way elsewhere on a path of no engine", Api::other, false, answer("302 Found", "", "text/html"), Outcome::ok},
  };
  for (const auto& row : rows) {
    Circumstances one;
    one.api = row.api;
    one.stream = row.streamed;
    one.choices = row.choices;
    AttemptStory attempt(one);
    attempt.arrives(row.bytes);
    ASSERT_TRUE(attempt.machine->done()) << row.what;
    EXPECT_EQ(attempt.machine->outcome(), row.outcome) << row.what;
    EXPECT_TRUE(attempt.seen().whole) << row.what;
    EXPECT_EQ(attempt.machine->deadline(), Moment::max()) << row.what;
  }
}

TEST(RelayEnd, ByTheCloseAloneOfAStreamThatHadNotEndedShowsTheClientThatItIsIncomplete) {
  for (const bool http_1_1 : {true, false})
    for (const bool injected : {false, true}) {
      Circumstances one;
      one.http_1_1 = http_1_1;
      one.injected = injected;
      AttemptStory attempt(one);
      attempt.arrives(sse_head("Connection: close\r\n") + token("a") + token("b"));
      attempt.breaks(End::closed);
      EXPECT_EQ(attempt.machine->outcome(), Outcome::truncated);
      expect_error_event(attempt.seen().body, token("a") + token("b"));
      EXPECT_TRUE(attempt.machine->cut());
      EXPECT_FALSE(attempt.seen().whole);
      EXPECT_FALSE(attempt.machine->client_reusable());
    }
  // The stream stands in the middle of an event, where no error event can follow.
  AttemptStory attempt;
  attempt.arrives(sse_head("Connection: close\r\n") + token("a") + "data: {");
  attempt.breaks(End::closed);
  EXPECT_EQ(attempt.machine->outcome(), Outcome::truncated);
  EXPECT_EQ(attempt.seen().body, token("a") + "data: {");
  EXPECT_FALSE(attempt.seen().whole);
}

TEST(RelayEnd, ByTheCloseIsTheEndOfAStreamThatSaidSo) {
  for (const auto& end : {done_event, finish_event, refusing_event}) {
    AttemptStory attempt;
    attempt.arrives(sse_head("Connection: close\r\n") + token("a") + end);
    attempt.breaks(End::closed);
    EXPECT_EQ(attempt.seen().body, token("a") + end);
    EXPECT_TRUE(attempt.seen().whole) << end;
  }
}

TEST(RelayDeadline, IsForTheFirstTokenFromTheSend) {
  AttemptStory attempt;
  EXPECT_EQ(attempt.machine->deadline(), at(300));
  attempt.passes(at(300));
  EXPECT_EQ(attempt.machine->reply(), Reply::none);
  EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
  EXPECT_EQ(attempt.client, "");
  Circumstances one;
  one.sent = false;
  AttemptStory unsent(one);
  EXPECT_EQ(unsent.machine->deadline(), at(299.5)) << "of the attempt's start until something is sent";
  unsent.machine->client_gone(at(1));
}

TEST(RelayDeadline, IsForTheFirstTokenWhereTheHeadIsOutAlready) {
  AttemptStory attempt;
  attempt.arrives(sse_head(), at(1)).passes(at(11));
  attempt.arrives(chunk(":\n\n"), at(200));
  EXPECT_EQ(attempt.machine->deadline(), at(300)) << "comments are no tokens";
  attempt.passes(at(300));
  EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
  expect_error_event(attempt.seen().body, ":\n\n");
  EXPECT_TRUE(attempt.machine->cut());
}

TEST(RelayDeadline, BeforeTheFirstEventIsTheSoonerOfTheTwo) {
  AttemptStory attempt;
  attempt.arrives(sse_head(), at(295));
  EXPECT_EQ(attempt.machine->deadline(), at(300));
  attempt.passes(at(300.05));
  EXPECT_EQ(attempt.machine->reply(), Reply::none) << "held, and too late: nothing was sent yet";
  EXPECT_EQ(attempt.client, "");
}

TEST(RelayDeadline, MovesWithEachToken) {
  AttemptStory attempt;
  attempt.arrives(sse_head() + chunk(token("a")), at(4));
  EXPECT_EQ(attempt.machine->deadline(), at(124));
  attempt.arrives(chunk(token("b")), at(100));
  EXPECT_EQ(attempt.machine->deadline(), at(220));
  attempt.arrives(chunk(":\n\n" + usage_event), at(200));
  EXPECT_EQ(attempt.machine->deadline(), at(220));
  attempt.passes(at(220));
  EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
  EXPECT_TRUE(attempt.machine->timed_out());
}

TEST(RelayDeadline, MovesWithEachEventWhereTokensAreNotRead) {
  Circumstances one;
  one.api = Api::other;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk("data: {\"type\":\"response.output_text.delta\"}\n\n"), at(4));
  EXPECT_EQ(attempt.machine->deadline(), at(124)) << "a long answer must not end with its first-token time";
  attempt.arrives(chunk(":\n\n"), at(50));
  EXPECT_EQ(attempt.machine->deadline(), at(124));
  attempt.arrives(last_chunk, at(60));
}

TEST(RelayDeadline, IsOfTheWholeAnswerWhereNoTokensCanBeSeen) {
  Circumstances one;
  one.stream = false;
  AttemptStory document(one), streamed;
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
  document.arrives(head);
  streamed.arrives(head);
  for (auto* attempt : {&document, &streamed}) {
    EXPECT_EQ(attempt->machine->deadline(), at(1800));
    attempt->passes(at(1800));
    EXPECT_EQ(attempt->machine->outcome(), Outcome::timeout);
    EXPECT_TRUE(attempt->machine->cut());
  }
}

TEST(RelayClient, LeavesInAPhase) {
  Circumstances unsent;
  unsent.sent = false;
  AttemptStory queue(unsent), prefill, held, decode;
  held.arrives(sse_head());
  decode.arrives(sse_head() + chunk(token("a")));
  for (auto* attempt : {&queue, &prefill, &held, &decode}) {
    attempt->machine->client_gone(at(2));
    EXPECT_TRUE(attempt->machine->done());
    EXPECT_EQ(attempt->machine->end(), End::client_left);
    EXPECT_EQ(attempt->machine->outcome(), Outcome::client_abort);
    EXPECT_FALSE(attempt->machine->upstream_reusable());
    EXPECT_FALSE(attempt->machine->client_reusable());
    EXPECT_EQ(attempt->pool->figures().in_flight(), 0u) << "at once, not with the last of its memory";
    EXPECT_EQ(attempt->machine->answer().end, std::nullopt);
  }
  EXPECT_EQ(queue.machine->phase(), metrics::Phase::queue);
  EXPECT_EQ(prefill.machine->phase(), metrics::Phase::prefill);
  EXPECT_EQ(held.machine->phase(), metrics::Phase::prefill);
  EXPECT_EQ(decode.machine->phase(), metrics::Phase::decode);
  EXPECT_EQ(decode.machine->answer().token_events, 1u);
}

TEST(RelayClient, WhoLeavesBehindTheEndChangesTheOutcomeOfAGoodAnswerOnly) {
  AttemptStory good, bad, broken;
  good.client_takes_all = false;
  good.arrives(sse_head() + chunk(token("a") + done_event) + last_chunk);
  bad.arrives(answer("422 Unprocessable Entity", "{}"));
  broken.arrives(sse_head() + chunk(token("a"))).breaks(End::reset);
  const Outcome outcomes[]{Outcome::client_abort, Outcome::client_error, Outcome::upstream_reset};
  std::size_t i = 0;
  for (auto* attempt : {&good, &bad, &broken}) {
    attempt->machine->client_gone(at(3));
    EXPECT_EQ(attempt->machine->outcome(), outcomes[i++]) << "the first cause wins";
    EXPECT_EQ(attempt->machine->reply(), Reply::relayed);
    EXPECT_FALSE(attempt->machine->client_reusable()) << "it may have taken half of the answer";
    EXPECT_TRUE(attempt->machine->cut());
  }
  EXPECT_EQ(good.machine->phase(), metrics::Phase::decode);
  EXPECT_EQ(good.machine->answer().complete, metrics::Completeness::marker) << "its latencies count";
  EXPECT_EQ(bad.machine->phase(), std::nullopt);
}

TEST(RelayClient, WhoLeavesWithTheEndMarkerHasTheWholeAnswer) {
  AttemptStory at_marker, at_last_chunk, empty;
  at_marker.arrives(sse_head() + chunk(token("a") + finish_event + done_event), at(1));
  at_last_chunk.arrives(sse_head() + chunk(token("a") + finish_event + done_event), at(1));
  at_last_chunk.client_takes_all = false;
  at_last_chunk.arrives(last_chunk, at(2));
  empty.arrives(sse_head() + chunk(finish_event + done_event), at(1));
  for (auto* attempt : {&at_marker, &at_last_chunk, &empty}) {
    attempt->machine->client_gone(at(2));
    EXPECT_EQ(attempt->machine->outcome(), attempt == &empty ? Outcome::ok_empty : Outcome::ok);
    EXPECT_EQ(attempt->machine->phase(), std::nullopt);
    EXPECT_EQ(attempt->machine->answer().complete, metrics::Completeness::marker);
    EXPECT_EQ(attempt->machine->answer().end, at(2));
    EXPECT_FALSE(attempt->machine->client_reusable());
    EXPECT_EQ(attempt->pool->figures().in_flight(), 0u);
  }
  EXPECT_EQ(at_marker.machine->end(), End::client_left);
  EXPECT_FALSE(at_marker.machine->upstream_reusable()) << "its last chunk is still to come";
}

TEST(RelayClient, WhoHasNotTakenTheEndMarkerAbortsTheAnswer) {
  AttemptStory attempt;
  attempt.arrives(sse_head() + chunk(token("a")), at(1));
  attempt.client_takes_all = false;
  attempt.arrives(chunk(done_event), at(2));
  attempt.machine->client_gone(at(3));
  EXPECT_EQ(attempt.machine->outcome(), Outcome::client_abort);
  EXPECT_EQ(attempt.machine->phase(), metrics::Phase::decode);
  EXPECT_EQ(attempt.machine->answer().end, at(3)) << "the replica had finished: its latencies count, settled";
}

TEST(RelayClient, WhoLeavesAtAnErrorIsNotItsCause) {
  AttemptStory attempt;
  attempt.arrives(sse_head() + chunk(token("a")), at(1));
  attempt.arrives(chunk("data: {\"error\": {\"message\": \"m\", \"code\": 500}}\n\n"), at(2));
  attempt.machine->client_gone(at(2));
  EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_error);
  EXPECT_EQ(attempt.machine->phase(), std::nullopt);
}

TEST(ClientOutput, IsNothingForAReadThatLeavesNothing) {
  Circumstances one;
  one.injected = true;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk(token("a")));
  for (const auto& bytes : {chunk(usage_event), std::string("5"), std::string("0\r\n"), token("b").substr(0, 20)}) {
    attempt.arrives(bytes);
    EXPECT_EQ(attempt.last(), "") << "a chunk of no size would end the body";
  }
  attempt.machine->client_gone(at(2));
}

TEST(RelayLease, TellsThePoolOfPromptsAndTokensAsTheyCome) {
  AttemptStory attempt;
  const auto load = [&] { return attempt.pool->figures().load(0, at(1)); };
  EXPECT_EQ(load().prefill_left, 100u);
  const auto output = load().decode_left;
  attempt.arrives(sse_head());
  EXPECT_EQ(load().prefill_left, 100u);
  attempt.arrives(chunk(token("a")));
  EXPECT_EQ(load().prefill_left, 0u) << "the prompt leaves with the first token";
  EXPECT_EQ(attempt.shard.time_to_first_token.sum(), 1'000'000'000u) << "from the send";
  EXPECT_EQ(attempt.shard.client_time_to_first_token.sum(), 2'000'000'000u) << "from the request";
  attempt.arrives(chunk(token("b") + token("c")));
  EXPECT_EQ(load().resident, 103u);
  EXPECT_EQ(load().decode_left, output - 3);
  attempt.arrives(chunk(finish_event + usage_event + done_event) + last_chunk, at(2));
  EXPECT_EQ(load().in_flight, 0u) << "with the replica's work, not with the client's reading";
  EXPECT_EQ(attempt.machine->concurrency().in_flight_at_start, 0u);
  EXPECT_DOUBLE_EQ(attempt.machine->concurrency().in_flight_mean, 1.0);
  for (int i = 0; i < 4; ++i) {
    balancer::LeaseEnd like_it(balancer::EndCause::answered);
    like_it.output_tokens = 3;
    attempt.offer().end(like_it, at(2));
  }
  const auto next = attempt.offer();
  EXPECT_LT(load().decode_left, output) << "the pool has learned how long answers are";
}

TEST(RelayLease, LeavesThePromptOfAFailureForAMoment) {
  AttemptStory refused, served;
  refused.arrives(answer("429 Too Many Requests", "{}"), at(1));
  EXPECT_EQ(refused.pool->figures().load(0, at(1.5)).prefill_left, 100u) << "a failure is not capacity";
  EXPECT_EQ(refused.pool->figures().load(0, at(2.5)).prefill_left, 0u);
  served.arrives(sse_head() + chunk(finish_event + done_event) + last_chunk, at(1));
  EXPECT_EQ(served.pool->figures().load(0, at(1.5)).prefill_left, 0u) << "an empty answer is one";
}

TEST(RelayOverhead, IsFromArrivalToWrittenOfTokensTakenAtOnce) {
  AttemptStory attempt;
  const auto count = [&] {
    std::uint64_t n = 0;
    const auto& histogram = attempt.shard.token_overhead;
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) n += histogram.bucket(i);
    return n;
  };
  auto& machine = *attempt.machine;
  const auto read = [&](std::string bytes, double when) {
    bytes.append(metrics::measure::StreamMeter::padding, '\0');
    machine.arrived({bytes.data(), bytes.size() - metrics::measure::StreamMeter::padding}, at(when), attempt.out);
  };
  read(sse_head() + chunk(token("a") + token("b")), 1);
  machine.written(at(1.25), true);
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(machine.overhead_max(), std::chrono::milliseconds(250));
  read(chunk(token("c")), 2);
  machine.written(at(2.5), false);
  EXPECT_EQ(count(), 2u) << "what the client did not take at once is its own affair";
  EXPECT_EQ(attempt.shard.client_blocked_events.value(), 1u);
  read(chunk(":\n\n"), 3);
  machine.written(at(4), true);
  EXPECT_EQ(count(), 2u) << "no token";
  read(chunk(token("d")), 5);
  machine.written(at(4), true);
  EXPECT_EQ(count(), 3u) << "never below zero";
  EXPECT_EQ(attempt.shard.client_blocked_events.value(), 1u);
  EXPECT_EQ(machine.overhead_max(), std::chrono::milliseconds(250));
  machine.client_gone(at(6));
}

}  // namespace
}  // namespace weir::proxy::exchange
