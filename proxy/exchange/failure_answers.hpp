// weir's own error answers, where no replica's answer can be given: a sentence with the cause and, if there is one, the
// way out. These are pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/pool.hpp"
#include "config/settings.hpp"
#include "metrics/series/loop_shard.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/http/own_answer.hpp"

namespace weir::proxy::exchange {

/// Tells the client to come back after `wait`.
http::OwnAnswer overloaded_answer(unsigned status, std::string_view code, std::string_view sentence,
                                  std::chrono::milliseconds wait);

/// Answers that no replica of the pool may take the request now, or ever. `up`: one is up. Clients sleep as long as
/// they are told to, to the millisecond; `spread`, from 1 to 1.5, keeps those that were refused together from coming
/// back together.
http::OwnAnswer refusal_answer(const balancer::Refused& refused, const config::Pool& pool, bool up, double spread);

/// Returns which limit of the settings bit.
std::optional<metrics::series::Limit> limit_of(balancer::Refused::Reason reason, const config::Pool& pool);

/// Answers that weir stops, and that the request has had its time.
http::OwnAnswer stopping_answer();

/// Answers that the client's address has too many requests under way.
http::OwnAnswer address_busy_answer();

/// Answers that weir itself failed.
http::OwnAnswer broken_down_answer();

/// Answers that weir could connect to no replica. `replica` is the last one that was tried. `error`: see
/// net::connect_error_text().
http::OwnAnswer unconnected_answer(const std::string& replica, int error);

/// Answers that two replicas were lost at work on the request, `replica` last.
http::OwnAnswer poison_answer(const std::string& replica);

/// Answers that the last replica that was tried gave nothing to send on; `outcome` says what it did.
http::OwnAnswer failure_answer(const std::string& replica, metrics::Outcome outcome);

}  // namespace weir::proxy::exchange
