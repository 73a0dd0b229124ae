#include "balancer/story/health_evidence.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <set>
#include <vector>

namespace weir::balancer::story {
namespace {

using metrics::Outcome;

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
