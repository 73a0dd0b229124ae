// How fast a client takes what weir has for it, while it owes: from when bytes of an answer had no room in its socket
// until they have gone. A client that takes nothing for limits.client_stall, or less than limits.answer_rate over that
// time, has lost its place.
//
// A pace belongs to one thread. No clock is read; a look costs a system call.
#pragma once

#include <cstddef>
#include <optional>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/loop_shard.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/rate_window.hpp"

namespace weir::proxy::exchange {

class ClientPace {
 public:
  /// Until now the client had nothing to take: its stall and its rate count only from here on.
  void begin(metrics::Moment now, const net::Channel& client, const config::Limits& limits);
  /// Counts what the client has taken, now that so much more was written.
  void took(metrics::Moment now, std::size_t written, const net::Channel& client);
  /// Looks at the client. Returns the limit that it has hit, if any.
  std::optional<metrics::series::Limit> limit_hit(metrics::Moment now, const net::Channel& client,
                                                  const config::Limits& limits);
  /// Returns when the client is to be looked at: once a step of the window, or when it will be behind.
  metrics::Moment next_look(const config::Limits& limits) const;

 private:
  net::RateWindow taken_;  ///< So much the client's system has acknowledged.
  metrics::Moment progress_{}, looked_{};
  int unacknowledged_ = 0;  ///< So many bytes were unacknowledged at the last look.
};

}  // namespace weir::proxy::exchange
