// One request to a replica and its answer, on a connection of its own, blocking, each step within a time limit.
//
// For the probe only; not the data path. Yet moments come from the same clock as there, so that what is measured is
// what weir would measure.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <variant>

#include "config/settings.hpp"
#include "proxy/fleet/question.hpp"

namespace weir::proxy::probe {

struct ProbeLimits {
  std::chrono::steady_clock::duration connect;
  std::chrono::steady_clock::duration answer;  ///< From the connection to the end of the answer.
};

/// The first address of a host, or a sentence why there is none. A look-up that takes longer than `limit` is left
/// behind.
std::variant<boost::asio::ip::tcp::endpoint, std::string> address_of(const config::ReplicaUrl& url,
                                                                     std::chrono::steady_clock::duration limit);

fleet::Asked exchange_with(const boost::asio::ip::tcp::endpoint& endpoint, const config::ReplicaUrl& url,
                           const fleet::Question& question, const ProbeLimits& limits, config::ReadClock clock,
                           fleet::AnswerReader& reader);

}  // namespace weir::proxy::probe
