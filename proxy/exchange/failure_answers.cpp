#include "proxy/exchange/failure_answers.hpp"
#include "proxy/net/connect.hpp"

#include <cerrno>

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

http::OwnAnswer local_shortage_answer(const std::string& replica, int error) {
  const bool descriptors = error == EMFILE || error == ENFILE;
  auto answer =
      descriptors
          ? http::error_answer(503, "overloaded_error", "no_descriptor",
                               "weir has no file descriptor left for a connection to replica '" + replica +
                                   "': raise its limit of open files, or lower limits.connections")
          : http::error_answer(503, "overloaded_error", "no_socket",
                               "weir could not open a connection to replica '" + replica +
                                   "': " + net::connect_error_text(error) +
                                   "; raise limits.idle_upstream_connections, so that connections are used again");
  answer.retry_after = 1;
  return answer;
}

}  // namespace

http::OwnAnswer refusal_answer(const balancer::Refused& refused, const std::string& pool) {
  switch (refused.reason) {
    case balancer::Refused::Reason::too_long:
      return http::error_answer(400, "invalid_request_error", "context_length_exceeded",
                                "the request is longer than any replica of pool '" + pool +
                                    "' can hold: shorten the prompt or lower max_tokens");
    case balancer::Refused::Reason::no_replica:
      return http::error_answer(503, "overloaded_error", "no_replica", "pool '" + pool + "' has no replica");
    default:
      break;
  }
  auto answer = http::error_answer(429, "overloaded_error", "overloaded",
                                   "every replica of pool '" + pool + "' is at its limit: try again in " +
                                       std::to_string(refused.retry_after) + " s");
  answer.retry_after = refused.retry_after;
  return answer;
}

http::OwnAnswer unconnected_answer(const std::string& replica, int error) {
  if (net::is_local_shortage(error)) return local_shortage_answer(replica, error);
  if (error == ETIMEDOUT)
    return http::error_answer(504, "timeout_error", "replica_timeout",
                              "replica '" + replica + "' could not be connected to within limits.connect");
  return http::error_answer(502, "upstream_error", "replica_unreachable",
                            "replica '" + replica + "' could not be reached: " + net::connect_error_text(error));
}

http::OwnAnswer suspect_answer(const std::string& replica) {
  return http::error_answer(502, "upstream_error", "replica_lost",
                            "a second replica, '" + replica +
                                "', broke off while it worked on this request, so weir tries no third one: the request "
                                "may be what ends them");
}

http::OwnAnswer failure_answer(const std::string& replica, Outcome outcome) {
  switch (outcome) {
    case Outcome::timeout:
      return http::error_answer(504, "timeout_error", "replica_timeout",
                                "replica '" + replica + "' did not answer in time");
    case Outcome::replica_refused:
      return http::error_answer(503, "overloaded_error", "replica_refused",
                                "replica '" + replica + "' refused the request, and no other can take it now");
    case Outcome::upstream_reset:
      return http::error_answer(502, "upstream_error", "replica_lost",
                                "replica '" + replica + "' broke off before it answered");
    default:
      return http::error_answer(502, "upstream_error", "replica_failed",
                                "replica '" + replica + "' did not answer properly");
  }
}

}  // namespace weir::proxy::exchange
