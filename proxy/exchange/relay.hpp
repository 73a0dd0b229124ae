// The driver of one attempt: moves bytes between a replica's channel and a client's as Attempt says, and nothing
// more. One composed operation that the exchange awaits once; plain sockets or others.
//
// The client is watched all the while: the handler that sees it leave closes the replica's connection, in every phase.
// One thread, the loop's. No allocation a token. All that a token touches of its stream lies in the relay itself: the
// attempt and its meter are held by value, and the poller asks for the whole into the cache.
#pragma once

#include <boost/asio/async_result.hpp>
#include <memory>
#include <string>

#include "proxy/exchange/attempt.hpp"
#include "proxy/exchange/client_watch.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/completion.hpp"

namespace weir::proxy::exchange {

/// Why a run of a relay completes.
enum class RelayNews : std::uint8_t {
  accepted,   ///< An answer is about to go to the client: run again to its end. Told before its first byte is written.
  undecided,  ///< The attempt is: see Attempt::State.
  over,       ///< The attempt is over and the client has taken its bytes, or is gone.
};

class Relay final : net::Watcher, net::Timed, ClientWatch::Listener {
 public:
  struct Request {
    std::vector<std::string_view> spans;  ///< Head and body as they go out.
    std::string* head;                    ///< With the body freed once they are sent and no retry can follow;
    std::string* body;                    ///< both are null from then on.
  };

  /// `replica` is an idle connection, or one that has begun to connect (`connected` false).
  Relay(Loop& loop, ClientWatch& client, std::unique_ptr<net::Channel> replica, bool connected, Request request,
        const Attempt::Options& attempt, balancer::Lease lease, metrics::series::ReplicaShard& shard);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Goes on until there is news, and completes with it: void(RelayNews).
  template <class Token>
  auto run(Token&& token) {
    return boost::asio::async_initiate<Token, void(RelayNews)>(
        [this](auto handler) {
          completion_.keep(std::move(handler));
          go_on();
        },
        token);
  }

  /// In place of an error that is not kept: see Attempt::leave_error and relay_error. Before the next run().
  void leave_error();
  void relay_error();

  const Attempt& attempt() const { return attempt_; }
  /// Once it is over.
  AttemptResult take_result();
  /// The replica's connection, if it may serve again.
  std::unique_ptr<net::Channel> take_connection() { return std::move(replica_); }

 private:
  void go_on();
  void start();
  void tell(RelayNews news);
  void ready(std::uint32_t tag, std::uint32_t events) override;
  Hot hot() const override;
  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  void connected();
  void send_request();
  bool reads_on() const;
  void read_replica();
  void deliver();
  void flush_pending();
  void progressed(Moment now);
  bool stalled(Moment now);
  void client_gone() override;
  void client_writable() override;
  void replica_done();
  void drop_connection();
  void over();

  Loop& loop_;
  ClientWatch& client_;
  net::Channel& to_client_;  ///< The watch's, without the way through it.
  Attempt attempt_;
  std::unique_ptr<net::Channel> replica_;
  Request request_;
  const config::Limits& limits_;
  net::Completion<RelayNews> completion_;

  std::size_t span_ = 0, span_offset_ = 0;  ///< How far the request is sent.
  std::string pending_;                     ///< What the client has not taken yet.
  std::size_t pending_offset_ = 0;
  Moment started_{}, progress_{}, looked_{}, paused_since_{}, ended_at_{};
  metrics::Nanoseconds connect_time_{}, paused_time_{};
  int connect_error_ = 0;
  int unacknowledged_ = 0;  ///< Bytes, when the client was last looked at.
  bool connected_, started_running_ = false, told_accepted_ = false, over_ = false;
  bool paused_ = false, backlog_ = false;
};

}  // namespace weir::proxy::exchange
