// Drives one attempt: it moves bytes between a replica's channel and a client's as AnswerHandler says, and nothing
// more. It is one composed operation that its owner awaits, over any kind of channel.
//
// The client is watched all the time. The handler that sees it leave closes the replica's connection, in every phase.
// Only the loop's thread uses it. No token allocates.
#pragma once

#include <atomic>
#include <boost/asio/async_result.hpp>
#include <exception>
#include <memory>
#include <string>

#include "metrics/memory.hpp"
#include "proxy/exchange/answer_handler.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/buffer_budget.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

class Relay final : net::Watcher, net::Timed, net::Deferred, ClientWatch::Listener {
 public:
  /// The owner runs the relay. The relay calls its functions in handlers; an exception ends the attempt, and
  /// take_over() throws it. None of them may run another handler of the loop, whose buffers are in use. They are
  /// calls because resuming the owner's coroutine would resume it in the middle of a write.
  class Owner {
   public:
    /// An answer is about to go to the client. The owner hears of it before the first byte is written, so that a later
    /// request on another loop finds what was learned.
    virtual void answer_accepted(unsigned status) = 0;
    /// An error is too large or too slow to keep. Returns true if a retry was taken instead, or a better error is kept;
    /// else this one is relayed.
    virtual bool spend_retry_on_error(unsigned status) = 0;
    /// The request was sent whole and is not sent again: its bytes may go.
    virtual void request_sent() = 0;

   protected:
    ~Owner() = default;
  };

  /// `channel` is an idle connection, or one that has begun to connect (`connected` false). `request` is head and body
  /// as they go out; the owner keeps them until request_sent() or the end.
  Relay(Loop& loop, ClientWatch& client, const fleet::SharedReplica& replica, std::unique_ptr<net::Channel> channel,
        bool connected, std::vector<std::string_view> request, AnswerHandler& handler, const config::Limits& limits,
        Owner& owner);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Runs until the attempt has ended, and the client has taken its bytes or is gone: void().
  template <class Token>
  auto run(Token&& token) {
    return boost::asio::async_initiate<Token, void()>(
        [this](auto handler) {
          completion_.keep(std::move(handler));
          guarded([this] { start(); });
        },
        token);
  }

  /// Returns what the attempt leaves behind, once it has ended. Throws what ended it, if something was thrown in a
  /// handler.
  story::AttemptOver take_over();
  /// Returns the replica's connection, if it may serve again.
  std::unique_ptr<net::Channel> take_connection() { return std::move(replica_); }

 private:
  /// A longer answer is written at once: to copy it costs more than to wake its client.
  static constexpr std::size_t most_deferred = 16 * 1024;

  /// Does a handler's work. An exception of the work reaches the relay's caller, for the poller could do nothing with
  /// it.
  template <class Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
      finish();
    }
  }
  void start();
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t tag, int ahead) const override;
  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  void batch_ended() override;

  void replica_ready(std::uint32_t events);
  void connected();
  void unconnected(int error);
  void send_request();
  bool replica_is_done() const { return handler_.state() == AnswerHandler::State::done; }
  bool reads_on() const;
  void read_replica();
  void deliver();
  bool defer_whole_answer();
  void write_whole_answer();
  void settle_error();
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
  void finish(Moment now);

  Loop& loop_;
  ClientWatch& client_;
  const fleet::SharedReplica& state_;
  std::unique_ptr<net::Channel> replica_;
  std::vector<std::string_view> request_;
  AnswerHandler& handler_;
  const config::Limits& limits_;
  Owner& owner_;
  net::Completion<> completion_;

  std::size_t span_ = 0, span_offset_ = 0;  ///< The request is sent up to here.
  std::string pending_;                     ///< The client has not taken these bytes yet.
  std::size_t pending_offset_ = 0;
  metrics::Rare<ClientPace> pace_;  ///< While bytes are pending.
  net::BudgetHold budget_hold_;     ///< Counts pending_ and the attempt's buffers against limits.buffer_memory.
  Moment started_{}, paused_since_{};
  std::exception_ptr failure_;  ///< A handler threw it.
  bool connected_, told_accepted_ = false, told_sent_ = false, done_ = false;
  bool paused_ = false, backlog_ = false;
  bool answer_waits_ = false;  ///< pending_ is a whole answer that is written when the batch ends.
};

}  // namespace weir::proxy::exchange
