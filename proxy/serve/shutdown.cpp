#include "proxy/serve/shutdown.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "config/values.hpp"
#include "metrics/moment.hpp"
#include "metrics/text.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::serve {
namespace {

constexpr std::chrono::milliseconds looks_every{20};
/// Connections that were cut are given up when none of them has ended for so long.
constexpr std::chrono::seconds give_up_after{30};
constexpr std::chrono::seconds tell_every{5};

}  // namespace

std::string shutdown_progress(const ShutdownLeft& left) {
  const bool one = left.connections == 1;
  auto text = fmt::format("{} {} left, {} on {}", metrics::counted(left.connections, "connection"), one ? "is" : "are",
                          metrics::counted(left.requests, "request"), one ? "it" : "them");
  return left.requests == 0 ? text : text + ", the oldest for " + std::to_string(left.oldest.count()) + " s";
}

Shutdown::Shutdown(boost::asio::io_context& context, exchange::Shared& shared, Loops loops, Listeners& listeners,
                   const ServiceManager& manager)
    : context_(context), shared_(shared), loops_(loops), listeners_(listeners), manager_(manager), timer_(context) {}

int Shutdown::run() {
  int status = 0;
  for (;;) {
    try {
      context_.run();
      return status;
    } catch (const std::exception& error) {
      if (std::exchange(status, 1) != 0) throw;
      fail(error.what());
    }
  }
}

void Shutdown::signalled(const std::string& signal) {
  if (!begun_) return begin(signal);
  if (shared_.cutting.load())
    return spdlog::warn("{}: weir is ending; {}", signal, shutdown_progress(left(Clock::now())));
  events::warn(events::What::weir, "", "{}, the second signal: stopping at once", signal);
  story_ += ", then " + signal + ": " + std::to_string(shared_.connections.load()) + " connections cut";
  cut();
}

/// The control thread cannot go on. Requests under way are cut, so that none is lost without a trace.
void Shutdown::fail(const std::string& what) {
  spdlog::critical("an error that weir cannot mend ends it: {}", what);
  const auto why = "an error (" + what + ')';
  if (begun_)
    story_ += ", then " + why;
  else
    note_begin(why);
  story_ += ": " + std::to_string(shared_.connections.load()) + " connections cut";
  cut();
}

void Shutdown::note_begin(const std::string& why) {
  begun_ = true;
  if (on_begin) on_begin();
  story_ = why;
  told_at_ = Clock::now();
  shared_.draining.store(true);
}

/// weir is not ready from now on, and every answer closes its connection. Clients come in for limits.drain_delay more,
/// until whoever sends them has seen that; where another weir has the socket too, they go there at once.
void Shutdown::begin(const std::string& signal) {
  const auto limits = shared_.fleet.snapshot()->settings.limits;
  const auto now = Clock::now();
  note_begin(signal);
  close_at_ = now + metrics::ticks(limits.drain_delay);
  until_ = close_at_ + metrics::ticks(limits.drain);
  listeners_.close_inherited();
  const auto when = listeners_.accepts_clients() ? "in " + config::format_number(limits.drain_delay.count()) + " s"
                                                 : std::string("from now on, for another weir takes them");
  events::info(events::What::weir, "", "{}: draining {} connections; no new ones {}, the last are cut {} s later",
               signal, shared_.connections.load(), when, limits.drain.count());
  manager_.stopping("draining: " + shutdown_progress(left(now)));
  tick();
}

void Shutdown::tick() {
  const auto now = Clock::now();
  const bool cutting = shared_.cutting.load();
  if (now >= close_at_ && !shared_.closing.load()) {
    listeners_.close_clients();
    shared_.closing.store(true);
  }
  const auto connections = shared_.connections.load();
  if (cutting && connections < uncut_) {
    uncut_ = connections;
    until_ = now + give_up_after;
  }
  const auto step =
      listeners_.accepts_clients() ? ShutdownStep::wait : shutdown_step(connections, now >= until_, cutting);
  if (connections == 0 && step == ShutdownStep::stop && !cutting) story_ += ", drained";
  if (step == ShutdownStep::stop && connections > 0) give_up(connections);
  if (step == ShutdownStep::stop) return context_.stop();
  if (step == ShutdownStep::cut) {
    events::warn(events::What::weir, "", "{} connections cut: limits.drain is over", connections);
    story_ += ", " + std::to_string(connections) + " connections cut as limits.drain was over";
    return cut();
  }
  tell_progress(now);
  timer_.expires_after(looks_every);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) tick();
  });
}

/// Ends all requests in flight, and stops when each has been told, counted and logged.
void Shutdown::cut() {
  listeners_.close_clients();
  shared_.closing.store(true);
  shared_.cutting.store(true);
  uncut_ = shared_.connections.load();
  until_ = Clock::now() + give_up_after;
  tick();
}

void Shutdown::give_up(std::size_t connections) {
  spdlog::error(
      "{} of the connections that were cut have not ended within {} s, and weir ends without them: requests "
      "on them are neither counted nor logged",
      connections, give_up_after.count());
  story_ += ", " + std::to_string(connections) + " of them given up";
}

void Shutdown::tell_progress(Clock::time_point now) {
  if (now - told_at_ < tell_every) return;
  told_at_ = now;
  const auto progress = shutdown_progress(left(now));
  spdlog::info("draining: {}", progress);
  manager_.status("draining: " + progress);
}

ShutdownLeft Shutdown::left(Clock::time_point now) const {
  ShutdownLeft left;
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
