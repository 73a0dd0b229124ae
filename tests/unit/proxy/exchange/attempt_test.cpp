// An answer waits to be accepted. Until then heads are read, bytes are held, and some failures may be retried.
#include "proxy/exchange/attempt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Circumstances keeping_errors() {
  Circumstances one;
  one.keep_errors = true;
  return one;
}
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

TEST(RelayHold, EndsWhenAcceptHoldHasPassed) {
  AttemptStory attempt;
  attempt.arrives(sse_head() + chunk(":\n\n"), at(3));
  EXPECT_EQ(attempt.machine->deadline(), at(13));
  attempt.passes(at(13));
  EXPECT_TRUE(attempt.machine->committed());
  EXPECT_FALSE(attempt.machine->done());
  EXPECT_EQ(attempt.seen().body, ":\n\n");
  EXPECT_EQ(attempt.machine->deadline(), at(300)) << "from here on the first token is waited for";
  attempt.arrives(chunk(refusing_event + done_event) + last_chunk);
  EXPECT_EQ(attempt.machine->end(), AttemptEnd::answered) << "nothing is tried again once the head has gone";
  EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_error);
}

TEST(RelayHold, EndsForAStreamThatNobodyAskedForToo) {
  auto one = not_streamed();
  one.api = Api::other;
  AttemptStory attempt(one);
  attempt.arrives(sse_head(), at(3));
  EXPECT_EQ(attempt.machine->deadline(), at(13));
  attempt.passes(at(13));
  EXPECT_TRUE(attempt.machine->committed());
  EXPECT_EQ(attempt.machine->deadline(), at(1800));
  attempt.machine->client_gone(at(20));
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

/// Nothing of the attempt has reached the client, and another replica may have the request.
void expect_refused(AttemptStory& attempt, metrics::series::Retry reason, Outcome outcome, const std::string& body,
                    const std::string& what) {
  EXPECT_TRUE(attempt.machine->done()) << what;
  EXPECT_EQ(attempt.machine->end(), AttemptEnd::refused) << what;
  EXPECT_EQ(attempt.machine->retry_reason(), reason) << what;
  EXPECT_EQ(attempt.machine->outcome(), outcome) << what;
  EXPECT_EQ(attempt.client, "") << what;
  EXPECT_EQ(attempt.accepted, 0) << what;
  EXPECT_EQ(attempt.pool->in_flight(), 0u) << what;
  const auto seen = attempt.seen(attempt.machine->take_kept());
  EXPECT_EQ(seen.body, body) << what;
  EXPECT_TRUE(seen.whole) << what;
}

TEST(RelayRefused, KeepsErrorsThatAnotherReplicaMayBetterAndRelaysAllElse) {
  const struct {
    unsigned status;
    bool kept;
    Outcome outcome;
  } rows[]{
      {200, false, Outcome::ok_empty},       {301, false, Outcome::upstream_error},
      {400, false, Outcome::client_error},   {401, true, Outcome::client_error},
      {403, true, Outcome::client_error},    {404, true, Outcome::client_error},
      {408, true, Outcome::replica_refused}, {409, false, Outcome::client_error},
      {413, false, Outcome::client_error},   {422, false, Outcome::client_error},
      {424, false, Outcome::client_error},   {429, true, Outcome::replica_refused},
      {500, true, Outcome::upstream_error},  {502, true, Outcome::upstream_error},
      {503, true, Outcome::replica_refused}, {504, true, Outcome::upstream_error},
      {529, true, Outcome::upstream_error},
  };
  for (const auto& row : rows) {
    const auto what = std::to_string(row.status);
    const auto bytes = answer(what + " x", "{}");
    AttemptStory first(keeping_errors()), last;
    first.arrives(bytes);
    last.arrives(bytes);
    EXPECT_EQ(first.machine->status_read(), row.status);
    EXPECT_TRUE(first.machine->upstream_reusable()) << what;
    if (row.kept) expect_refused(first, metrics::series::Retry::status, row.outcome, "{}", what);
    for (const auto* passed : {row.kept ? &last : &first, &last}) {
      EXPECT_EQ(passed->machine->end(), AttemptEnd::answered) << what;
      EXPECT_EQ(passed->machine->outcome(), row.outcome) << what;
      EXPECT_EQ(passed->machine->status(), row.status) << what;
      EXPECT_EQ(passed->seen().body, "{}") << what;
      EXPECT_TRUE(passed->machine->client_reusable()) << what;
      EXPECT_EQ(passed->accepted, 1) << what;
    }
  }
}

TEST(RelayRefused, KeepsTheHeadToo) {
  AttemptStory attempt(keeping_errors());
  attempt.arrives(
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      chunk("{\"a\":") + chunk("1}"));
  EXPECT_FALSE(attempt.machine->done());
  attempt.arrives(last_chunk);
  const auto kept = attempt.machine->take_kept();
  EXPECT_THAT(kept, StartsWith("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(kept, HasSubstr("x-weir-replica: gpu0\r\n"));
  EXPECT_EQ(attempt.seen(kept).body, "{\"a\":1}");
  EXPECT_EQ(attempt.machine->bytes_out(), 7u);
}

TEST(RelayRefused, KeepsNothingThatIsTooLargeOrTooSlowOrBroken) {
  const std::string head = "HTTP/1.1 503 Busy\r\nContent-Length: ";
  const auto largest = Attempt::most_kept;
  auto leaving = keeping_errors();
  leaving.leaves_errors = true;
  AttemptStory whole(keeping_errors()), large(leaving), slow(leaving), broken(keeping_errors());
  whole.arrives(head + std::to_string(largest) + "\r\n\r\n" + std::string(largest, 'x'));
  large.arrives_split(head + std::to_string(largest + 1) + "\r\n\r\n" + std::string(largest + 1, 'x'), {9'000});
  slow.arrives(head + "9\r\n\r\nx", at(3));
  EXPECT_EQ(slow.machine->deadline(), at(4));
  slow.passes(at(4));
  broken.arrives(head + "9\r\n\r\nx").breaks(Break::reset);
  expect_refused(whole, metrics::series::Retry::status, Outcome::replica_refused, std::string(largest, 'x'), "whole");
  for (auto* attempt : {&large, &slow, &broken}) {
    EXPECT_EQ(attempt->machine->end(), AttemptEnd::refused);
    EXPECT_EQ(attempt->machine->retry_reason(), metrics::series::Retry::status);
    EXPECT_EQ(attempt->machine->outcome(), Outcome::replica_refused);
    EXPECT_EQ(attempt->machine->take_kept(), "");
    EXPECT_EQ(attempt->client, "");
    EXPECT_FALSE(attempt->machine->upstream_reusable());
  }
  AttemptStory failure(keeping_errors());
  failure.arrives("HTTP/1.1 500 x\r\nContent-Length: 9\r\n\r\nx").breaks(Break::closed);
  EXPECT_EQ(failure.machine->outcome(), Outcome::upstream_error);
}

TEST(RelayRefused, RelaysWhatIsTooLargeOrTooSlowWhereNobodyElseIsAsked) {
  const std::string head = "HTTP/1.1 404 Not Found\r\nContent-Length: ";
  const std::string body(Attempt::most_kept + 1, 'x');
  for (const std::size_t read : {body.size() + 100, std::size_t{9'000}, std::size_t{1}}) {
    AttemptStory large(keeping_errors());
    large.arrives_split(head + std::to_string(body.size()) + "\r\n\r\n" + body, {read});
    EXPECT_EQ(large.machine->end(), AttemptEnd::answered);
    EXPECT_EQ(large.machine->outcome(), Outcome::client_error);
    EXPECT_EQ(large.machine->retry_reason(), std::nullopt);
    EXPECT_EQ(large.seen().body, body);
    EXPECT_TRUE(large.seen().whole);
    EXPECT_EQ(large.accepted, 1);
    EXPECT_EQ(large.errors_left, std::vector<unsigned>{404}) << "asked once";
  }
  AttemptStory slow(keeping_errors());
  slow.arrives(head + "3\r\n\r\na", at(3)).passes(at(4));
  EXPECT_EQ(slow.client.substr(slow.client.size() - 5), "\r\n\r\na");
  slow.arrives("bc", at(9));
  EXPECT_EQ(slow.machine->end(), AttemptEnd::answered);
  EXPECT_EQ(slow.seen().body, "abc");
}

TEST(RelayRefused, KeepsARefusalInTheFirstEventAndRelaysALaterOne) {
  const auto bytes = sse_head() + chunk(":\n\n" + refusing_event + done_event) + last_chunk;
  AttemptStory first(keeping_errors()), last;
  first.arrives(bytes);
  last.arrives(bytes);
  expect_refused(first, metrics::series::Retry::in_band_error, Outcome::upstream_error,
                 ":\n\n" + refusing_event + done_event, "");
  EXPECT_EQ(last.seen().body, ":\n\n" + refusing_event + done_event);
  EXPECT_TRUE(last.seen().whole);
  EXPECT_EQ(last.machine->outcome(), Outcome::upstream_error);
  // The answer has shown its marker, so it is whole, however the connection ends.
  AttemptStory broken(keeping_errors());
  broken.arrives(sse_head() + chunk(refusing_event + done_event), at(8)).breaks(Break::reset);
  expect_refused(broken, metrics::series::Retry::in_band_error, Outcome::upstream_error, refusing_event + done_event,
                 "reset");
  auto leaving = keeping_errors();
  leaving.leaves_errors = true;
  AttemptStory endless(leaving);
  endless.arrives(sse_head()).arrives(chunk(refusing_event), at(8));
  EXPECT_EQ(endless.machine->deadline(), at(9)) << "a second from the event on, not from the head";
  endless.passes(at(9));
  EXPECT_EQ(endless.machine->end(), AttemptEnd::refused);
  AttemptStory later(keeping_errors());
  later.arrives(sse_head() + chunk(token("a") + refusing_event + done_event) + last_chunk);
  EXPECT_EQ(later.machine->end(), AttemptEnd::answered);
  EXPECT_EQ(later.machine->outcome(), Outcome::upstream_error);
}

TEST(RelayRefused, KeepsNoConnectionBehindALengthThatWasNotReached) {
  const std::string events = refusing_event + done_event;
  AttemptStory attempt(keeping_errors());
  attempt.arrives(sse_head("Content-Length: 1000\r\n") + events).breaks(Break::closed);
  EXPECT_EQ(attempt.machine->end(), AttemptEnd::refused);
  EXPECT_FALSE(attempt.machine->client_reusable());
  EXPECT_THAT(attempt.machine->take_kept(), EndsWith(events));
}

TEST(RelayFailed, SaysThatAnyBreakBeforeTheFirstEventMayBeTriedElsewhere) {
  const std::string before[]{
      "",
      "HTTP/1.1 200 O",
      "HTTP/1.1 100 Continue\r\n\r\n",
      sse_head(),
      sse_head() + "5",
      sse_head() + chunk(": ping\n\n"),
      sse_head() + chunk(token("a").substr(0, 30)),
  };
  for (const auto how : {Break::reset, Break::closed})
    for (const auto& bytes : before) {
      AttemptStory attempt;
      if (!bytes.empty()) attempt.arrives(bytes);
      attempt.breaks(how);
      EXPECT_EQ(attempt.machine->end(), AttemptEnd::failed) << bytes;
      EXPECT_EQ(attempt.machine->retry_reason(), metrics::series::Retry::reset) << bytes;
      EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_reset) << bytes;
      EXPECT_EQ(attempt.client, "") << "an error of weir's own is due";
      EXPECT_EQ(attempt.machine->status(), std::nullopt) << bytes;
      EXPECT_FALSE(attempt.machine->upstream_reusable()) << bytes;
      AttemptStory after(keeping_errors());
      after.arrives(sse_head() + chunk(token("a"))).breaks(how);
      EXPECT_EQ(after.machine->end(), AttemptEnd::answered);
      EXPECT_EQ(after.machine->retry_reason(), std::nullopt);
    }
}

TEST(RelayFailed, SaysSoOfAnythingOddInTheHead) {
  for (const std::string bytes :
       {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "rubbish\r\n\r\n",
        "HTTP/1.1 200 OK\nX: y\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    AttemptStory attempt;
    attempt.arrives(bytes);
    EXPECT_EQ(attempt.machine->end(), AttemptEnd::failed) << bytes;
    EXPECT_EQ(attempt.machine->retry_reason(), metrics::series::Retry::reset) << bytes;
    EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_error) << bytes;
    EXPECT_EQ(attempt.client, "") << bytes;
  }
}

TEST(RelayFailed, ByTimeIsNotTriedElsewhereWhereItWouldTakeAsLong) {
  AttemptStory attempt(keeping_errors());
  attempt.passes(at(300));
  EXPECT_EQ(attempt.machine->end(), AttemptEnd::failed);
  EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
  EXPECT_EQ(attempt.machine->retry_reason(), std::nullopt);
}

TEST(RelayStale, IsAReusedConnectionThatDiesWithNoByteRead) {
  for (const auto how : {Break::reset, Break::closed}) {
    Circumstances one;
    one.reused = true;
    AttemptStory stale(one), late(one);
    stale.breaks(how);
    EXPECT_EQ(stale.machine->end(), AttemptEnd::stale);
    auto lease = stale.machine->take_lease();
    EXPECT_TRUE(lease) << "the request goes on with it";
    EXPECT_EQ(stale.pool->in_flight(), 1u);
    late.arrives("H").breaks(how);
    EXPECT_EQ(late.machine->end(), AttemptEnd::failed) << "it had begun to answer";
  }
}

TEST(RelayInjection, IsTakenBackWhereTheReplicaRefusesTheOption) {
  for (const auto* status : {"400 Bad Request", "422 Unprocessable Entity"}) {
    auto one = keeping_errors();
    one.injected = true;
    AttemptStory attempt(one);
    attempt.arrives(answer(status, "{}"));
    EXPECT_TRUE(attempt.machine->done());
    EXPECT_EQ(attempt.machine->end(), AttemptEnd::injection_refused);
    EXPECT_EQ(attempt.client, "");
    EXPECT_FALSE(attempt.machine->upstream_reusable());
    EXPECT_TRUE(attempt.machine->take_lease());
  }
  Circumstances one;
  one.injected = true;
  AttemptStory other(one);
  other.arrives(answer("413 Too Large", "{}"));
  EXPECT_EQ(other.machine->outcome(), Outcome::client_error);
}

TEST(RelayInjection, IsNotBlamedOnceTheReplicaHasTakenItWell) {
  Circumstances one;
  one.injected = one.injection_proven = true;
  for (const auto* status : {"400 Bad Request", "422 Unprocessable Entity"}) {
    AttemptStory attempt(one);
    attempt.arrives(answer(status, "{}"));
    EXPECT_EQ(attempt.machine->end(), AttemptEnd::answered);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::client_error);
    EXPECT_EQ(attempt.seen().body, "{}");
  }
}

TEST(RelayHead, PassesOverInterimAnswersHoweverMany) {
  AttemptStory attempt;
  for (int i = 0; i < 1000; ++i) {
    attempt.arrives("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n");
    attempt.arrives("\r\n");
  }
  EXPECT_EQ(attempt.client, "");
  EXPECT_EQ(attempt.machine->head_at(), std::nullopt);
  EXPECT_EQ(attempt.machine->deadline(), at(300)) << "they put nothing off";
  attempt.arrives(answer("200 OK", "{}"), at(7));
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
  } rows[]{
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
    EXPECT_EQ(attempt.machine->end(), AttemptEnd::answered) << row.head;
    EXPECT_THAT(attempt.client, EndsWith("\r\n\r\n"));
    EXPECT_THAT(attempt.client, Not(HasSubstr("chunked")));
    EXPECT_TRUE(attempt.machine->client_reusable()) << row.head;
    EXPECT_TRUE(attempt.machine->upstream_reusable()) << row.head;
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
      {"length", answer("200 OK", "{}"), true},
      {"an error", answer("400 Bad Request", "{}"), true},
      {"chunked", sse_head() + chunk(token("a") + done_event) + last_chunk, true},
      {"chunked with trailers", sse_head() + chunk(token("a") + done_event) + "0\r\nX: y\r\n\r\n", true},
      {"garbage behind it", answer("200 OK", "{}") + "x", false},
      {"another answer behind it", answer("200 OK", "{}") + answer("200 OK", "{}"), false},
      {"garbage behind chunks", sse_head() + chunk(done_event) + last_chunk + "\r\n", false},
      {"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", false},
      {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", false},
  };
  for (const auto& row : rows) {
    AttemptStory attempt;
    attempt.arrives(row.bytes);
    EXPECT_TRUE(attempt.machine->done()) << row.what;
    EXPECT_EQ(attempt.machine->end(), AttemptEnd::answered) << row.what;
    EXPECT_EQ(attempt.machine->upstream_reusable(), row.reusable) << row.what;
    EXPECT_TRUE(attempt.machine->client_reusable()) << row.what << ": this end has its own framing";
    EXPECT_TRUE(attempt.seen().whole) << row.what;
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
    if (row.framing.empty()) attempt.breaks(Break::closed);
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
  attempt.arrives(answer("200 OK", "{}"));
  EXPECT_THAT(attempt.client, HasSubstr("Connection: close\r\n"));
  EXPECT_FALSE(attempt.machine->client_reusable());
  EXPECT_FALSE(attempt.machine->cut());
}

}  // namespace

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

}  // namespace weir::proxy::exchange
