#include "proxy/failure_answers.hpp"

#include <cerrno>

#include "proxy/upstream.hpp"

namespace weir::proxy {
namespace {

using metrics::Outcome;

OwnAnswer own_want_answer(const std::string& replica, int error) {
  const bool descriptors = error == EMFILE || error == ENFILE;
  auto answer =
      descriptors
          ? error_answer(503, "overloaded_error", "no_descriptor",
                         "weir has no file descriptor left for a connection to replica '" + replica +
                             "': raise its limit of open files, or lower limits.connections")
          : error_answer(503, "overloaded_error", "no_socket",
                         "weir could not open a connection to replica '" + replica + "': " + connect_error_text(error) +
                             "; raise limits.idle_upstream_connections, so that connections are used again");
  answer.retry_after = 1;
  return answer;
}

}  // namespace

OwnAnswer refusal_answer(const balancer::Refused& refused, const std::string& pool) {
  switch (refused.reason) {
    case balancer::Refused::Reason::too_long:
      return error_answer(400, "invalid_request_error", "context_length_exceeded",
                          "the request is longer than any replica of pool '" + pool +
                              "' can hold: shorten the prompt or lower max_tokens");
    case balancer::Refused::Reason::no_replica:
      return error_answer(503, "overloaded_error", "no_replica", "pool '" + pool + "' has no replica");
    case balancer::Refused::Reason::busy:
      break;
  }
  auto answer = error_answer(429, "overloaded_error", "overloaded",
                             "every replica of pool '" + pool + "' is at its limit: try again in " +
                                 std::to_string(refused.retry_after) + " s");
  answer.retry_after = refused.retry_after;
  return answer;
}

OwnAnswer unconnected_answer(const std::string& replica, int error) {
  if (is_own_want(error)) return own_want_answer(replica, error);
  if (error == ETIMEDOUT)
    return error_answer(504, "timeout_error", "replica_timeout",
                        "replica '" + replica + "' could not be connected to within limits.connect");
  return error_answer(502, "upstream_error", "replica_unreachable",
                      "replica '" + replica + "' could not be reached: " + connect_error_text(error));
}

OwnAnswer failure_answer(const std::string& replica, Outcome outcome) {
  switch (outcome) {
    case Outcome::timeout:
      return error_answer(504, "timeout_error", "replica_timeout", "replica '" + replica + "' did not answer in time");
    case Outcome::replica_refused:
      return error_answer(503, "overloaded_error", "replica_refused",
                          "replica '" + replica + "' refused the request, and no other can take it now");
    case Outcome::upstream_reset:
      return error_answer(502, "upstream_error", "replica_lost",
                          "replica '" + replica + "' broke off before it answered");
    default:
      return error_answer(502, "upstream_error", "replica_failed", "replica '" + replica + "' did not answer properly");
  }
}

}  // namespace weir::proxy
