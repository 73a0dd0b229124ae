#include "proxy/replica_log.hpp"

#include <spdlog/spdlog.h>

#include <system_error>

namespace weir::proxy {
namespace {

using metrics::Outcome;

bool says_it_works(Outcome outcome) {
  return outcome == Outcome::ok || outcome == Outcome::ok_empty || outcome == Outcome::client_error;
}

/// The client's credentials or its model's name may be wrong: that does not speak against the replica.
bool is_clients_mistake(unsigned status) { return status == 401 || status == 403 || status == 404; }

}  // namespace

std::string failure_reason(Outcome outcome, unsigned status) {
  switch (outcome) {
    case Outcome::upstream_error:
      if (status >= 300) return "status " + std::to_string(status);
      return status == 0 ? "an answer that is not HTTP" : "an error inside an answer of status " + std::to_string(status);
    case Outcome::upstream_reset:
      return status == 0 ? "the connection broke before an answer" : "the connection broke within an answer";
    case Outcome::truncated:
      return "an answer ended before it was complete";
    case Outcome::timeout:
      return status == 0 ? "no answer in time" : "an answer stood still for too long";
    case Outcome::replica_refused:
      return is_clients_mistake(status) ? "" : "status " + std::to_string(status);
    default:
      return "";
  }
}

void note_attempt(ReplicaRuntime& replica, const RelayMachine& machine, int connect_error, Moment now) {
  const bool again = machine.end() == AttemptEnd::stale || machine.end() == AttemptEnd::injection_refused;
  std::optional<std::string> line;
  if (!machine.done()) {
    if (connect_error == 0) return;  // The client left while weir was connecting.
    line = replica.failures.failed("cannot connect: " + std::generic_category().message(connect_error), now);
  } else if (again) {
    return;
  } else if (const auto why = failure_reason(machine.outcome(), machine.status_read()); !why.empty()) {
    line = replica.failures.failed(why, now);
  } else if (says_it_works(machine.outcome())) {
    line = replica.failures.went_well(now);
  }
  if (line) spdlog::warn("replica '{}' {}", replica.settings.name, *line);
}

}  // namespace weir::proxy
