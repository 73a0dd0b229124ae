// The driver of one attempt: moves bytes between a replica's socket and a client's as RelayMachine says, and nothing
// more. One composed operation that the exchange awaits once; plain sockets, in the loop's inner set.
//
// The client is watched all the while: the handler that sees it leave closes the replica's connection, in every phase.
// One thread, the loop's. No allocation a token.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <string>

#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/relay_machine.hpp"

namespace weir::proxy::exchange {

/// What the client's side of a relay is: a socket, and the bytes of requests that follow (pipelining).
struct ClientSide {
  int fd = -1;
  std::string& unread;
};

class Relay final : net::Watcher, net::Timed {
 public:
  /// Bytes of a following request that are read while an answer is under way.
  static constexpr std::size_t most_unread = 4 * 1024;

  struct Request {
    std::vector<std::string_view> spans;  ///< Head and body as they go out.
    std::string* head;                    ///< With the body freed once they are sent and no retry can follow.
    std::string* body;
  };

  /// `connection` is an idle one, or one that has begun to connect (`connected` false).
  Relay(Loop& loop, ClientSide client, net::UniqueFd connection, bool connected, Request request,
        RelayMachine& machine);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Completes with void() when the attempt is over and the client has taken its bytes, or is gone.
  template <class Token>
  auto run(Token&& token) {
    return boost::asio::async_initiate<Token, void()>(
        [this](auto handler) {
          completion_ = std::make_unique<CompletionOf<decltype(handler)>>(std::move(handler));
          start();
        },
        token);
  }

  /// The replica could not be connected to; 0 = it could. ETIMEDOUT for weir's own limit.
  int connect_error() const { return connect_error_; }
  metrics::Nanoseconds connect_time() const { return connect_time_; }
  metrics::Nanoseconds paused_time() const { return paused_time_; }
  /// The replica's connection, if it may serve again.
  net::UniqueFd take_connection();
  /// When the client had taken everything.
  Moment ended_at() const { return ended_at_; }

 private:
  struct Completion {
    virtual ~Completion() = default;
    virtual void complete() = 0;
  };
  template <class Handler>
  struct CompletionOf final : Completion {
    explicit CompletionOf(Handler h) : handler(std::move(h)) {}
    void complete() override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, std::move(handler));
    }
    Handler handler;
  };
  enum Side : std::uint32_t { replica_side, client_side };

  void start();
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void approach(std::uint32_t tag, int ahead) const override;
  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  void connected();
  void send_request();
  void read_replica();
  void deliver();
  void flush_pending();
  void progressed(Moment now);
  bool stalled(Moment now);
  void watch_client(std::uint32_t events);
  void client_gone();
  void replica_done();
  void drop_connection();
  void over();

  Loop& loop_;
  ClientSide client_;
  net::UniqueFd connection_;
  Request request_;
  RelayMachine& machine_;
  net::Poller::Watch replica_watch_, client_watch_;
  std::unique_ptr<Completion> completion_;

  std::size_t span_ = 0, span_offset_ = 0;  ///< How far the request is sent.
  std::string pending_;                     ///< What the client has not taken yet.
  std::size_t pending_offset_ = 0;
  Moment started_{}, progress_{}, looked_{}, paused_since_{}, ended_at_{};
  metrics::Nanoseconds connect_time_{}, paused_time_{};
  int connect_error_ = 0;
  int unacknowledged_ = 0;  ///< Bytes, when the client was last looked at.
  bool connected_, hung_up_ = false, paused_ = false, backlog_ = false;
};

}  // namespace weir::proxy::exchange
