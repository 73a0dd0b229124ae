// An attempt fails before its answer is accepted: errors are kept, and some failures may be retried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Circumstances keeping_errors() {
  Circumstances one;
  one.keep_errors = true;
  return one;
}

/// Nothing of the attempt has reached the client, and another replica may have the request.
void expect_refused(AttemptStory& attempt, metrics::series::Retry reason, Outcome outcome, const std::string& body,
                    const std::string& what) {
  EXPECT_TRUE(attempt.machine->done()) << what;
  EXPECT_EQ(attempt.machine->reply(), Reply::error) << what;
  EXPECT_EQ(attempt.machine->retry_reason(), reason) << what;
  EXPECT_EQ(attempt.machine->outcome(), outcome) << what;
  EXPECT_EQ(attempt.client, "") << what;
  EXPECT_EQ(attempt.accepted, 0) << what;
  EXPECT_EQ(attempt.pool->figures().in_flight(), 0u) << what;
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
      EXPECT_EQ(passed->machine->reply(), Reply::relayed) << what;
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
  const auto largest = AnswerHandler::most_kept;
  auto leaving = keeping_errors();
  leaving.leaves_errors = true;
  AttemptStory whole(keeping_errors()), large(leaving), slow(leaving), broken(keeping_errors());
  whole.arrives(head + std::to_string(largest) + "\r\n\r\n" + std::string(largest, 'x'));
  large.arrives_split(head + std::to_string(largest + 1) + "\r\n\r\n" + std::string(largest + 1, 'x'), {9'000});
  slow.arrives(head + "9\r\n\r\nx", at(3));
  EXPECT_EQ(slow.machine->deadline(), at(4));
  slow.passes(at(4));
  broken.arrives(head + "9\r\n\r\nx").breaks(End::reset);
  expect_refused(whole, metrics::series::Retry::status, Outcome::replica_refused, std::string(largest, 'x'), "whole");
  for (auto* attempt : {&large, &slow, &broken}) {
    EXPECT_EQ(attempt->machine->reply(), Reply::error);
    EXPECT_EQ(attempt->machine->retry_reason(), metrics::series::Retry::status);
    EXPECT_EQ(attempt->machine->outcome(), Outcome::replica_refused);
    EXPECT_EQ(attempt->machine->take_kept(), "");
    EXPECT_EQ(attempt->client, "");
    EXPECT_FALSE(attempt->machine->upstream_reusable());
  }
  AttemptStory failure(keeping_errors());
  failure.arrives("HTTP/1.1 500 x\r\nContent-Length: 9\r\n\r\nx").breaks(End::closed);
  EXPECT_EQ(failure.machine->outcome(), Outcome::upstream_error);
}

TEST(RelayRefused, RelaysWhatIsTooLargeOrTooSlowWhereNobodyElseIsAsked) {
  const std::string head = "HTTP/1.1 404 Not Found\r\nContent-Length: ";
  const std::string body(AnswerHandler::most_kept + 1, 'x');
  for (const std::size_t read : {body.size() + 100, std::size_t{9'000}, std::size_t{1}}) {
    AttemptStory large(keeping_errors());
    large.arrives_split(head + std::to_string(body.size()) + "\r\n\r\n" + body, {read});
    EXPECT_EQ(large.machine->reply(), Reply::relayed);
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
  EXPECT_EQ(slow.machine->reply(), Reply::relayed);
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
  broken.arrives(sse_head() + chunk(refusing_event + done_event), at(8)).breaks(End::reset);
  expect_refused(broken, metrics::series::Retry::in_band_error, Outcome::upstream_error, refusing_event + done_event,
                 "reset");
  auto leaving = keeping_errors();
  leaving.leaves_errors = true;
  AttemptStory endless(leaving);
  endless.arrives(sse_head()).arrives(chunk(refusing_event), at(8));
  EXPECT_EQ(endless.machine->deadline(), at(9)) << "a second from the event on, not from the head";
  endless.passes(at(9));
  EXPECT_EQ(endless.machine->reply(), Reply::error);
  AttemptStory later(keeping_errors());
  later.arrives(sse_head() + chunk(token("a") + refusing_event + done_event) + last_chunk);
  EXPECT_EQ(later.machine->reply(), Reply::relayed);
  EXPECT_EQ(later.machine->outcome(), Outcome::upstream_error);
}

TEST(RelayRefused, KeepsNoConnectionBehindALengthThatWasNotReached) {
  const std::string events = refusing_event + done_event;
  AttemptStory attempt(keeping_errors());
  attempt.arrives(sse_head("Content-Length: 1000\r\n") + events).breaks(End::closed);
  EXPECT_EQ(attempt.machine->reply(), Reply::error);
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
  for (const auto how : {End::reset, End::closed})
    for (const auto& bytes : before) {
      AttemptStory attempt;
      if (!bytes.empty()) attempt.arrives(bytes);
      attempt.breaks(how);
      EXPECT_EQ(attempt.machine->reply(), Reply::none) << bytes;
      EXPECT_EQ(attempt.machine->retry_reason(), metrics::series::Retry::reset) << bytes;
      EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_reset) << bytes;
      EXPECT_EQ(attempt.client, "") << "an error of weir's own is due";
      EXPECT_EQ(attempt.machine->status(), std::nullopt) << bytes;
      EXPECT_FALSE(attempt.machine->upstream_reusable()) << bytes;
      AttemptStory after(keeping_errors());
      after.arrives(sse_head() + chunk(token("a"))).breaks(how);
      EXPECT_EQ(after.machine->reply(), Reply::relayed);
      EXPECT_EQ(after.machine->retry_reason(), std::nullopt);
    }
}

TEST(RelayFailed, SaysSoOfAnythingOddInTheHead) {
  for (const std::string bytes :
       {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "rubbish\r\n\r\n",
        "HTTP/1.1 200 OK\nX: y\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    AttemptStory attempt;
    attempt.arrives(bytes);
    EXPECT_EQ(attempt.machine->reply(), Reply::none) << bytes;
    EXPECT_EQ(attempt.machine->retry_reason(), metrics::series::Retry::reset) << bytes;
    EXPECT_EQ(attempt.machine->outcome(), Outcome::upstream_error) << bytes;
    EXPECT_EQ(attempt.client, "") << bytes;
  }
}

TEST(RelayFailed, ByTimeIsTriedElsewhereIfItIsTheFirstTokenThatDidNotCome) {
  for (const auto& beginning : {std::string(), sse_head(), sse_head() + chunk(":\n\n")}) {
    auto one = keeping_errors();
    one.limits.accept_hold = config::Seconds(1000);
    AttemptStory attempt(one);
    if (!beginning.empty()) attempt.arrives(beginning);
    attempt.passes(at(300));
    EXPECT_EQ(attempt.machine->reply(), Reply::none);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
    EXPECT_EQ(attempt.machine->retry_reason(), metrics::series::Retry::first_token);
  }
}

TEST(RelayFailed, ByTimeIsNotTriedElsewhereWhereItWouldTakeAsLong) {
  auto one = keeping_errors();
  one.stream = false;
  AttemptStory attempt(one);
  attempt.passes(at(1800));
  EXPECT_EQ(attempt.machine->reply(), Reply::none);
  EXPECT_EQ(attempt.machine->outcome(), Outcome::timeout);
  EXPECT_EQ(attempt.machine->retry_reason(), std::nullopt);
}

TEST(RelayStale, IsAReusedConnectionThatDiesWithNoByteRead) {
  for (const auto how : {End::reset, End::closed}) {
    Circumstances one;
    one.reused = true;
    AttemptStory stale(one), late(one);
    stale.breaks(how);
    EXPECT_EQ(stale.machine->end(), End::stale);
    auto lease = stale.machine->take_lease();
    EXPECT_TRUE(lease) << "the request goes on with it";
    EXPECT_EQ(stale.pool->figures().in_flight(), 1u);
    late.arrives("H").breaks(how);
    EXPECT_EQ(late.machine->end(), how) << "it had begun to answer";
    EXPECT_EQ(late.machine->reply(), Reply::none);
  }
  for (const auto other : {End::timed_out, End::cut}) {
    Circumstances one;
    one.reused = true;
    AttemptStory attempt(one);
    attempt.breaks(other);
    EXPECT_EQ(attempt.machine->end(), other) << "time was lost";
    EXPECT_FALSE(attempt.machine->take_lease());
  }
}

TEST(RelayStale, IsAReusedConnectionOnWhichBytesLayBeforeTheRequest) {
  Circumstances one;
  AttemptStory fresh(one);
  one.reused = true;
  AttemptStory unasked(one), quick(one);
  for (auto* attempt : {&fresh, &unasked}) attempt->arrives(answer("200 OK", "{}"), at(-0.001));
  quick.arrives(answer("200 OK", "{}"), at(0));
  EXPECT_EQ(unasked.machine->end(), End::stale) << "they answer something else";
  EXPECT_EQ(unasked.client, "");
  EXPECT_FALSE(unasked.machine->upstream_reusable());
  EXPECT_EQ(fresh.machine->reply(), Reply::relayed);
  EXPECT_EQ(quick.machine->reply(), Reply::relayed);
}

TEST(RelayInjection, IsTakenBackWhereTheReplicaRefusesTheOption) {
  for (const auto* status : {"400 Bad Request", "422 Unprocessable Entity"}) {
    auto one = keeping_errors();
    one.injected = true;
    AttemptStory attempt(one);
    attempt.arrives(answer(status, "{}"));
    EXPECT_TRUE(attempt.machine->done());
    EXPECT_EQ(attempt.machine->end(), End::option_refused);
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
    EXPECT_EQ(attempt.machine->reply(), Reply::relayed);
    EXPECT_EQ(attempt.machine->outcome(), Outcome::client_error);
    EXPECT_EQ(attempt.seen().body, "{}");
  }
}

}  // namespace
}  // namespace weir::proxy::exchange
