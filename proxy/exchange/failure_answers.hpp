// What weir answers itself if no replica's answer can be given: a sentence with the cause and, if there is one, the way
// out. These are pure functions.
#pragma once

#include <string>

#include "balancer/pool.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/http/own_answer.hpp"

namespace weir::proxy::exchange {

/// Answers that no replica of the pool may take the request now, or ever.
http::OwnAnswer refusal_answer(const balancer::Refused& refused, const std::string& pool);

/// Answers that weir could connect to no replica. `replica` is the last one that was tried. `error`: see
/// net::connect_error_text().
http::OwnAnswer unconnected_answer(const std::string& replica, int error);

/// Answers that two replicas were lost at work on the request, `replica` last.
http::OwnAnswer suspect_answer(const std::string& replica);

/// Answers that the last replica that was tried gave nothing to send on; `outcome` says what it did.
http::OwnAnswer failure_answer(const std::string& replica, metrics::Outcome outcome);

}  // namespace weir::proxy::exchange
