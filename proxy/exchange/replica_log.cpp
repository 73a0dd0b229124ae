#include "proxy/exchange/replica_log.hpp"

#include "balancer/story/status.hpp"
#include "proxy/events/events.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

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
