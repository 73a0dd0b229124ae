// The end of weir after TERM: no new connections after a while, requests finish, and the log says how far it is.
//
// Requests that are cut end one after another, each with its answer, its count and its line in the log. weir waits for
// all of them, however many there are and however slow the machine is. Connections that do not end at all are given up
// after a while, and said.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "proxy/exchange/loop.hpp"
#include "proxy/serve/listeners.hpp"
#include "proxy/serve/start.hpp"

namespace weir::proxy::serve {

/// The work left while weir drains.
struct ShutdownLeft {
  std::size_t connections = 0, requests = 0;
  std::chrono::seconds oldest{};  ///< The request that was received first is so old.
};

/// "12 connections are left, 8 requests on them, the oldest for 34 s".
std::string shutdown_progress(const ShutdownLeft& left);

/// The next step of the end.
enum class ShutdownStep : std::uint8_t {
  wait,  ///< Streams may still finish.
  cut,   ///< Requests that are left end, and are told, counted and logged.
  stop,  ///< The drain is over.
};

/// `left`: client connections. `late`: the time for this is over; once weir cuts, no connection has ended for long.
constexpr ShutdownStep shutdown_step(std::size_t left, bool late, bool cutting) {
  if (left == 0) return ShutdownStep::stop;
  if (!late) return ShutdownStep::wait;
  return cutting ? ShutdownStep::stop : ShutdownStep::cut;
}

class Shutdown {
 public:
  using Loops = std::span<const std::unique_ptr<exchange::Loop>>;

  Shutdown(boost::asio::io_context& context, exchange::Shared& shared, Loops loops, Listeners& listeners,
           const ServiceManager& manager);

  /// Called once, before anything else ends, whatever begins the end.
  std::function<void()> on_begin;

  /// Runs the context until the end is over. An exception of a handler ends weir as a second signal does; if another
  /// one follows, it is thrown. Returns the program's exit status: 1 after an exception.
  int run();
  /// TERM or INT: the first one drains, a second one cuts. When it is over, the context stops.
  void signalled(const std::string& signal);
  bool begun() const { return begun_; }
  /// How it went, for the last line of the log; "" before it begins.
  const std::string& story() const { return story_; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const std::string& signal);
  void note_begin(const std::string& why);
  void fail(const std::string& what);
  void tick();
  void cut();
  void give_up(std::size_t connections);
  void tell_progress(Clock::time_point now);
  ShutdownLeft left(Clock::time_point now) const;

  boost::asio::io_context& context_;
  exchange::Shared& shared_;
  const Loops loops_;
  Listeners& listeners_;
  const ServiceManager& manager_;
  boost::asio::steady_timer timer_;
  bool begun_ = false;
  std::size_t uncut_ = 0;  ///< So many connections were left when one of them last ended.
  Clock::time_point close_at_{}, until_{}, told_at_{};
  std::string story_;
};

}  // namespace weir::proxy::serve
