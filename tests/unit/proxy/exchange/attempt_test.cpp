// An answer waits to be accepted, and then goes on in the client's framing.
#include "proxy/exchange/answer_handler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Circumstances not_streamed() {
  Circumstances one;
  one.stream = false;
  return one;
}

TEST(RelayHold, HoldsTheHeadOfAStreamUntilItsFirstEventAndCommentsWithIt) {
  AttemptStory attempt;
  attempt.arrives(sse_head());
  attempt.arrives(chunk(": ping\n\n"));
  attempt.arrives(chunk(token("a").substr(0, 20)));
  EXPECT_EQ(attempt.client, "");
  EXPECT_FALSE(attempt.machine->committed());
  attempt.arrives(chunk(token("a").substr(20)));
  EXPECT_TRUE(attempt.machine->committed());
  EXPECT_EQ(attempt.seen().body, ": ping\n\n" + token("a"));
  EXPECT_THAT(attempt.client, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(attempt.client, HasSubstr("x-weir-replica: gpu0\r\n"));
  attempt.arrives(chunk(token("b")));
  EXPECT_EQ(attempt.last(), chunk(token("b"))) << "whole events go on at once, one chunk a read";
  attempt.arrives(chunk(done_event) + last_chunk);
  EXPECT_EQ(attempt.last(), chunk(done_event) + last_chunk);
  EXPECT_TRUE(attempt.seen().whole);
}

TEST(RelayHold, EndsWhenAcceptHoldHasPassedAndNothingIsTriedAgainThen) {
  for (const bool asked_for : {true, false}) {
    auto one = asked_for ? Circumstances() : not_streamed();
    if (!asked_for) one.api = Api::other;
    AttemptStory attempt(one);
    attempt.arrives(sse_head() + chunk(":\n\n"), at(3));
    EXPECT_EQ(attempt.machine->deadline(), at(13));
    attempt.passes(at(13));
    EXPECT_TRUE(attempt.machine->committed());
    EXPECT_FALSE(attempt.machine->done());
    EXPECT_EQ(attempt.seen().body, ":\n\n");
    EXPECT_EQ(attempt.machine->deadline(), at(asked_for ? 300 : 1800)) << "the first token, or all, is waited for";
    attempt.arrives(chunk(refusing_event + done_event) + last_chunk);
    EXPECT_EQ(attempt.told(), "relayed, replica_refused, whole, client, replica");
  }
}

TEST(RelayHold, OfNothingSendsTheHeadAtOnce) {
  Circumstances one;
  one.limits.accept_hold = config::Seconds(0);
  AttemptStory attempt(one);
  attempt.arrives(sse_head());
  EXPECT_THAT(attempt.client, EndsWith("\r\n\r\n"));
  EXPECT_TRUE(attempt.machine->committed());
  attempt.machine->client_gone(at(2));
}

const std::string life = "13\r\n: weir keep-alive\n\n\r\n";

Circumstances with_comments() {
  Circumstances one;
  one.comments = true;
  return one;
}

TEST(RelayComments, ShowLifeOnceTheHeadIsOutAndTheClientHasGotNothingForALongTime) {
  AttemptStory attempt(with_comments());
  attempt.arrives(sse_head(), at(1));
  EXPECT_EQ(attempt.machine->deadline(), at(11)) << "the head waits for an event";
  attempt.passes(at(11));
  EXPECT_EQ(attempt.machine->deadline(), at(26));
  attempt.passes(at(26.1));
  EXPECT_EQ(attempt.last(), life);
  attempt.passes(at(41.1));
  EXPECT_EQ(attempt.last(), life);
  attempt.arrives(chunk(token("a")), at(50));
  EXPECT_EQ(attempt.last(), chunk(token("a")));
  EXPECT_EQ(attempt.machine->deadline(), at(60)) << "a stream that stands still is told first";
  attempt.passes(at(60));
  EXPECT_EQ(attempt.last(), "");
  EXPECT_EQ(attempt.machine->deadline(), at(65)) << "since the token";
  attempt.passes(at(65));
  attempt.arrives(chunk(finish_event + done_event) + last_chunk, at(66));
  const std::string comment = ": weir keep-alive\n\n", end = finish_event + done_event;
  EXPECT_EQ(attempt.seen().body, comment + comment + token("a") + comment + end);
  EXPECT_EQ(attempt.machine->bytes_out(), (token("a") + finish_event + done_event).size()) << "they count nowhere";
  EXPECT_EQ(attempt.told(), "relayed, ok, whole, client, replica");
}

TEST(RelayComments, StandBetweenTwoEventsAndPutOffNoLimit) {
  AttemptStory attempt(with_comments());
  const auto second = token("b");
  attempt.arrives(sse_head() + chunk(token("a") + second.substr(0, 9)), at(1));
  attempt.passes(at(11));
  EXPECT_EQ(attempt.machine->deadline(), at(121)) << "an event is under way";
  attempt.arrives(chunk(second.substr(9)), at(20));
  EXPECT_EQ(attempt.machine->deadline(), at(35));
  for (const int when : {35, 50, 65, 80, 95, 110, 125}) attempt.passes(at(when));
  EXPECT_EQ(attempt.machine->deadline(), at(140));
  attempt.passes(at(140));
  EXPECT_EQ(attempt.told(), "relayed, timeout, cut");
  EXPECT_THAT(attempt.seen().body, HasSubstr("the replica stopped sending"));
}

TEST(RelayComments, StandInNothingButAnEventStreamThatIsNotOver) {
  const std::string a = token("a"), chunked = "Transfer-Encoding: chunked\r\n";
  const auto head = [&](const std::string& type) {
    return "HTTP/1.1 200 OK\r\nContent-Type: application/" + type + "\r\n" + chunked + "\r\n";
  };
  auto old = with_comments();
  old.http_1_1 = false;
  auto ollama = with_comments();
  ollama.api = Api::ollama_chat;
  const struct {
    const char* what;
    Circumstances with;
    std::string answer;
  } rows[]{
      {"a client that is to get none", Circumstances(), sse_head() + chunk(a)},
      {"a client of HTTP/1.0", old, sse_head() + chunk(a)},
      {"an answer with a length", with_comments(), sse_head("Content-Length: 1000\r\n") + a},
      {"an answer that is coded", with_comments(), sse_head(chunked + "Content-Encoding: gzip\r\n") + chunk("x")},
      {"lines", ollama, head("x-ndjson") + chunk("{\"done\":false}\n")},
      {"a document", with_comments(), head("json") + chunk("{")},
      {"a stream that has shown its end", with_comments(), sse_head() + chunk(a + finish_event + done_event)},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    AttemptStory attempt(row.with);
    attempt.arrives(row.answer, at(1));
    EXPECT_TRUE(attempt.machine->committed());
    for (int when = 2; when < 60 && !attempt.machine->done(); ++when)
      if (attempt.machine->deadline() <= at(when)) attempt.passes(at(when));
    EXPECT_THAT(attempt.client, Not(HasSubstr("keep-alive\n")));
    attempt.machine->client_gone(at(60));
  }
}

TEST(RelayHold, HoldsNoHugeCommentsForEver) {
  AttemptStory attempt;
  attempt.arrives(sse_head());
  const std::string comments = ":" + std::string(1000, 'x') + "\n\n";
  std::size_t sent = 0;
  for (; sent < 100'000 && !attempt.machine->committed(); sent += comments.size()) attempt.arrives(chunk(comments));
  EXPECT_LE(sent, 20'000u);
  EXPECT_EQ(attempt.seen().body.size(), sent);
  attempt.machine->client_gone(at(2));
}

TEST(RelayHold, IsForEventStreamsAlone) {
  AttemptStory json(not_streamed());
  json.arrives("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(json.machine->committed());
  json.arrives("{}");
  EXPECT_TRUE(json.seen().whole);
  AttemptStory coded;
  coded.arrives(sse_head("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(coded.machine->committed()) << "no event will be seen in it";
  coded.arrives(chunk("\x1f\x8b") + last_chunk);
  EXPECT_EQ(coded.machine->outcome(), Outcome::ok);
  EXPECT_EQ(coded.seen().body, "\x1f\x8b");
}

TEST(RelayForm, OfAStreamThatIsCalledJsonShowsWithItsFirstByte) {
  const std::string usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n";
  const std::string body = token("a") + finish_event + usage + done_event;
  const std::string kept = token("a") + finish_event + done_event;
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  for (const bool split : {false, true}) {
    Circumstances one;
    one.injected = true;
    AttemptStory chunked(one);
    const std::string bytes = head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + last_chunk;
    chunked.arrives_split(bytes, {split ? 1 : bytes.size()});
    EXPECT_EQ(chunked.machine->outcome(), Outcome::ok);
    EXPECT_EQ(chunked.machine->answer().token_events, 1u);
    EXPECT_EQ(chunked.machine->answer().output_tokens, 1u);
    EXPECT_EQ(chunked.machine->answer().complete, metrics::Completeness::marker);
    EXPECT_EQ(chunked.seen().body, kept);
    // The client was promised a length, so nothing can be taken out.
    AttemptStory sized(one);
    const std::string whole = head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    sized.arrives_split(whole, {split ? 1 : whole.size()});
    EXPECT_EQ(sized.machine->answer().token_events, 1u);
    EXPECT_EQ(sized.seen().body, body);
  }
  AttemptStory document;
  document.arrives(head + "Content-Length: 16\r\n\r\n{\"error\":\"none\"}");
  EXPECT_EQ(document.machine->outcome(), Outcome::upstream_error) << "JSON after all";
}

TEST(RelayHead, PassesOverInterimAnswers) {
  AttemptStory attempt;
  for (int i = 0; i < 50; ++i) {
    attempt.arrives("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n");
    attempt.arrives("\r\n");
  }
  EXPECT_EQ(attempt.client, "");
  EXPECT_EQ(attempt.machine->head_at(), std::nullopt);
  EXPECT_EQ(attempt.machine->deadline(), at(300)) << "they put nothing off";
  attempt.arrives(whole_answer("200 OK", "{}"), at(7));
  EXPECT_EQ(attempt.machine->head_at(), at(7));
  EXPECT_EQ(attempt.seen().body, "{}");
  EXPECT_THAT(attempt.seen().head, Not(HasSubstr("Link")));
}

TEST(RelayHead, HasNoBodyBehindItWhereTheStandardSaysSo) {
  auto to_head = not_streamed();
  to_head.to_head = true;
  const struct {
    Circumstances circumstances;
    std::string head;
    bool reusable = false;
  } rows[]{
      {to_head, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
      {not_streamed(), "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true},
      {to_head, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"},
      {to_head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {to_head, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"},
      {not_streamed(), "HTTP/1.1 204 No Content\r\n\r\n"},
      {not_streamed(), "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"},
  };
  for (const auto& row : rows) {
    AttemptStory attempt(row.circumstances);
    attempt.arrives(row.head);
    EXPECT_TRUE(attempt.machine->done()) << row.head;
    EXPECT_EQ(attempt.machine->reply(), Reply::relayed) << row.head;
    EXPECT_THAT(attempt.client, EndsWith("\r\n\r\n"));
    EXPECT_THAT(attempt.client, Not(HasSubstr("chunked")));
    EXPECT_TRUE(attempt.machine->client_reusable()) << row.head;
    EXPECT_EQ(attempt.machine->upstream_reusable(), row.reusable) << row.head << ": a body may come late";
    EXPECT_EQ(attempt.machine->bytes_out(), 0u) << row.head;
    AttemptStory with_body(row.circumstances);
    with_body.arrives(row.head + "a body");
    EXPECT_FALSE(with_body.machine->upstream_reusable()) << "the bytes belong to nothing";
    EXPECT_THAT(with_body.client, EndsWith("\r\n\r\n"));
  }
}

TEST(RelayHead, LetsAConnectionServeAgainOnlyAfterACleanEnd) {
  const struct {
    const char* what;
    std::string bytes;
    bool reusable;
  } rows[]{
      {"length", whole_answer("200 OK", "{}"), true},
      {"an error", whole_answer("400 Bad Request", "{}"), true},
      {"chunked", sse_head() + chunk(token("a") + done_event) + last_chunk, true},
      {"chunked with trailers", sse_head() + chunk(token("a") + done_event) + "0\r\nX: y\r\n\r\n", true},
      {"garbage behind it", whole_answer("200 OK", "{}") + "x", false},
      {"another answer behind it", whole_answer("200 OK", "{}") + whole_answer("200 OK", "{}"), false},
      {"garbage behind chunks", sse_head() + chunk(done_event) + last_chunk + "\r\n", false},
      {"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", false},
      {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", false},
  };
  for (const auto& row : rows) {
    AttemptStory attempt;
    attempt.arrives(row.bytes);
    EXPECT_THAT(attempt.told(), AllOf(StartsWith("relayed, "), EndsWith(row.reusable ? "whole, client, replica"
                                                                                     : "whole, client")))
        << row.what << ": this end has its own framing";
  }
}

TEST(RelayHead, FramesForTheClientNotAsTheReplicaDid) {
  const auto body = token("a") + usage_event + done_event;
  const auto length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  const struct {
    const char* what;
    bool http_1_1, injected;
    std::string framing;
    http::ClientFraming client;
    bool reusable;
  } rows[]{
      {"chunked", true, false, "Transfer-Encoding: chunked\r\n", http::ClientFraming::chunked, true},
      {"length", true, false, length, http::ClientFraming::length, true},
      {"length, but something is taken out", true, true, length, http::ClientFraming::chunked, true},
      {"until close", true, false, "", http::ClientFraming::chunked, true},
      {"chunked to 1.0", false, false, "Transfer-Encoding: chunked\r\n", http::ClientFraming::close, false},
      {"length to 1.0", false, false, length, http::ClientFraming::length, true},
      {"length to 1.0, taken out", false, true, length, http::ClientFraming::close, false},
      {"until close to 1.0", false, false, "", http::ClientFraming::close, false},
  };
  for (const auto& row : rows) {
    Circumstances one;
    one.http_1_1 = row.http_1_1;
    one.injected = row.injected;
    AttemptStory attempt(one);
    const bool chunked = row.framing.starts_with("T");
    attempt.arrives(sse_head(row.framing) + (chunked ? chunk(body) + last_chunk : body));
    if (row.framing.empty()) attempt.breaks(End::closed);
    EXPECT_EQ(attempt.machine->client_framing(), row.client) << row.what;
    EXPECT_EQ(attempt.machine->client_reusable(), row.reusable) << row.what;
    EXPECT_EQ(attempt.seen().body, row.injected ? token("a") + done_event : body) << row.what;
    EXPECT_TRUE(attempt.seen().whole) << row.what;
    EXPECT_EQ(attempt.machine->outcome(), Outcome::ok) << row.what;
    EXPECT_EQ(attempt.machine->bytes_out(), attempt.seen().body.size()) << row.what;
    EXPECT_EQ(attempt.shard.bytes[1].value(), body.size()) << row.what;
    EXPECT_EQ(attempt.machine->answer().output_tokens, 3u) << row.what;
  }
}

TEST(RelayHead, FollowsAClientThatWantsToClose) {
  Circumstances one;
  one.keep_alive = false;
  AttemptStory attempt(one);
  attempt.arrives(whole_answer("200 OK", "{}"));
  EXPECT_THAT(attempt.client, HasSubstr("Connection: close\r\n"));
  EXPECT_FALSE(attempt.machine->client_reusable());
  EXPECT_FALSE(attempt.machine->cut());
}

TEST(RelayFraming, GoesAroundATokenWhereItLiesIfThereIsRoom) {
  const struct {
    const char* what;
    std::string read;
    std::size_t pieces;
  } rows[]{
      {"a chunk of its own", chunk(token("b")), 1},
      {"with leading zeros", "0000" + chunk(token("b")), 1},
      {"two chunks become one", chunk(token("b").substr(0, 20)) + chunk(token("b").substr(20)), 1},
      {"the chunk's end comes later", chunk(token("b")).substr(0, chunk(token("b")).size() - 2), 3},
  };
  for (const bool injected : {false, true}) {
    for (const auto& row : rows) {
      Circumstances one;
      one.injected = injected;
      AttemptStory attempt(one);
      attempt.arrives(sse_head() + chunk(token("a")));
      attempt.arrives(row.read);
      EXPECT_EQ(attempt.out.spans.size(), row.pieces) << row.what;
      EXPECT_EQ(attempt.last(), chunk(token("b"))) << row.what;
    }
  }
}

TEST(RelayFraming, LeavesNoTraceOfWhatIsHeldBackBehindTheToken) {
  Circumstances injected;
  injected.injected = true;
  AttemptStory attempt(injected);
  attempt.arrives(sse_head() + chunk(token("a")));
  const auto split = usage_event.size() / 2;
  attempt.arrives(chunk(token("b") + usage_event.substr(0, split)));
  EXPECT_EQ(attempt.last(), chunk(token("b")));
  attempt.arrives(chunk(usage_event.substr(split)));
  EXPECT_EQ(attempt.last(), "");
  attempt.arrives(chunk(done_event) + last_chunk);
  EXPECT_EQ(attempt.seen().body, token("a") + token("b") + done_event);
  EXPECT_EQ(attempt.machine->answer().output_tokens, 3u);
}

}  // namespace
}  // namespace weir::proxy::exchange
