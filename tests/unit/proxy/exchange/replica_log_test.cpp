#include "proxy/exchange/replica_log.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

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
