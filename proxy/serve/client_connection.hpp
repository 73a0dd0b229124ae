// A client's connection as its session uses it: it waits for bytes or room with one deadline, reads in small steps, and
// closes so that the client can read the last answer. Without a deadline, while the request is with a replica, it looks
// every 5 s whether the client has vanished (net/channel), and breaks the connection off then.
//
// Only the loop's thread uses a connection, for one wait at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>

#include "metrics/series/shard.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/tls/tls_channel.hpp"
#include "proxy/serve/listeners.hpp"

namespace weir::proxy::serve {

class ClientConnection final : net::Timed {
 public:
  enum class ReadResult : std::uint8_t { bytes, nothing, end };

  ClientConnection(exchange::Loop& loop, std::unique_ptr<net::Channel> channel);

  net::Channel& channel() { return *channel_; }
  /// The client has sent these bytes, and nobody has used them yet.
  std::string& unread() { return unread_; }
  /// Keeps these bytes, the beginning of a following request, and pays for them from limits.buffer_memory until
  /// pay_no_more().
  void keep(std::string_view following);
  void pay_no_more() { budget_hold_.set(0); }
  /// Drops the body behind this head. Returns false if not all of it has come: the connection is of no further use.
  bool drop_body(const http::RequestHead& head);
  metrics::Moment last_arrival{};  ///< When the kernel received the bytes of the last read.

  /// Sets the one deadline. An `idle` connection is closed at once when weir closes such connections.
  void set_deadline(metrics::Moment at, bool idle = false);
  /// Ends the wait as if the deadline had passed. The waiter goes on after the current handler, whose bytes may lie in
  /// the loop's buffer.
  void stop_waiting();
  bool timed_out() const { return timed_out_; }
  /// While `halt` is set, the deadline calls it instead of ending a wait; null means that nobody does.
  void halt_at_deadline(fleet::Halt* halt) { halt_ = halt; }

  /// Returns true if bytes can be read, false if the deadline has passed, and nothing if await_readable() is due.
  std::optional<bool> readable();
  /// Waits until bytes can be read. Returns false if the deadline has passed.
  net::Awaitable<bool> await_readable() { return wait_for(EPOLLIN); }
  /// Waits until others have had their turn.
  net::Awaitable<void> another_turn();
  /// Makes one read of at most 16 KiB. `bytes` lie in the loop's buffer.
  ReadResult read(std::span<char>& bytes);
  /// Writes the whole of `text`. Returns false if the client has gone. One that takes
  /// nothing, or too little, for limits.client_stall is cut by a reset, and counted.
  net::Awaitable<bool> write(std::string text, const config::Settings& settings);
  /// Ends writing, and drops what the client still sends until it closes, too. Closing at once would send a reset, and
  /// the reset would take the last answer away from a client that has not read it. It ends after 2 s without a byte,
  /// and after 30 s or 64 MiB in all.
  net::Awaitable<void> linger();

 private:
  net::Awaitable<bool> wait_for(std::uint32_t events);
  net::Awaitable<bool> await_room(exchange::ClientPace& pace, const config::Settings& settings);
  bool is_over() const;
  void time_out(metrics::Moment now);
  metrics::Moment deadline() const override;
  void deadline_passed(metrics::Moment now) override;

  exchange::Loop& loop_;
  const std::unique_ptr<net::Channel> channel_;
  net::ChannelWait* waiting_ = nullptr;  ///< Set during a wait.
  fleet::Halt* halt_ = nullptr;
  std::string unread_;
  net::BudgetHold budget_hold_;  ///< Pays for kept unread bytes.
  metrics::Moment deadline_ = metrics::Moment::max();
  metrics::Moment look_at_{};  ///< When to look for a vanished client, without a deadline.
  bool idle_ = true, timed_out_ = false;
  metrics::Moment timed_out_at_{};
  bool has_read_ = false;  ///< Bytes were read in the current turn of the loop.
};

// The TLS handshakes of new clients on one loop. A client whose handshake has ended well becomes a session.
//
// limits.handshakes are under way at a time, and each has limits.handshake_time; a client beyond its time is closed. At
// the limit, the oldest handshake that waits for its client is closed: clients of a flood that say nothing keep nobody
// out. If weir itself is behind with all of them, the new client is closed. So is one whose address has lately taken
// more CPU by its handshakes than limits.handshake_cpu allows. Each that is closed is counted. Only the loop's thread
// uses a Handshakes.

class Handshakes {
 public:
  /// `start` starts the session of a client whose socket the channel has.
  using Start = std::function<void(std::unique_ptr<net::Channel> channel, NewClient client)>;
  Handshakes(exchange::Loop& loop, Start start);
  ~Handshakes();
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;

  /// Begins the handshake of a client that has connected.
  void begin(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
             const config::Settings& settings);
  std::size_t under_way() const { return all_.size(); }

 private:
  class Handshake;
  using All = std::list<std::unique_ptr<Handshake>>;

  bool make_room();
  net::tls::CpuAccount account_of(const net::PeerAddress& address, const config::Settings& settings) const;
  void refuse_for_cpu(const net::PeerAddress& address);
  /// Starts the session, and ends the handshake's object.
  void succeed(All::iterator place);
  void count(metrics::series::Limit limit);

  exchange::Loop& loop_;
  const Start start_;
  All all_;  ///< In the order in which they began.
};

}  // namespace weir::proxy::serve
