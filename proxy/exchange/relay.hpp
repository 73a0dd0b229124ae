// The driver of one attempt: moves bytes between a replica's socket and a client's as Attempt says, and nothing
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

#include "proxy/exchange/attempt.hpp"
#include "proxy/exchange/loop.hpp"

namespace weir::proxy::exchange {

/// What the client's side of a relay is: a socket, and the bytes of requests that follow (pipelining).
struct ClientSide {
  int fd = -1;
  std::string& unread;
};

/// Why a run of a relay completes.
enum class RelayNews : std::uint8_t {
  accepted,   ///< An answer is about to go to the client: run again to its end. Told before its first byte is written.
  undecided,  ///< The attempt is: see Attempt::State.
  over,       ///< The attempt is over and the client has taken its bytes, or is gone.
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
  Relay(Loop& loop, ClientSide client, net::UniqueFd connection, bool connected, Request request, Attempt& attempt);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Goes on until there is news, and completes with it: void(RelayNews).
  template <class Token>
  auto run(Token&& token) {
    return boost::asio::async_initiate<Token, void(RelayNews)>(
        [this](auto handler) {
          completion_ = std::make_unique<CompletionOf<decltype(handler)>>(std::move(handler));
          go_on();
        },
        token);
  }

  /// In place of an error that is not kept: see Attempt::leave_error and relay_error. Before the next run().
  void leave_error();
  void relay_error();

  /// Once it is over.
  AttemptResult take_result();
  /// The replica's connection, if it may serve again.
  net::UniqueFd take_connection();

 private:
  struct Completion {
    virtual ~Completion() = default;
    virtual void complete(RelayNews news) = 0;
    virtual void complete_at_once(RelayNews news) = 0;
  };
  template <class Handler>
  struct CompletionOf final : Completion {
    explicit CompletionOf(Handler h) : handler(std::move(h)) {}
    void complete(RelayNews news) override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [handler = std::move(handler), news]() mutable { handler(news); });
    }
    void complete_at_once(RelayNews news) override {
      auto at_once = std::move(handler);
      at_once(news);
    }
    Handler handler;
  };
  enum Side : std::uint32_t { replica_side, client_side };

  void go_on();
  void start();
  void tell(RelayNews news);
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void approach(std::uint32_t tag, int ahead) const override;
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
  void watch_client(std::uint32_t events);
  void client_gone();
  void replica_done();
  void drop_connection();
  void over();

  Loop& loop_;
  ClientSide client_;
  net::UniqueFd connection_;
  Request request_;
  Attempt& attempt_;
  net::Poller::Watch replica_watch_, client_watch_;
  std::unique_ptr<Completion> completion_;

  std::size_t span_ = 0, span_offset_ = 0;  ///< How far the request is sent.
  std::string pending_;                     ///< What the client has not taken yet.
  std::size_t pending_offset_ = 0;
  Moment started_{}, progress_{}, looked_{}, paused_since_{}, ended_at_{};
  metrics::Nanoseconds connect_time_{}, paused_time_{};
  int connect_error_ = 0;
  int unacknowledged_ = 0;  ///< Bytes, when the client was last looked at.
  bool connected_, started_running_ = false, told_accepted_ = false, over_ = false;
  bool hung_up_ = false, paused_ = false, backlog_ = false;
};

}  // namespace weir::proxy::exchange
