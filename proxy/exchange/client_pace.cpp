#include "proxy/exchange/client_pace.hpp"

#include <algorithm>
#include <cstdint>

#include "metrics/ticks.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::ticks;
using metrics::series::Limit;

/// The kernel is asked once a step, so as much as a step's bytes may be counted a step late.
std::size_t least_rate(const config::Limits& limits) {
  return limits.answer_rate - limits.answer_rate / net::RateWindow::steps;
}

}  // namespace

void ClientPace::begin(metrics::Moment now, const net::Channel& client, const config::Limits& limits) {
  taken_.begin(now, ticks(limits.client_stall));
  progress_ = looked_ = now;
  unacknowledged_ = client.unacknowledged();
}

/// A socket turns writable only when much of what the kernel holds has gone; the bytes left there show sooner who
/// stands still.
void ClientPace::took(metrics::Moment now, std::size_t written, const net::Channel& client) {
  const int left = client.unacknowledged();
  const auto there_were = static_cast<std::int64_t>(written) + unacknowledged_;
  taken_.add(now, static_cast<std::size_t>(std::max<std::int64_t>(there_were - left, 0)));
  if (written > 0 || left < unacknowledged_) progress_ = now;
  unacknowledged_ = left;
  looked_ = now;
}

std::optional<Limit> ClientPace::limit_hit(metrics::Moment now, const net::Channel& client,
                                           const config::Limits& limits) {
  took(now, 0, client);
  if (now - progress_ >= ticks(limits.client_stall)) return Limit::client_stall;
  if (taken_.behind_at(least_rate(limits)) <= now) return Limit::answer_rate;
  return std::nullopt;
}

metrics::Moment ClientPace::next_look(const config::Limits& limits) const {
  const auto step = ticks(limits.client_stall) / static_cast<int>(net::RateWindow::steps);
  return std::min(looked_ + step, taken_.behind_at(least_rate(limits)));
}

}  // namespace weir::proxy::exchange
