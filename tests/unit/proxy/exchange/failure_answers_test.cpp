#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "proxy/exchange/failure_answers.hpp"
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
    EXPECT_EQ(answer.retry_after, row.status == 503 ? std::optional(std::chrono::milliseconds(1000)) : std::nullopt)
        << row.code;
  }
}

TEST(FailureAnswers, SayWhatTheReplicaDid) {
  expect(failure_answer("a", Outcome::timeout), 504, "timeout_error", "replica_timeout", "'a' did not answer in time");
  expect(failure_answer("a", Outcome::replica_refused), 503, "overloaded_error", "replica_refused", "'a' refused");
  expect(failure_answer("a", Outcome::upstream_reset), 502, "upstream_error", "replica_lost", "'a' broke off");
  expect(failure_answer("a", Outcome::upstream_error), 502, "upstream_error", "replica_failed", "not answer properly");
}

using Reason = balancer::Refused::Reason;

config::Pool pool_p() {
  config::Pool pool;
  pool.name = "p";
  pool.queue.requests = 7;
  pool.queue.bytes = 1000;
  return pool;
}

TEST(FailureAnswers, SayWhyThePoolTakesNoRequest) {
  const struct {
    Reason reason;
    bool up;
    unsigned status;
    const char *code, *part;
  } rows[]{
      {Reason::no_replica, false, 503, "no_replica", "pool 'p' has no replica: try again in 7 s"},
      {Reason::busy, true, 429, "overloaded", "every replica of pool 'p' is at its limit: try again in 7 s"},
      {Reason::queue_full, true, 429, "overloaded",
       "the queue of pool 'p' is full (queue = 7), and you have most waiting there: try again in 7 s"},
      {Reason::queue_bytes_full, true, 429, "overloaded",
       "the queue of pool 'p' is full (its bodies have 1000 bytes together), and you have most waiting there: try "
       "again in 7 s"},
      {Reason::too_late, true, 429, "overloaded", "would not have its turn in time: try again in 7 s"},
      {Reason::expired, true, 429, "overloaded", "no replica of pool 'p' had room in time: try again in 7 s"},
      {Reason::expired, false, 503, "no_replica",
       "no replica of pool 'p' is up, and none came back in time: try again"},
      {Reason::queue_full, false, 503, "no_replica", "no replica of pool 'p' is up: try again in 7 s"},
      {Reason::too_late, false, 503, "no_replica", "no replica of pool 'p' is up: try again in 7 s"},
  };
  for (const auto& row : rows) {
    const auto answer = refusal_answer({row.reason, 7}, pool_p(), row.up, 1);
    expect(answer, row.status, "overloaded_error", row.code, row.part);
    EXPECT_EQ(answer.retry_after, std::chrono::milliseconds(7000));
  }
  const auto too_long = refusal_answer({Reason::too_long, 5}, pool_p(), true, 1);
  expect(too_long, 400, "invalid_request_error", "context_length_exceeded", "'p'");
  EXPECT_EQ(too_long.retry_after, std::nullopt) << "it is too long tomorrow, too";
  EXPECT_EQ(http::stopping_answer().status, 503u);
}

TEST(FailureAnswers, SpreadWhenClientsComeBack) {
  const auto after = [](double spread) {
    return *refusal_answer({Reason::busy, 5}, pool_p(), true, spread).retry_after;
  };
  EXPECT_EQ(after(1), std::chrono::milliseconds(5000));
  EXPECT_EQ(after(1.25), std::chrono::milliseconds(6250));
  EXPECT_EQ(after(1.5), std::chrono::milliseconds(7500));
  const auto answer = refusal_answer({Reason::busy, 5}, pool_p(), true, 1.25);
  EXPECT_THAT(answer.error->message, HasSubstr("in 7 s")) << "not sooner than the header says";
}

TEST(FailureAnswers, SayWhichLimitBit) {
  using metrics::series::Limit;
  auto counted = pool_p(), of_replica = pool_p();
  counted.max_in_flight = 1;
  of_replica.replicas.resize(2);
  of_replica.replicas[1].max_in_flight = 1;
  EXPECT_EQ(limit_of(Reason::busy, counted), Limit::max_in_flight);
  EXPECT_EQ(limit_of(Reason::busy, of_replica), Limit::max_in_flight);
  EXPECT_EQ(limit_of(Reason::busy, pool_p()), Limit::max_queued_tokens);
  EXPECT_EQ(limit_of(Reason::queue_full, counted), Limit::queue);
  EXPECT_EQ(limit_of(Reason::queue_bytes_full, counted), Limit::queue);
  EXPECT_EQ(limit_of(Reason::too_late, counted), Limit::queue_time);
  EXPECT_EQ(limit_of(Reason::expired, counted), Limit::queue_time);
  EXPECT_EQ(limit_of(Reason::no_replica, counted), std::nullopt);
  EXPECT_EQ(limit_of(Reason::too_long, counted), std::nullopt);
}

TEST(ConnectFailure, IsATable) {
  using enum balancer::story::ConnectFailure;
  const std::pair<int, balancer::story::ConnectFailure> rows[]{
      {ECONNREFUSED, refused},   {ENOENT, refused},        {ETIMEDOUT, timed_out},
      {EAGAIN, backlog_full},    {EHOSTUNREACH, other},    {ECONNRESET, other},
      {EMFILE, local_shortage},  {ENFILE, local_shortage}, {EADDRNOTAVAIL, local_shortage},
      {ENOBUFS, local_shortage}, {ENOMEM, local_shortage}, {net::name_unknown, no_address}};
  for (const auto& [error, failure] : rows) EXPECT_EQ(connect_failure_of(error), failure) << error;
}

TEST(FailureReason, SaysWhatTheReplicaDid) {
  const struct {
    Outcome outcome;
    unsigned status;
    const char* reason;
  } cases[]{
      {Outcome::ok, 200, ""},
      {Outcome::ok_empty, 200, ""},
      {Outcome::client_error, 400, ""},
      {Outcome::client_abort, 200, ""},
      {Outcome::client_abort, 0, ""},
      {Outcome::upstream_error, 500, "status 500"},
      {Outcome::upstream_error, 302, "status 302"},
      {Outcome::upstream_error, 200, "an error inside an answer of status 200"},
      {Outcome::upstream_error, 0, "an answer that is not HTTP"},
      {Outcome::upstream_reset, 0, "the connection broke before an answer"},
      {Outcome::upstream_reset, 200, "the connection broke within an answer"},
      {Outcome::truncated, 200, "an answer ended before it was complete"},
      {Outcome::timeout, 0, "no answer in time"},
      {Outcome::timeout, 200, "an answer stood still for too long"},
      {Outcome::replica_refused, 429, "status 429"},
      {Outcome::replica_refused, 503, "status 503"},
      {Outcome::client_error, 401, ""},
      {Outcome::client_error, 403, ""},
      {Outcome::client_error, 404, ""},
  };
  for (const auto& [outcome, status, reason] : cases)
    EXPECT_EQ(failure_reason(outcome, status), reason) << name_of(outcome) << ' ' << status;
}

}  // namespace
}  // namespace weir::proxy::exchange
