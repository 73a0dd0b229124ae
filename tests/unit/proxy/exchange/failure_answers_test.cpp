#include "proxy/exchange/failure_answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using ::testing::HasSubstr;

void expect(const http::OwnAnswer& answer, unsigned status, const char* type, const char* code, const char* part) {
  EXPECT_EQ(answer.status, status) << code;
  ASSERT_TRUE(answer.error) << code;
  EXPECT_EQ(answer.error->type, type) << code;
  EXPECT_EQ(answer.error->code, code);
  EXPECT_THAT(answer.error->message, HasSubstr(part));
}

TEST(FailureAnswers, SayWhyNoConnectionCameAboutAndWhoseFaultThatIs) {
  const struct {
    int error;
    unsigned status;
    const char *type, *code, *part;
  } rows[]{
      {ECONNREFUSED, 502, "upstream_error", "replica_unreachable",
       "replica 'a' could not be reached: Connection refused"},
      {EHOSTUNREACH, 502, "upstream_error", "replica_unreachable", "No route to host"},
      {net::name_unknown, 502, "upstream_error", "replica_unreachable", "its host name could not be resolved"},
      {ETIMEDOUT, 504, "timeout_error", "replica_timeout", "limits.connect"},
      {EMFILE, 503, "overloaded_error", "no_descriptor", "limit of open files"},
      {ENFILE, 503, "overloaded_error", "no_descriptor", "limit of open files"},
      {EADDRNOTAVAIL, 503, "overloaded_error", "no_socket", "Cannot assign requested address"},
  };
  for (const auto& row : rows) {
    const auto answer = unconnected_answer("a", row.error);
    expect(answer, row.status, row.type, row.code, row.part);
    EXPECT_EQ(answer.retry_after, row.status == 503 ? std::optional<unsigned>(1) : std::nullopt) << row.code;
  }
}

TEST(FailureAnswers, SayWhatTheReplicaDid) {
  expect(failure_answer("a", Outcome::timeout), 504, "timeout_error", "replica_timeout", "'a' did not answer in time");
  expect(failure_answer("a", Outcome::replica_refused), 503, "overloaded_error", "replica_refused", "'a' refused");
  expect(failure_answer("a", Outcome::upstream_reset), 502, "upstream_error", "replica_lost", "'a' broke off");
  expect(failure_answer("a", Outcome::upstream_error), 502, "upstream_error", "replica_failed", "not answer properly");
}

TEST(FailureAnswers, SayWhyThePoolTakesNoRequest) {
  using Reason = balancer::Refused::Reason;
  expect(refusal_answer({Reason::too_long, 5}, "p"), 400, "invalid_request_error", "context_length_exceeded", "'p'");
  expect(refusal_answer({Reason::no_replica, 5}, "p"), 503, "overloaded_error", "no_replica", "'p' has no replica");
  const auto busy = refusal_answer({Reason::busy, 7}, "p");
  expect(busy, 429, "overloaded_error", "overloaded", "try again in 7 s");
  EXPECT_EQ(busy.retry_after, 7u);
}

}  // namespace
}  // namespace weir::proxy::exchange
