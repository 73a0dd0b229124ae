// Judges an attempt by what was seen of it, as a pure table. Nothing here knows a socket, a clock or a client.
#pragma once

#include <optional>

#include "balancer/blame.hpp"
#include "balancer/lease.hpp"
#include "balancer/story/end.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer::story {

/// The facts of an attempt when its replica's work has ended.
struct AttemptFacts {
  End end = End::client_left;
  unsigned status = 0;  ///< 0 if no head was read.
  metrics::Api api = metrics::Api::other;
  bool body_is_read = false;    ///< The form of the body is known, so that tokens in it show.
  bool sent = false;            ///< A byte of the request was sent.
  bool client_has_all = false;  ///< The client left once the end marker, and all before it, had been written to it.
  bool is_json = false;         ///< The body was read as one JSON document of an API that weir knows.
  bool is_page = false;         ///< The content type is that of an HTML page, and the API is known.
};

struct Verdict {
  metrics::Outcome outcome = metrics::Outcome::upstream_error;
  std::optional<metrics::Phase> phase{};  ///< Set with client_abort, and where a drain cut the request.
  Blame blame = Blame::nobody;            ///< Whatever counts against a replica derives from it.
};

/// Judges an attempt. The first cause wins: an error that the replica reported in its stream is not undone by what came
/// later.
Verdict verdict_of(const AttemptFacts& facts, const metrics::record::Answer& answer);

/// Judges an attempt without a connection.
Verdict verdict_of_connecting(ConnectFailure failure);

/// Returns why the attempt's lease ends.
EndCause cause_of(const Verdict& verdict);

/// Judges an attempt whose error answer was given up for another replica's.
Verdict verdict_of_given_up_error(unsigned status);

/// Returns whose fault such an end was. `status` is the replica's; 0 if it gave none. A second replica may prove this
/// wrong: see HealthEvidence and Evidence.
Blame blame_of(metrics::Outcome outcome, unsigned status);

}  // namespace weir::balancer::story
