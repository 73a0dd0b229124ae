#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>

#include "balancer/story/attempt.hpp"

namespace weir::balancer::story {
namespace {

TEST(ErrorAnswers, TellFullReplicasFromDoubtfulOnes) {
  for (unsigned status = 100; status < 600; ++status) {
    EXPECT_EQ(another_may_have_room(status), status == 408 || status == 429 || status == 503) << status;
    EXPECT_EQ(needs_second_opinion(status), status == 401 || status == 403 || status == 404 || status == 501) << status;
    if (status < 400) continue;
    EXPECT_EQ(is_failure(status) + another_may_have_room(status) + refuses_the_request(status), 1) << status;
    EXPECT_TRUE(is_failure(status) || !(status == 424 || status == 500 || status == 502)) << status;
    if (refuses_the_content(status)) EXPECT_TRUE(refuses_the_request(status)) << status;
  }
}

TEST(ErrorAnswers, AreKeptWhereAnotherReplicaMayDoBetter) {
  for (unsigned status = 100; status < 600; ++status) {
    const bool of_any = status >= 500 || status == 401 || status == 403 || status == 404 || status == 408 ||
                        status == 424 || status == 429;
    EXPECT_EQ(may_be_bettered(status, false), of_any) << status;
    EXPECT_EQ(may_be_bettered(status, true), status >= 400) << status;
  }
}

TEST(ErrorAnswers, AreWorthMoreTheMoreTheyTellTheClient) {
  const unsigned falling[][4]{{429, 429, 429, 429}, {503, 408, 503, 408}, {401, 403, 404, 404}, {500, 502, 529, 200}};
  for (std::size_t i = 0; i < std::size(falling); ++i)
    for (const auto better : falling[i]) {
      for (const auto equal : falling[i]) EXPECT_EQ(error_rank(better), error_rank(equal));
      for (std::size_t j = i + 1; j < std::size(falling); ++j)
        for (const auto worse : falling[j]) EXPECT_GT(error_rank(better), error_rank(worse)) << better << " " << worse;
    }
}

using metrics::Api;
using metrics::Completeness;
using metrics::Outcome;
using metrics::Phase;

/// An answer as its meter saw it.
struct Seen {
  bool error = false;  ///< The replica reported one in its stream.
  Completeness complete = Completeness::marker;
  std::uint32_t token_events = 5;
  bool first_token = true;
  bool unparsed = false;
  std::uint16_t error_status = 0;
};
constexpr Seen whole{}, told_error{.error = true}, no_token{.token_events = 0}, no_marker{.complete = Completeness::none},
    framed{.complete = Completeness::framing, .token_events = 0}, nothing{false, Completeness::none, 0, false},
    full{.error = true, .error_status = 503}, at_fault{.error = true, .error_status = 422},
    no_json{.token_events = 0, .unparsed = true}, broken_json{.unparsed = true};

struct Row {
  const char* what;
  AttemptFacts facts;
  Outcome outcome;
  std::optional<Phase> phase{};
  Seen seen = whole;
};

constexpr auto chat = Api::openai_chat, embeddings = Api::openai_embeddings;
constexpr bool sse = true, json = true, opaque = false;  // Whether the form of the body is known.

const Row rows[]{
    {"a whole stream", {End::whole, 200, chat, sse, true}, Outcome::ok},
    {"a stream behind its marker", {End::marked, 200, chat, sse, true}, Outcome::ok},
    {"no token", {End::whole, 200, chat, sse, true}, Outcome::ok_empty, {}, no_token},
    {"an embedding, which has no tokens", {End::whole, 200, embeddings, json, true}, Outcome::ok, {}, framed},
    {"no token is counted in an opaque body", {End::whole, 200, chat, opaque, true}, Outcome::ok, {}, framed},
    {"no content", {End::whole, 204, chat, json, true, false, true}, Outcome::ok_empty, {}, no_json},
    {"an HTML page", {End::whole, 200, chat, json, true, false, true}, Outcome::ok_empty, {}, no_json},
    {"a page in a coded body",
     {.end = End::whole, .status = 200, .api = chat, .sent = true, .is_page = true},
     Outcome::ok_empty,
     {},
     framed},
    {"a page for an embedding", {End::whole, 200, embeddings, json, true, false, true}, Outcome::ok_empty, {}, no_json},
    {"a fault behind the text", {End::whole, 200, chat, json, true, false, true}, Outcome::ok, {}, broken_json},
    {"a stream of which an event was too long", {End::whole, 200, chat, sse, true}, Outcome::ok, {}, no_json},
    {"nothing tells the end", {End::whole, 200, chat, sse, true}, Outcome::truncated, {}, no_marker},
    {"a close without an end", {End::truncated, 200, chat, sse, true}, Outcome::truncated},
    {"an error in the stream", {End::whole, 200, chat, sse, true}, Outcome::upstream_error, {}, told_error},
    {"an error, then a reset", {End::reset, 200, chat, sse, true}, Outcome::upstream_error, {}, told_error},
    {"an error, then silence", {End::timed_out, 200, chat, sse, true}, Outcome::upstream_error, {}, told_error},
    {"an error, then a client leaves", {End::client_left, 200, chat, sse, true}, Outcome::upstream_error, {}, told_error},
    {"no room, in the stream", {End::whole, 200, chat, sse, true}, Outcome::replica_refused, {}, full},
    {"its own fault in the stream", {End::whole, 200, chat, sse, true}, Outcome::client_error, {}, at_fault},
    {"its own fault, then a reset", {End::reset, 200, chat, sse, true}, Outcome::client_error, {}, at_fault},
    {"a reset", {End::reset, 200, chat, sse, true}, Outcome::upstream_reset},
    {"a close within the framing", {End::closed, 200, chat, sse, true}, Outcome::upstream_reset},
    {"a reset before the head", {End::reset, 0, chat, opaque, true}, Outcome::upstream_reset},
    {"bytes that are no HTTP", {End::bad_framing, 0, chat, opaque, true}, Outcome::upstream_error},
    {"silence", {End::timed_out, 200, chat, sse, true}, Outcome::timeout},
    {"a drain ends amid tokens", {End::cut, 200, chat, sse, true}, Outcome::rejected, Phase::decode},
    {"a drain ends before a send", {End::cut, 0, chat, opaque, false}, Outcome::rejected, Phase::queue, nothing},
    {"an error, then a drain ends", {End::cut, 200, chat, sse, true}, Outcome::upstream_error, {}, told_error},
    {"a client leaves amid tokens", {End::client_left, 200, chat, sse, true}, Outcome::client_abort, Phase::decode},
    {"before a token", {End::client_left, 200, chat, sse, true}, Outcome::client_abort, Phase::prefill, nothing},
    {"before a send", {End::client_left, 0, chat, opaque, false}, Outcome::client_abort, Phase::queue, nothing},
    {"with all it asked for", {End::client_left, 200, chat, sse, true, true}, Outcome::ok},
    {"408", {End::whole, 408, chat, opaque, true}, Outcome::replica_refused},
    {"429", {End::whole, 429, chat, opaque, true}, Outcome::replica_refused},
    {"503", {End::whole, 503, chat, opaque, true}, Outcome::replica_refused},
    {"500", {End::whole, 500, chat, opaque, true}, Outcome::upstream_error},
    {"424", {End::whole, 424, chat, opaque, true}, Outcome::upstream_error},
    {"400", {End::whole, 400, chat, opaque, true}, Outcome::client_error},
    {"501", {End::whole, 501, chat, opaque, true}, Outcome::client_error},
    {"404", {End::whole, 404, chat, opaque, true}, Outcome::client_error},
    {"a redirect of an inference", {End::whole, 302, chat, opaque, true}, Outcome::upstream_error},
    {"a redirect of something else", {End::whole, 302, Api::other, opaque, true}, Outcome::ok},
};

TEST(Verdict, IsATable) {
  for (const auto& row : rows) {
    metrics::record::Answer answer;
    answer.in_band_error = row.seen.error;
    answer.in_band_status = row.seen.error_status;
    answer.complete = row.seen.complete;
    answer.token_events = row.seen.token_events;
    answer.unparsed = row.seen.unparsed;
    if (row.seen.first_token) answer.first_token = metrics::Moment();
    const auto verdict = verdict_of(row.facts, answer);
    EXPECT_EQ(verdict.outcome, row.outcome) << row.what << ": " << name_of(verdict.outcome);
    EXPECT_EQ(verdict.phase, row.phase) << row.what;
    EXPECT_EQ(verdict.blame, blame_of(row.outcome, row.facts.status)) << row.what;
  }
}

TEST(Verdict, BlamesOneOrNobody) {
  using enum Blame;
  const struct {
    Outcome outcome;
    unsigned status;
    Blame blame;
  } rows_of_blame[]{
      {Outcome::ok, 200, nobody},
      {Outcome::ok_empty, 200, nobody},
      {Outcome::client_abort, 0, nobody},
      {Outcome::client_abort, 200, nobody},
      {Outcome::client_error, 400, client},
      {Outcome::client_error, 404, client},
      {Outcome::client_error, 501, client},
      {Outcome::bad_request, 0, client},
      {Outcome::rejected, 0, weir},
      {Outcome::rejected, 200, weir},
      {Outcome::replica_refused, 408, replica},
      {Outcome::replica_refused, 429, replica},
      {Outcome::replica_refused, 503, replica},
      {Outcome::replica_refused, 404, replica},
      {Outcome::upstream_error, 200, replica},
      {Outcome::upstream_error, 302, replica},
      {Outcome::upstream_error, 500, replica},
      {Outcome::upstream_error, 424, replica},
      {Outcome::upstream_reset, 0, replica},
      {Outcome::upstream_reset, 200, replica},
      {Outcome::upstream_reset, 413, client},
      {Outcome::upstream_reset, 429, replica},
      {Outcome::truncated, 200, replica},
      {Outcome::timeout, 0, replica},
      {Outcome::timeout, 200, replica},
  };
  for (const auto& row : rows_of_blame)
    EXPECT_EQ(blame_of(row.outcome, row.status), row.blame) << name_of(row.outcome) << " " << row.status;
}

TEST(Verdict, SaysWhyTheLeaseEnds) {
  EXPECT_EQ(cause_of({Outcome::ok, {}, Blame::nobody}), EndCause::answered);
  EXPECT_EQ(cause_of({Outcome::ok_empty, {}, Blame::nobody}), EndCause::answered);
  for (const auto phase : {Phase::prefill, Phase::decode})
    EXPECT_EQ(cause_of({Outcome::client_abort, phase, Blame::nobody}), EndCause::client_left);
  EXPECT_EQ(cause_of({Outcome::client_abort, Phase::queue, Blame::nobody}), EndCause::unsent)
      << "the replica has computed nothing of it, however long it took to connect";
  EXPECT_EQ(cause_of({Outcome::client_error, {}, Blame::client}), EndCause::client_erred);
  EXPECT_EQ(cause_of({Outcome::upstream_reset, {}, Blame::client}), EndCause::client_erred);
  EXPECT_EQ(cause_of({Outcome::upstream_reset, {}, Blame::replica}), EndCause::replica_failed);
  EXPECT_EQ(cause_of({Outcome::replica_refused, {}, Blame::replica}), EndCause::replica_failed);
  EXPECT_EQ(cause_of({Outcome::rejected, {}, Blame::weir}), EndCause::unsent);
}

TEST(Verdict, OfAConnectionThatFailed) {
  using enum ConnectFailure;
  for (const auto failure : {refused, backlog_full, no_address, other}) {
    EXPECT_EQ(verdict_of_connecting(failure).outcome, Outcome::upstream_error);
    EXPECT_EQ(verdict_of_connecting(failure).blame, Blame::replica);
  }
  EXPECT_EQ(verdict_of_connecting(timed_out).outcome, Outcome::timeout);
  EXPECT_EQ(verdict_of_connecting(timed_out).blame, Blame::replica);
  EXPECT_EQ(verdict_of_connecting(local_shortage).outcome, Outcome::rejected);
  EXPECT_EQ(cause_of(verdict_of_connecting(local_shortage)), EndCause::unsent);
}

TEST(Verdict, OfAnErrorThatIsGivenUp) {
  for (const unsigned full : {408u, 429u, 503u}) {
    EXPECT_EQ(verdict_of_given_up_error(full).outcome, Outcome::replica_refused);
    EXPECT_EQ(verdict_of_given_up_error(full).blame, Blame::replica);
  }
  for (const unsigned other : {200u, 401u, 404u, 500u, 501u, 502u})
    EXPECT_EQ(verdict_of_given_up_error(other).outcome, Outcome::upstream_error);
  for (const unsigned refusal : {400u, 401u, 403u, 404u, 422u, 501u})
    EXPECT_EQ(verdict_of_given_up_error(refusal).blame, Blame::client) << refusal;
  for (const unsigned failure : {200u, 500u, 502u, 504u})
    EXPECT_EQ(verdict_of_given_up_error(failure).blame, Blame::replica) << failure;
}

TEST(Verdict, ABreakBeforeTheAnswerIsRetriedUnlessARetryWouldTakeAsLong) {
  using metrics::Retry;
  EXPECT_EQ(facts_of(End::cut).retry, Retry::drain);
  for (const auto end : {End::reset, End::closed, End::bad_framing}) EXPECT_EQ(facts_of(end).retry, Retry::reset);
  EXPECT_EQ(facts_of(End::timed_out).retry, std::nullopt) << "but see RelayTimeout";
  EXPECT_EQ(facts_of(End::stale).retry, Retry::stale_connection);
  EXPECT_EQ(facts_of(End::option_refused).retry, Retry::injection_refused);
  EXPECT_EQ(facts_of(End::unconnected).retry, Retry::connect) << "the table has the order of End";
}

TEST(Verdict, TheClientsBodyIsCutUnlessItIsAllThere) {
  EXPECT_FALSE(breaks_off(End::whole));
  EXPECT_FALSE(breaks_off(End::marked));
  for (const auto end : {End::truncated, End::reset, End::closed, End::bad_framing, End::timed_out, End::client_left})
    EXPECT_TRUE(breaks_off(end)) << static_cast<int>(end);
}

}  // namespace
}  // namespace weir::balancer::story
