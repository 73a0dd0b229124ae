#include "proxy/exchange/replica_signs.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>
#include <memory>
#include <vector>

#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;
using metrics::Outcome;

AttemptResult ended(AttemptEnd end, Outcome outcome, unsigned status) {
  AttemptResult result;
  result.end = end;
  result.verdict.outcome = outcome;
  result.verdict.blame = blame_of(outcome, status);
  result.status = status;
  return result;
}

TEST(ReplicaSigns, OfAnAnswer) {
  using enum AttemptEnd;
  struct Row {
    AttemptEnd end;
    Outcome outcome;
    unsigned status;
    std::optional<Sign> sign;
  };
  const Row rows[] = {
      {answered, Outcome::ok, 200, Sign::answered},
      {answered, Outcome::ok_empty, 200, Sign::answered},
      {answered, Outcome::client_error, 400, Sign::client_error},
      {answered, Outcome::client_error, 404, Sign::client_error},
      {answered, Outcome::client_error, 405, Sign::client_error},
      {answered, Outcome::client_error, 501, Sign::client_error},
      {refused, Outcome::upstream_error, 501, Sign::client_error},
      {answered, Outcome::upstream_reset, 413, Sign::client_error},
      {refused, Outcome::upstream_error, 404, Sign::client_error},
      {answered, Outcome::replica_refused, 404, Sign::failed},
      {answered, Outcome::replica_refused, 429, Sign::full},
      {answered, Outcome::replica_refused, 503, Sign::full},
      {refused, Outcome::replica_refused, 429, Sign::full},
      {answered, Outcome::replica_refused, 408, Sign::failed},
      {answered, Outcome::upstream_error, 500, Sign::failed},
      {answered, Outcome::upstream_error, 307, Sign::failed},
      {answered, Outcome::upstream_error, 200, Sign::failed},
      {failed, Outcome::upstream_reset, 0, Sign::failed},
      {answered, Outcome::upstream_reset, 200, Sign::failed},
      {answered, Outcome::truncated, 200, Sign::failed},
      {failed, Outcome::timeout, 0, Sign::failed},
      {failed, Outcome::rejected, 200, std::nullopt},
      {answered, Outcome::client_abort, 200, std::nullopt},
      {client_gone, Outcome::client_abort, 0, std::nullopt},
      {stale, Outcome::upstream_reset, 0, std::nullopt},
      {injection_refused, Outcome::client_error, 400, std::nullopt},
  };
  for (const auto& row : rows)
    EXPECT_EQ(sign_of(ended(row.end, row.outcome, row.status)), row.sign)
        << static_cast<int>(row.end) << " " << metrics::name_of(row.outcome) << " " << row.status;
}

TEST(ReplicaSigns, AnOverloadInTheFirstEventIsAFullReplica) {
  auto result = ended(AttemptEnd::refused, Outcome::upstream_error, 200);
  result.answer.in_band_error = true;
  EXPECT_EQ(sign_of(result), Sign::failed) << "another error";
  EXPECT_TRUE(may_be_the_requests_fault(result));
  result.overloaded = true;
  for (const auto end : {AttemptEnd::refused, AttemptEnd::answered}) {
    result.end = end;
    EXPECT_EQ(sign_of(result), Sign::full);
  }
  result.overloaded = false;
  EXPECT_EQ(sign_of(result), Sign::failed) << "an error in mid stream";
  EXPECT_FALSE(may_be_the_requests_fault(result));
}

TEST(ReplicaSigns, OfAConnection) {
  const std::pair<int, std::optional<Sign>> rows[] = {
      {ECONNREFUSED, Sign::refused},
      {ETIMEDOUT, Sign::connect_timed_out},
      {EHOSTUNREACH, Sign::failed},
      {EAGAIN, Sign::full},
      {EMFILE, std::nullopt},
      {ENFILE, std::nullopt},
      {EADDRNOTAVAIL, std::nullopt},
      {net::name_unknown, std::nullopt},
      {ENOENT, Sign::refused}};  // The socket of a Unix-domain path is not there.
  for (const auto& [error, sign] : rows) {
    auto result = ended(AttemptEnd::unconnected, Outcome::upstream_error, 0);
    result.connect_error = error;
    EXPECT_EQ(sign_of(result), sign) << error;
  }
}

TEST(ReplicaSigns, OnlyAnErrorStatusMayBeTheRequestsFault) {
  EXPECT_TRUE(may_be_the_requests_fault(ended(AttemptEnd::refused, Outcome::upstream_error, 500)));
  EXPECT_FALSE(may_be_the_requests_fault(ended(AttemptEnd::refused, Outcome::replica_refused, 503)));
  EXPECT_FALSE(may_be_the_requests_fault(ended(AttemptEnd::failed, Outcome::upstream_reset, 0)));
}

/// Requests that replicas answer with 500, one replica after the other. Five failures in a row put a replica out.
class SignsOfOneRequest : public testing::Test {
 protected:
  SignsOfOneRequest() {
    std::vector<balancer::ReplicaSpec> specs;
    for (const auto* name : {"a", "b", "c", "d"}) specs.emplace_back().name = name;
    pool->set_replicas(specs, now);
  }
  balancer::ReplicaKey key(balancer::ReplicaIndex replica) const { return pool->key(replica); }
  void request_fails_at(std::initializer_list<balancer::ReplicaIndex> replicas) {
    Signs signs(balancer::Caller{});
    const auto error = ended(AttemptEnd::refused, Outcome::upstream_error, 500);
    for (const auto replica : replicas) EXPECT_FALSE(signs.report(*pool, key(replica), error, now));
    signs.settle(*pool, Sign::failed_alone, now);
  }
  bool is_out(balancer::ReplicaIndex replica) const {
    return pool->health(key(replica), now).state == balancer::ReplicaState::ejected;
  }

  const balancer::Moment now = std::chrono::steady_clock::now();
  const std::shared_ptr<balancer::Pool> pool = balancer::Pool::make(config::Policy::round_robin, 0.05, 1);
};

TEST_F(SignsOfOneRequest, CountAgainstTheOnlyReplicaThatFailsIt) {
  for (int i = 0; i < 4; ++i) request_fails_at({2});
  request_fails_at({2, 2});
  EXPECT_TRUE(is_out(2));
}

TEST_F(SignsOfOneRequest, CountInTheOrderInWhichTheyCame) {
  Signs signs(balancer::Caller{});
  signs.report(*pool, key(2), ended(AttemptEnd::refused, Outcome::upstream_error, 500), now);
  signs.report(*pool, key(2), ended(AttemptEnd::answered, Outcome::ok, 200), now);
  for (int i = 0; i < 4; ++i) pool->report(key(2), Sign::failed, now);
  EXPECT_FALSE(is_out(2)) << "the answer came after the first failure";
  pool->report(key(2), Sign::failed, now);
  EXPECT_TRUE(is_out(2));
}

TEST_F(SignsOfOneRequest, CountAgainstNobodyOnceTwoHaveFailedItHoweverManyFollow) {
  for (const auto& replicas : {std::initializer_list<balancer::ReplicaIndex>{0, 1}, {0, 1, 2}, {0, 1, 2, 3}}) {
    for (int i = 0; i < 6; ++i) request_fails_at(replicas);
    for (balancer::ReplicaIndex replica = 0; replica < 4; ++replica)
      EXPECT_FALSE(is_out(replica)) << replica << " of " << replicas.size();
  }
}

}  // namespace
}  // namespace weir::proxy::exchange
