#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "balancer/pool.hpp"
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
constexpr Seen whole{}, told_error{.error = true}, no_token{.token_events = 0},
    no_marker{.complete = Completeness::none}, framed{.complete = Completeness::framing, .token_events = 0},
    nothing{false, Completeness::none, 0, false}, full{.error = true, .error_status = 503},
    at_fault{.error = true, .error_status = 422}, no_json{.token_events = 0, .unparsed = true},
    broken_json{.unparsed = true};

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
    {"an error, then a client leaves",
     {End::client_left, 200, chat, sse, true},
     Outcome::upstream_error,
     {},
     told_error},
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

AttemptOver ended(End end, Reply reply, Outcome outcome, unsigned status) {
  AttemptOver over;
  over.end = end;
  over.reply = reply;
  over.verdict.outcome = outcome;
  over.verdict.blame = blame_of(outcome, status);
  over.status = status;
  return over;
}

TEST(SignOf, AnAttempt) {
  using enum Reply;
  struct Row {
    Reply reply;
    Outcome outcome;
    unsigned status;
    std::optional<Sign> sign;
    End end = End::whole;
  };
  const Row rows[] = {
      {relayed, Outcome::ok, 200, Sign::answered},
      {relayed, Outcome::ok_empty, 200, Sign::empty},
      {relayed, Outcome::client_error, 400, Sign::client_error},
      {relayed, Outcome::client_error, 404, Sign::client_error},
      {relayed, Outcome::client_error, 405, Sign::client_error},
      {relayed, Outcome::client_error, 501, Sign::client_error},
      {error, Outcome::upstream_error, 501, Sign::client_error},
      {relayed, Outcome::upstream_reset, 413, Sign::client_error, End::reset},
      {error, Outcome::upstream_error, 404, Sign::client_error},
      {relayed, Outcome::replica_refused, 404, Sign::failed},
      {relayed, Outcome::replica_refused, 429, Sign::full},
      {relayed, Outcome::replica_refused, 503, Sign::full},
      {error, Outcome::replica_refused, 429, Sign::full},
      {error, Outcome::replica_refused, 429, Sign::full, End::given_up},
      {relayed, Outcome::replica_refused, 408, Sign::failed},
      {relayed, Outcome::upstream_error, 500, Sign::failed},
      {error, Outcome::upstream_error, 424, Sign::failed},
      {relayed, Outcome::upstream_error, 307, Sign::failed},
      {relayed, Outcome::upstream_error, 200, Sign::failed},
      {none, Outcome::upstream_reset, 0, Sign::failed, End::reset},
      {relayed, Outcome::upstream_reset, 200, Sign::failed, End::reset},
      {relayed, Outcome::truncated, 200, Sign::failed, End::truncated},
      {none, Outcome::timeout, 0, Sign::failed, End::timed_out},
      {none, Outcome::rejected, 200, std::nullopt, End::cut},
      {relayed, Outcome::client_abort, 200, std::nullopt},
      {none, Outcome::client_abort, 0, std::nullopt, End::client_left},
      {relayed, Outcome::upstream_error, 200, std::nullopt, End::client_left},
      {none, Outcome::upstream_reset, 0, std::nullopt, End::stale},
      {none, Outcome::client_error, 400, std::nullopt, End::option_refused},
  };
  for (const auto& row : rows)
    EXPECT_EQ(sign_of(ended(row.end, row.reply, row.outcome, row.status)), row.sign)
        << static_cast<int>(row.end) << " " << metrics::name_of(row.outcome) << " " << row.status;
}

TEST(SignOf, AnOverloadInTheFirstEventIsAFullReplica) {
  auto over = ended(End::whole, Reply::error, Outcome::upstream_error, 200);
  over.answer.in_band_error = true;
  EXPECT_EQ(sign_of(over), Sign::failed) << "another error";
  EXPECT_TRUE(may_be_the_requests_fault(over));
  over.answer.in_band_status = 503;
  for (const auto reply : {Reply::error, Reply::relayed}) {
    over.reply = reply;
    EXPECT_EQ(sign_of(over), Sign::full);
  }
  over.answer.in_band_status = 0;
  EXPECT_EQ(sign_of(over), Sign::failed) << "an error in mid stream";
  EXPECT_FALSE(may_be_the_requests_fault(over));
}

TEST(SignOf, ARefusalInTheFirstEventThatIsTheRequestsFaultIsTheClients) {
  auto over = ended(End::whole, Reply::relayed, Outcome::client_error, 200);
  over.answer.in_band_error = true;
  over.answer.in_band_status = 400;
  EXPECT_EQ(sign_of(over), Sign::client_error);
  EXPECT_FALSE(may_be_the_requests_fault(over)) << "nobody failed";
}

TEST(SignOf, AConnectionThatFailed) {
  using enum ConnectFailure;
  const std::pair<ConnectFailure, std::optional<Sign>> rows[] = {
      {refused, Sign::refused},   {timed_out, Sign::connect_timed_out}, {other, Sign::failed},
      {backlog_full, Sign::full}, {local_shortage, std::nullopt},       {no_address, std::nullopt}};
  for (const auto& [failure, sign] : rows) {
    auto over = ended(End::unconnected, Reply::none, Outcome::upstream_error, 0);
    over.connect_failure = failure;
    EXPECT_EQ(sign_of(over), sign) << static_cast<int>(failure);
  }
}

TEST(SignOf, OnlyAnErrorStatusMayBeTheRequestsFault) {
  for (const unsigned status : {500u, 424u})
    EXPECT_TRUE(may_be_the_requests_fault(ended(End::whole, Reply::error, Outcome::upstream_error, status)));
  EXPECT_FALSE(may_be_the_requests_fault(ended(End::whole, Reply::error, Outcome::replica_refused, 503)));
  EXPECT_FALSE(may_be_the_requests_fault(ended(End::reset, Reply::none, Outcome::upstream_reset, 0)));
}

/// Requests that replicas answer with 500, one replica after the other. Five failures in a row put a replica out.
class SignsOfOneRequest : public testing::Test {
 protected:
  SignsOfOneRequest() {
    std::vector<ReplicaSpec> specs;
    for (const auto* name : {"a", "b", "c", "d"}) specs.emplace_back().name = name;
    pool->set_replicas(specs, now);
  }
  ReplicaKey key(ReplicaIndex replica) const { return pool->figures().key(replica); }
  void request_fails_at(std::initializer_list<ReplicaIndex> replicas) {
    HealthEvidence signs(nobody);
    const auto error = ended(End::whole, Reply::error, Outcome::upstream_error, 500);
    for (const auto replica : replicas) EXPECT_FALSE(signs.report(pool->health(), key(replica), error, now));
    signs.settle(pool->health(), now);
  }
  bool is_out(ReplicaIndex replica) const {
    return pool->health().of(key(replica), now).state == ReplicaState::ejected;
  }

  const Moment now = std::chrono::steady_clock::now();
  const std::shared_ptr<Pool> pool = Pool::make(config::Policy::round_robin, 1);
  const Caller nobody{};
};

TEST_F(SignsOfOneRequest, CountAgainstTheOnlyReplicaThatFailsIt) {
  for (int i = 0; i < 4; ++i) request_fails_at({2});
  request_fails_at({2, 2});
  EXPECT_TRUE(is_out(2));
}

TEST_F(SignsOfOneRequest, OfNoTokenAreNoEmptyAnswersWhereOneAtMostWasAskedFor) {
  for (const bool may_be_empty : {true, false}) {
    pool->health().pardon(key(0), now);
    for (const std::uint64_t client : {1U, 2U}) {
      auto over = ended(End::whole, Reply::relayed, Outcome::ok, 200);
      over.answer.output_tokens = 50;
      for (int i = 0; i < 20; ++i) HealthEvidence(Caller{.client = client}).report(pool->health(), key(1), over, now);
      over = ended(End::whole, Reply::relayed, Outcome::ok_empty, 200);
      for (int i = 0; i < 6; ++i)
        HealthEvidence(Caller{.client = client}, may_be_empty).report(pool->health(), key(0), over, now);
    }
    EXPECT_EQ(is_out(0), !may_be_empty);
  }
}

TEST_F(SignsOfOneRequest, CountInTheOrderInWhichTheyCame) {
  HealthEvidence signs(nobody);
  signs.report(pool->health(), key(2), ended(End::whole, Reply::error, Outcome::upstream_error, 500), now);
  signs.report(pool->health(), key(2), ended(End::whole, Reply::relayed, Outcome::ok, 200), now);
  for (int i = 0; i < 4; ++i) pool->health().report(key(2), Sign::failed, now);
  EXPECT_FALSE(is_out(2)) << "the answer came after the first failure";
  pool->health().report(key(2), Sign::failed, now);
  EXPECT_TRUE(is_out(2));
}

TEST_F(SignsOfOneRequest, CountAgainstNobodyOnceTwoHaveFailedItHoweverManyFollow) {
  for (const auto& replicas : {std::initializer_list<ReplicaIndex>{0, 1}, {0, 1, 2}, {0, 1, 2, 3}}) {
    for (int i = 0; i < 6; ++i) request_fails_at(replicas);
    for (ReplicaIndex replica = 0; replica < 4; ++replica)
      EXPECT_FALSE(is_out(replica)) << replica << " of " << replicas.size();
  }
}

/// Refusals are evidence in a rollout: of a request's content alone.
TEST(RefusedContent, IsToldToASplitOnce) {
  std::set<unsigned> told;
  for (unsigned status = 200; status < 600; ++status) {
    auto candidate = ReplicaSpec();
    candidate.candidate = true;
    const auto pool = Pool::make(config::Policy::round_robin, 1);
    const auto now = std::chrono::steady_clock::now();
    pool->set_replicas(std::vector{candidate}, now);
    pool->set_split(0.5, now);
    const Caller caller{.number = 7};
    HealthEvidence signs(caller);
    AttemptFacts facts;
    facts.end = End::whole;
    facts.status = status;
    auto over = ended(End::whole, Reply::relayed, verdict_of(facts, {}).outcome, status);
    for (int i = 0; i < 2; ++i) signs.report(pool->health(), pool->figures().key(0), over, now);
    EXPECT_LE(pool->split().candidate.refused, 1u);
    if (pool->split().candidate.refused == 1) told.insert(status);
  }
  for (const unsigned status : {400u, 404u, 405u, 413u, 415u, 422u, 451u}) EXPECT_TRUE(told.contains(status)) << status;
  for (const unsigned status : {200u, 307u, 401u, 403u, 408u, 424u, 429u, 499u, 500u, 501u, 503u})
    EXPECT_FALSE(told.contains(status)) << status;
  EXPECT_EQ(told.size(), 100u - 6);
}

}  // namespace
}  // namespace weir::balancer::story
