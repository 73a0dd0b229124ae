#include "proxy/exchange/failure_answers.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "balancer/story/attempt.hpp"
#include "proxy/events/events.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

constexpr std::chrono::seconds soon{1};

http::OwnAnswer local_shortage_answer(const std::string& replica, int error) {
  if (error == EMFILE || error == ENFILE)
    return http::overloaded_answer(503, "no_descriptor",
                                   "weir has no file descriptor left for a connection to replica '" + replica +
                                       "': raise its limit of open files, or lower limits.connections",
                                   soon);
  return http::overloaded_answer(503, "no_socket",
                                 "weir could not open a connection to replica '" + replica +
                                     "': " + net::connect_error_text(error) +
                                     "; raise limits.upstream_idle, so that connections are used again",
                                 soon);
}

std::string why_not_now(balancer::Refused::Reason reason, const config::Pool& settings) {
  using Reason = balancer::Refused::Reason;
  const auto& pool = settings.name;
  const auto full = [&](const std::string& limit) {
    return "the queue of pool '" + pool + "' is full (" + limit + "), and you have most waiting there";
  };
  switch (reason) {
    case Reason::queue_full:
      return full("queue = " + std::to_string(settings.queue.requests));
    case Reason::queue_bytes_full:
      return full("its bodies have " + std::to_string(settings.queue.bytes) + " bytes together");
    case Reason::too_late:
      return "so much waits for pool '" + pool + "' that the request would not have its turn in time";
    case Reason::expired:
      return "no replica of pool '" + pool + "' had room in time";
    default:
      return "every replica of pool '" + pool + "' is at its limit";
  }
}

}  // namespace

std::optional<metrics::series::Limit> limit_of(balancer::Refused::Reason reason, const config::Pool& pool) {
  using Reason = balancer::Refused::Reason;
  using metrics::series::Limit;
  switch (reason) {
    case Reason::busy: {
      const bool counted = pool.max_in_flight || std::ranges::any_of(pool.replicas, [](const config::Replica& replica) {
                             return replica.max_in_flight.has_value();
                           });
      return counted ? Limit::max_in_flight : Limit::max_queued_tokens;
    }
    case Reason::queue_full:
    case Reason::queue_bytes_full:
      return Limit::queue;
    case Reason::too_late:
    case Reason::expired:
      return Limit::queue_time;
    case Reason::no_replica:
    case Reason::too_long:
      return std::nullopt;
  }
  return std::nullopt;
}

http::OwnAnswer refusal_answer(const balancer::Refused& refused, const config::Pool& pool, bool up, double spread) {
  using Reason = balancer::Refused::Reason;
  const auto& name = pool.name;
  if (refused.reason == Reason::too_long)
    return http::error_answer(
        400, "invalid_request_error", "context_length_exceeded",
        "the prompt is longer than any replica of pool '" + name + "' may hold (max_context): shorten it");
  const auto wait = std::chrono::milliseconds(std::llround(refused.retry_after * spread * 1000));
  const auto again = ": try again in " + std::to_string(std::chrono::ceil<std::chrono::seconds>(wait).count()) + " s";
  if (refused.reason == Reason::no_replica)
    return http::overloaded_answer(503, "no_replica", "pool '" + name + "' has no replica" + again, wait);
  if (up) return http::overloaded_answer(429, "overloaded", why_not_now(refused.reason, pool) + again, wait);
  const auto waited = refused.reason == Reason::expired ? ", and none came back in time" : "";
  return http::overloaded_answer(503, "no_replica", "no replica of pool '" + name + "' is up" + waited + again, wait);
}

http::OwnAnswer unconnected_answer(const std::string& replica, int error) {
  if (net::is_local_shortage(error)) return local_shortage_answer(replica, error);
  if (error == ETIMEDOUT)
    return http::error_answer(504, "timeout_error", "replica_timeout",
                              "replica '" + replica + "' could not be connected to within limits.connect");
  return http::error_answer(502, "upstream_error", "replica_unreachable",
                            "replica '" + replica + "' could not be reached: " + net::connect_error_text(error));
}

http::OwnAnswer poison_answer(const std::string& replica) {
  const std::string what =
      replica.empty()
          ? "two replicas broke off or stood still within the last minute while they worked on this request"
          : "a replica broke off or stood still for the second time while it worked on this request, now '" + replica +
                "'";
  auto answer = http::error_answer(502, "upstream_error", "replica_lost",
                                   what + ", so weir does not send it again: the request may be what ends them");
  answer.forbids_retry = true;
  return answer;
}

http::OwnAnswer failure_answer(const std::string& replica, Outcome outcome) {
  const auto answer = [&](unsigned status, std::string_view type, std::string_view code, const std::string& what) {
    return http::error_answer(status, type, code, "replica '" + replica + "' " + what);
  };
  switch (outcome) {
    case Outcome::timeout:
      return answer(504, "timeout_error", "replica_timeout", "did not answer in time");
    case Outcome::replica_refused:
      return answer(503, "overloaded_error", "replica_refused", "refused the request, and no other can take it now");
    case Outcome::rejected: {
      auto drained = answer(503, "overloaded_error", "replica_drained",
                            "is being taken out, and its time to drain (limits.drain) is over: send the request again");
      drained.retry_after = soon;
      return drained;
    }
    case Outcome::upstream_reset:
      return answer(502, "upstream_error", "replica_lost", "broke off before it answered");
    default:
      return answer(502, "upstream_error", "replica_failed", "did not answer properly");
  }
}

namespace {

/// 401, 403 and 404 show nothing: the client's credentials or its model's name may be wrong, or the replica's.
bool says_it_works(Outcome outcome, unsigned status) {
  return outcome == Outcome::ok || outcome == Outcome::ok_empty ||
         (outcome == Outcome::client_error && !balancer::story::needs_second_opinion(status));
}

void tell_failure(const fleet::Replica& replica, const std::string& line) {
  events::warn(events::What::failure, replica.settings.name, "replica '{}' {}", replica.settings.name, line);
}

}  // namespace

std::string failure_reason(Outcome outcome, unsigned status) {
  switch (outcome) {
    case Outcome::upstream_error:
      if (status >= 300) return "status " + std::to_string(status);
      return status == 0 ? "an answer that is not HTTP"
                         : "an error inside an answer of status " + std::to_string(status);
    case Outcome::upstream_reset:
      return status == 0 ? "the connection broke before an answer" : "the connection broke within an answer";
    case Outcome::truncated:
      return "an answer ended before it was complete";
    case Outcome::timeout:
      return status == 0 ? "no answer in time" : "an answer stood still for too long";
    case Outcome::replica_refused:
      return "status " + std::to_string(status);
    default:
      return "";
  }
}

void note_attempt(const fleet::Replica& replica, const balancer::story::AttemptOver& over, Moment now) {
  using balancer::story::End;
  if (over.end == End::stale || over.end == End::option_refused) return;
  std::optional<std::string> line;
  const auto status = over.status;
  if (const auto why = failure_reason(over.verdict.outcome, status); !why.empty()) {
    line = replica.state->failures.failed(why, now);
  } else if (says_it_works(over.verdict.outcome, status)) {
    line = replica.state->failures.went_well(now);
  }
  if (line) tell_failure(replica, *line);
}

void note_unconnected(const fleet::Replica& replica, int error, Moment now) {
  const auto line = replica.state->failures.failed("cannot connect: " + net::connect_error_text(error), now);
  if (line) tell_failure(replica, *line);
}

void note_local_shortage(fleet::FailureNotes& shortages, int error, Moment now) {
  if (const auto line =
          shortages.failed("no connection to a replica could be opened: " + net::connect_error_text(error), now))
    events::warn(events::What::failure, "", "weir itself {}", *line);
}

void note_local_recovery(fleet::FailureNotes& shortages, Moment now) {
  if (const auto line = shortages.went_well(now)) events::warn(events::What::failure, "", "weir itself {}", *line);
}

void note_option_refused(const fleet::Replica& replica) {
  events::warn(events::What::engine, replica.settings.name,
               "replica '{}' refuses stream_options: weir no longer asks it for usage, its token counts stay unknown",
               replica.settings.name);
}

void note_poison(std::atomic<Moment>& last_line, const std::string& request, const std::string& replica, Moment now) {
  auto last = last_line.load(std::memory_order_relaxed);
  if (now - last < fleet::FailureNotes::between_lines || !last_line.compare_exchange_strong(last, now)) return;
  events::warn(
      events::What::failure, replica,
      "request {} may end replicas: for the second time one broke off while it worked on it, now '{}', so it is not "
      "tried again; such requests have \"suspect\":true in the request log",
      request, replica);
}

}  // namespace weir::proxy::exchange
