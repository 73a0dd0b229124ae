// Sends one request to a replica and reads its answer, on a connection of its own. It blocks, and each step has a time
// limit. Its moments come from the same clock as the data path's, so that the probe measures what weir would measure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/settings.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::probe {

struct ProbeLimits {
  std::chrono::steady_clock::duration connect;
  std::chrono::steady_clock::duration answer;  ///< From the connection to the end of the answer.
};

/// Where a replica is, and the other addresses of its name.
struct Addresses {
  net::Destination first;
  std::vector<net::Address> others;
};

/// Returns the url's path, or the addresses of its host, or a sentence that says why there is none. It abandons a
/// look-up that takes longer than `limit`.
std::variant<Addresses, std::string> addresses_of(const config::ReplicaUrl& url,
                                                  const std::optional<config::ListenAddress>& nameserver,
                                                  std::chrono::steady_clock::duration limit);

/// The address that was tried last comes first from then on.
fleet::QuestionResult exchange_with(Addresses& to, const config::ReplicaUrl& url, const fleet::Question& question,
                                    const ProbeLimits& limits, config::ReadClock clock, fleet::AnswerReader& reader);

}  // namespace weir::proxy::probe
