// An attempt fails before its answer is accepted: errors are kept, and some failures may be retried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Circumstances keeping_errors() {
  Circumstances one;
  one.keep_errors = true;
  return one;
}

/// The attempt ended so, another replica may have the request, and this is what the client would get of it otherwise.
void expect_kept(AttemptStory& attempt, const std::string& told, const std::string& body) {
  EXPECT_EQ(attempt.told(), told);
  EXPECT_EQ(attempt.client, "");
  EXPECT_EQ(attempt.accepted, 0);
  EXPECT_EQ(attempt.pool->figures().in_flight(), 0u);
  EXPECT_EQ(attempt.seen(attempt.machine->take_kept()).body, body);
}

TEST(RelayRefused, KeepsErrorsThatAnotherReplicaMayBetterAndRelaysAllElse) {
  const struct {
    unsigned status;
    bool kept;
    std::string outcome;
  } rows[]{
      {200, false, "ok_empty"},       {301, false, "upstream_error"}, {400, false, "client_error"},
      {401, true, "client_error"},    {403, true, "client_error"},    {404, true, "client_error"},
      {408, true, "replica_refused"}, {409, false, "client_error"},   {413, false, "client_error"},
      {422, false, "client_error"},   {424, true, "upstream_error"},  {429, true, "replica_refused"},
      {500, true, "upstream_error"},  {502, true, "upstream_error"},  {503, true, "replica_refused"},
      {504, true, "upstream_error"},  {529, true, "upstream_error"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.status);
    const auto bytes = whole_answer(std::to_string(row.status) + " x", "{}");
    AttemptStory first(keeping_errors()), last;
    first.arrives(bytes);
    last.arrives(bytes);
    EXPECT_EQ(first.machine->status_read(), row.status);
    if (row.kept) expect_kept(first, "error, " + row.outcome + ", retry status, client, replica", "{}");
    for (const auto* passed : {row.kept ? &last : &first, &last}) {
      EXPECT_EQ(passed->told(), "relayed, " + row.outcome + ", whole, client, replica");
      EXPECT_EQ(passed->machine->status(), row.status);
      EXPECT_EQ(passed->seen().body, "{}");
      EXPECT_EQ(passed->accepted, 1);
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

TEST(RelayRefused, KeepsWhatIsSmallAndEndsInASecondAndGivesUpAnyOther) {
  const std::string head = "HTTP/1.1 503 Busy\r\nContent-Length: ", events = refusing_event + done_event;
  const std::string largest(AnswerHandler::most_kept, 'x'), comment = ":\n\n";
  struct Step {
    double at;
    std::string bytes;  ///< With "" the deadline passes.
  };
  const struct {
    const char* what;
    std::vector<Step> steps;
    std::optional<End> end;
    std::string told, kept;
  } rows[]{
      {"the largest", {{1, head + std::to_string(largest.size()) + "\r\n\r\n" + largest}}, {},
       "error, replica_refused, retry status, client, replica", largest},
      {"too large", {{1, head + std::to_string(largest.size() + 1) + "\r\n\r\n" + largest + "x"}}, {},
       "error, replica_refused, retry status", ""},
      {"too slow", {{3, head + "9\r\n\r\nx"}, {4, ""}}, {}, "error, replica_refused, retry status", ""},
      {"broken", {{1, head + "9\r\n\r\nx"}}, End::reset, "error, replica_refused, retry status", ""},
      {"a failure that is broken", {{1, "HTTP/1.1 500 x\r\nContent-Length: 9\r\n\r\nx"}}, End::closed,
       "error, upstream_error, retry status", ""},
      {"a refusal in the first event", {{1, sse_head() + chunk(comment + events) + last_chunk}}, {},
       "error, replica_refused, retry in_band_error, client, replica", comment + events},
      {"a refusal that has shown its marker, so that it is whole", {{8, sse_head() + chunk(events)}}, End::reset,
       "error, replica_refused, retry in_band_error, client", events},
      {"a refusal without end, a second from the event on and not from the head",
       {{1, sse_head()}, {8, chunk(refusing_event)}, {9, ""}}, {}, "error, replica_refused, retry in_band_error", ""},
      {"a length that was not reached", {{1, sse_head("Content-Length: 1000\r\n") + events}}, End::closed,
       "error, replica_refused, retry in_band_error, cut", events},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    auto leaving = keeping_errors();
    leaving.leaves_errors = true;
    AttemptStory attempt(leaving);
    for (const auto& [when, bytes] : row.steps) {
      if (bytes.empty()) {
        EXPECT_EQ(attempt.machine->deadline(), at(when));
        attempt.passes(at(when));
        continue;
      }
      for (std::size_t sent = 0; sent < bytes.size(); sent += 9'000)
        attempt.arrives(bytes.substr(sent, 9'000), at(when));
    }
    if (row.end) attempt.breaks(*row.end);
    expect_kept(attempt, row.told, row.kept);
  }
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

TEST(RelayRefused, RelaysARefusalThatMayNotBeKeptOrComesLater) {
  for (const auto& events : {":\n\n" + refusing_event + done_event, token("a") + refusing_event + done_event}) {
    const bool later = events.starts_with(token("a"));
    AttemptStory attempt(later ? keeping_errors() : Circumstances());
    attempt.arrives(sse_head() + chunk(events) + last_chunk);
    const std::string outcome = later ? "upstream_error" : "replica_refused";
    EXPECT_EQ(attempt.told(), "relayed, " + outcome + ", whole, client, replica");
    EXPECT_EQ(attempt.seen().body, events);
  }
}

TEST(RelayFailed, SaysThatAnyBreakBeforeTheFirstEventMayBeTriedElsewhere) {
  for (const auto how : {End::reset, End::closed})
    for (const auto& bytes :
         {std::string(), std::string("HTTP/1.1 200 O"), std::string("HTTP/1.1 100 Continue\r\n\r\n"), sse_head(),
          sse_head() + "5", sse_head() + chunk(": ping\n\n"), sse_head() + chunk(token("a").substr(0, 30)),
          sse_head("") + ": ping\n\n"}) {
      AttemptStory attempt;
      if (!bytes.empty()) attempt.arrives(bytes);
      attempt.breaks(how);
      EXPECT_EQ(attempt.told(), "none, upstream_reset, retry reset") << bytes;
      EXPECT_EQ(attempt.client, "") << "an error of weir's own is due";
      EXPECT_EQ(attempt.machine->status(), std::nullopt) << bytes;
    }
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
  one.sent = false;
  AttemptStory unsent(one);
  unsent.arrives(whole_answer("200 OK", "{}"));
  EXPECT_EQ(unsent.machine->end(), End::stale) << "nothing was asked yet";
  EXPECT_EQ(unsent.client, "");
  for (auto* attempt : {&fresh, &unasked}) attempt->arrives(whole_answer("200 OK", "{}"), at(-0.001));
  quick.arrives(whole_answer("200 OK", "{}"), at(0));
  EXPECT_EQ(unasked.machine->end(), End::stale) << "they answer something else";
  EXPECT_EQ(unasked.client, "");
  EXPECT_FALSE(unasked.machine->upstream_reusable());
  EXPECT_EQ(fresh.machine->reply(), Reply::relayed);
  EXPECT_EQ(quick.machine->reply(), Reply::relayed);
}

TEST(RelayInjection, IsTakenBackWhereTheReplicaRefusesTheOptionUnlessItHasTakenItWell) {
  for (const std::string status : {"400 Bad Request", "422 Unprocessable Entity", "413 Too Large"})
    for (const bool proven : {false, true}) {
      auto one = keeping_errors();
      one.injected = true;
      one.injection_proven = proven;
      AttemptStory attempt(one);
      attempt.arrives(whole_answer(status, "{}"));
      if (proven || status.starts_with("413")) {
        EXPECT_EQ(attempt.told(), "relayed, client_error, whole, client, replica") << status;
        continue;
      }
      EXPECT_EQ(attempt.machine->end(), End::option_refused);
      EXPECT_EQ(attempt.client, "");
      EXPECT_FALSE(attempt.machine->upstream_reusable());
      EXPECT_TRUE(attempt.machine->take_lease());
    }
}

}  // namespace
}  // namespace weir::proxy::exchange
