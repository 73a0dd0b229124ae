#include "proxy/exchange/replica_signs.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;
using metrics::Outcome;

AttemptResult ended(AttemptEnd end, Outcome outcome, unsigned status) {
  AttemptResult result;
  result.end = end;
  result.verdict.outcome = outcome;
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
      {refused, Outcome::upstream_error, 404, Sign::client_error},
      {answered, Outcome::replica_refused, 404, Sign::client_error},
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
      {ECONNREFUSED, Sign::refused},    {ETIMEDOUT, Sign::connect_timed_out},
      {EHOSTUNREACH, Sign::failed},     {EMFILE, std::nullopt},
      {ENFILE, std::nullopt},           {EADDRNOTAVAIL, std::nullopt},
      {net::name_unknown, std::nullopt}};
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

}  // namespace
}  // namespace weir::proxy::exchange
