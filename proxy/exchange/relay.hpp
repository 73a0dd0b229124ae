// Drives one attempt: it moves bytes between a replica's channel and a client's as AnswerHandler says, and nothing more. It
// is one composed operation that the exchange awaits, over any kind of channel.
//
// The client is watched all the time. The handler that sees it leave closes the replica's connection, in every phase.
// Only the loop's thread uses it. No token allocates.
#pragma once

#include <atomic>
#include <boost/asio/async_result.hpp>
#include <exception>
#include <memory>
#include <string>

#include "metrics/rare.hpp"
#include "proxy/exchange/answer_handler.hpp"
#include "proxy/exchange/client_pace.hpp"
#include "proxy/exchange/client_watch.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/buffer_share.hpp"
#include "proxy/net/completion.hpp"

namespace weir::proxy::exchange {

/// Says why a run of a relay completes.
enum class RelayNews : std::uint8_t {
  accepted,   ///< An answer is about to go to the client, and run() is to be called again until the end. This is told
              ///< before the first byte is written.
  undecided,  ///< The attempt is undecided: see AnswerHandler::State.
  done,       ///< The attempt has ended, and the client has taken its bytes or is gone.
};

class Relay final : net::Watcher, net::Timed, ClientWatch::Listener {
 public:
  struct Request {
    std::vector<std::string_view> spans;  ///< They are head and body as they go out.
    // All three are let go once they are sent and no retry can follow.
    std::string* head;
    std::string* body;                                    ///< Null if others share it.
    std::shared_ptr<const std::string>* share = nullptr;  ///< The sender's share of such a body.
    const std::atomic<bool>* cut = nullptr;  ///< Once it is true, the attempt ends: its replica's drain is over.
    net::SharedBudgetHold* budget_hold = nullptr;     ///< Pays for `body`, and is let go with it.
  };

  /// `replica` is an idle connection, or one that has begun to connect (`connected` false).
  Relay(Loop& loop, ClientWatch& client, std::unique_ptr<net::Channel> replica, bool connected, Request request,
        AnswerHandler& attempt, const config::Limits& limits);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Runs until there is news, and completes with it: void(RelayNews).
  template <class Token>
  auto run(Token&& token) {
    return boost::asio::async_initiate<Token, void(RelayNews)>(
        [this](auto handler) {
          completion_.keep(std::move(handler));
          go_on();
        },
        token);
  }

  /// Settles an error that is not kept: see AnswerHandler::leave_error and relay_error. One of these comes before the next
  /// run().
  void leave_error();
  void relay_error();

  /// Returns the result, once the attempt has ended. Throws what ended it, if something was thrown in a handler.
  AttemptResult take_result();
  /// Returns the replica's connection, if it may serve again.
  std::unique_ptr<net::Channel> take_connection() { return std::move(replica_); }

 private:
  template <class Work>
  void guarded(const Work& work);
  void go_on();
  void start();
  void tell(RelayNews news);
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t tag, int ahead) const override;
  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  void replica_ready(std::uint32_t events);
  void connected();
  void send_request();
  bool reads_on() const;
  void read_replica();
  void deliver();
  void flush_pending();
  std::size_t read_ahead() const;
  bool cutting() const;
  void cut(Moment now);
  void client_gone() override;
  void client_writable() override;
  void client_left();
  void client_takes();
  void end_by_deadline(Moment now);
  void replica_done();
  void drop_connection();
  void finish();

  Loop& loop_;
  ClientWatch& client_;
  std::unique_ptr<net::Channel> replica_;
  Request request_;
  AnswerHandler& attempt_;
  const config::Limits& limits_;
  net::Completion<RelayNews> completion_;

  std::size_t span_ = 0, span_offset_ = 0;  ///< The request is sent up to here.
  std::string pending_;                     ///< The client has not taken these bytes yet.
  std::size_t pending_offset_ = 0;
  metrics::Rare<ClientPace> pace_;  ///< While bytes are pending.
  net::BudgetHold budget_hold_;  ///< It pays for that, and for what the attempt holds.
  Moment started_{}, paused_since_{}, ended_at_{};
  metrics::Nanoseconds connect_time_{}, paused_time_{};
  std::exception_ptr failure_;  ///< A handler threw it: most likely there was no memory.
  int connect_error_ = 0;
  bool connected_, started_running_ = false, told_accepted_ = false, done_ = false;
  bool paused_ = false, backlog_ = false;
  bool stood_still_ = false;  ///< The client was given up because it took nothing.
};

}  // namespace weir::proxy::exchange
