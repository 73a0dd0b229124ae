#include "proxy/serve/drain.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "config/quantity.hpp"
#include "metrics/ticks.hpp"
#include "proxy/serve/drain_step.hpp"

namespace weir::proxy::serve {
namespace {

constexpr std::chrono::milliseconds drain_looks_every{20};
/// Loops need this long to notice that all has ended (a tick), and to write what they write then.
constexpr std::chrono::milliseconds cutting_time{500};
constexpr std::chrono::seconds tell_every{5};

std::string counted(std::size_t number, const std::string& thing, const std::string& one, const std::string& many) {
  return std::to_string(number) + " " + thing + (number == 1 ? one : many);
}

}  // namespace

std::string drain_progress(const DrainLeft& left) {
  auto text = counted(left.connections, "connection", " is left, ", "s are left, ") +
              counted(left.requests, "request", "", "s") + " on " + (left.connections == 1 ? "it" : "them");
  return left.requests == 0 ? text : text + ", the oldest for " + std::to_string(left.oldest.count()) + " s";
}

Drain::Drain(boost::asio::io_context& context, exchange::Shared& shared, Loops loops, Listeners& listeners,
             const ServiceManager& manager)
    : context_(context), shared_(shared), loops_(loops), listeners_(listeners), manager_(manager), timer_(context) {}

void Drain::signalled(const std::string& signal) {
  if (!begun_) return begin(signal);
  spdlog::warn("{}, the second signal: stopping at once", signal);
  story_ += ", then " + signal + ": " + std::to_string(shared_.connections.load()) + " connections cut";
  cut();
}

/// weir is not ready from now on, and every answer closes its connection. Clients come in for limits.drain_delay more,
/// until whoever sends them has seen that; where another weir has the socket too, they go there at once.
void Drain::begin(const std::string& signal) {
  const auto limits = shared_.fleet.world()->settings.limits;
  const auto now = Clock::now();
  begun_ = true;
  story_ = signal;
  shared_.draining.store(true);
  close_at_ = now + metrics::ticks(limits.drain_delay);
  until_ = close_at_ + metrics::ticks(limits.drain);
  told_at_ = now;
  listeners_.close_inherited();
  const auto when = listeners_.accepts_clients() ? "in " + config::format_number(limits.drain_delay.count()) + " s"
                                                 : std::string("from now on, for another weir takes them");
  spdlog::info("{}: draining {} connections; no new ones {}, the last are cut {} s later", signal,
               shared_.connections.load(), when, limits.drain.count());
  manager_.stopping("draining: " + drain_progress(left(now)));
  look();
}

void Drain::look() {
  const auto now = Clock::now();
  const bool cutting = shared_.cutting.load();
  if (now >= close_at_ && !shared_.closing.load()) {
    listeners_.close_clients();
    shared_.closing.store(true);
  }
  const auto connections = shared_.connections.load();
  const auto step = listeners_.accepts_clients() ? DrainStep::wait : drain_step(connections, now >= until_, cutting);
  if (connections == 0 && step == DrainStep::stop && !cutting) story_ += ", drained";
  if (step == DrainStep::stop) return context_.stop();
  if (step == DrainStep::cut) {
    spdlog::warn("{} connections cut: limits.drain is over", connections);
    story_ += ", " + std::to_string(connections) + " connections cut as limits.drain was over";
    return cut();
  }
  tell_progress(now);
  timer_.expires_after(drain_looks_every);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

/// Ends all requests in flight, so that each is told, counted and logged; then stops.
void Drain::cut() {
  listeners_.close_clients();
  shared_.closing.store(true);
  shared_.cutting.store(true);
  until_ = Clock::now() + cutting_time;
  look();
}

void Drain::tell_progress(Clock::time_point now) {
  if (now - told_at_ < tell_every) return;
  told_at_ = now;
  const auto progress = drain_progress(left(now));
  spdlog::info("draining: {}", progress);
  manager_.status("draining: " + progress);
}

DrainLeft Drain::left(Clock::time_point now) const {
  DrainLeft left;
  left.connections = shared_.connections.load();
  auto oldest = now;
  for (const auto& loop : loops_) {
    left.requests += loop->streams.load(std::memory_order_relaxed);
    const Clock::duration since(loop->oldest_running.load(std::memory_order_relaxed));
    if (since.count() != 0) oldest = std::min(oldest, Clock::time_point(since));
  }
  left.oldest = std::chrono::duration_cast<std::chrono::seconds>(now - oldest);
  return left;
}

}  // namespace weir::proxy::serve
