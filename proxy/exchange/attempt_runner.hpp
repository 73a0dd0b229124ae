// Carries out the commands of one request's story: it asks the pool, waits, connects or uses an idle connection again,
// relays, and gives the connection back. Clients' requests and mirrored ones run by it alike; a Sender has what differs
// between them.
//
// Only the thread of its loop uses a runner.
#pragma once

#include <atomic>
#include <boost/asio/async_result.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "balancer/pool.hpp"
#include "balancer/story/story.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/answer_handler.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/relay.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

class QueueWait;

/// A pool holds the waiter of a request that waits, and hands it back with the grant.
struct Waiter {
  Loop& loop;
  std::weak_ptr<QueueWait> wait{};  ///< The wait, while its request has it. Only the loop's thread uses it.
  std::optional<std::variant<balancer::Lease, balancer::Refused>> granted{};  ///< On its way to the loop.
};

class QueueWait final : net::Timed, ClientWatch::Listener {
 public:
  enum class End : std::uint8_t {
    none,      ///< Still waiting.
    admitted,  ///< lease() has the lease.
    refused,   ///< refused() says why.
    client_left,
    cut,  ///< limits.drain is over.
  };

  /// `key_use` is that of the client's key, and null if clients need none. `early` shows the client life; null: nothing
  /// does.
  QueueWait(Loop& loop, ClientWatch& client, balancer::Pool& pool, const balancer::Waiting& waiting,
            std::shared_ptr<keys::KeyUse> key_use = nullptr, EarlyHead* early = nullptr);
  ~QueueWait();
  QueueWait(const QueueWait&) = delete;
  QueueWait& operator=(const QueueWait&) = delete;

  /// Waits until there is an end: void().
  template <class Token>
  auto wait(Token&& token) {
    return boost::asio::async_initiate<Token, void()>(
        [this](auto handler) {
          completion_.keep(std::move(handler));
          if (end_ != End::none) completion_.tell();
        },
        token);
  }
  /// Takes the pool's grant. A lease that comes too late goes back.
  void granted(std::variant<balancer::Lease, balancer::Refused> what);

  End end() const { return end_; }
  balancer::Lease lease() { return std::move(lease_); }
  const balancer::Refused& refused() const { return refused_; }

 private:
  metrics::Moment deadline() const override;
  void deadline_passed(metrics::Moment now) override;
  void client_gone() override;
  void client_writable() override {}
  void ended(End end);
  void show_life(metrics::Moment now);

  Loop& loop_;
  ClientWatch& client_;
  balancer::Pool& pool_;
  const balancer::WaitTicket ticket_;
  metrics::Moment deadline_;
  const metrics::Moment since_;
  const std::shared_ptr<keys::KeyUse> key_use_;
  EarlyHead* const early_;
  net::Completion<> completion_;
  balancer::Lease lease_;
  balancer::Refused refused_;
  End end_ = End::none;
};

/// Posts what pools grant to the loops on which the requests wait. Any thread may use it. It outlives the loops and the
/// pools.
class GrantPoster final : public balancer::GrantSink {
 public:
  void grant(std::vector<balancer::Granted> granted) noexcept override;
  /// To be called before the loops go: grants are dropped from now on.
  void close() { closed_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> closed_{false};
};

/// The bytes of a request that goes out to one replica.
struct Outgoing {
  std::vector<std::string_view> spans;  ///< Head and body. The sender owns the bytes.
  std::uint64_t body_size = 0;
  metrics::wire::Ask asked = metrics::wire::Ask::nothing;  ///< weir added this to the request.
};

/// Supplies a request's bytes, and hears of its progress.
class Sender {
 public:
  /// The request's id, for the log.
  virtual const std::string& id() const = 0;
  /// Tells the story what Story::identify() wants, if the request may go out again.
  virtual void identify() {}
  /// The request is about to be sent to this replica.
  virtual void begins(const fleet::Replica& replica) = 0;
  /// Makes what the replica gets, with `wanted` added to it. The bytes stay until the next call, or request_sent().
  virtual Outgoing outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) = 0;
  /// Completes what is known of the request (the API, its times, the client's framing) for an attempt at this replica.
  virtual void describe(AnswerHandler::Options& options, const fleet::Replica& replica) = 0;
  /// Returns the use of the client's key, in which its waits count; null if it has none.
  virtual std::shared_ptr<keys::KeyUse> key_use() const { return nullptr; }
  /// Returns the head that may go out before a replica's; null if none may.
  virtual EarlyHead* early_head() { return nullptr; }
  /// An answer is on its way to the client.
  virtual void answer_accepted() = 0;
  /// No attempt follows, and the bytes of outgoing() are sent.
  virtual void request_sent() = 0;

 protected:
  ~Sender() = default;
};

class AttemptRunner final : Relay::Owner {
 public:
  /// The arguments outlive the runner. `pool` and `limits` belong to the request's snapshot.
  AttemptRunner(Loop& loop, ClientWatch& client, story::Story& story, const fleet::PoolRuntime& pool,
                const config::Limits& limits, Sender& sender)
      : loop_(loop), client_(client), story_(story), pool_(pool), limits_(limits), sender_(sender) {}

  /// Runs from this command to the end of the story.
  net::Awaitable<void> run(story::Command command);

  /// The replica that a lease, or an attempt of the story, is for.
  static const fleet::Replica& replica_of(const balancer::Lease& lease) { return replica_in(lease.subject()); }
  static const fleet::Replica& replica_of(const story::ReplicaRef& ref) { return replica_in(ref.subject); }

 private:
  static const fleet::Replica& replica_in(const std::shared_ptr<void>& subject) {
    return *static_cast<const fleet::Replica*>(subject.get());
  }

  struct Connection {
    net::Destination to;
    std::unique_ptr<net::Channel> channel;
    bool reused = false;
    int error = 0;  ///< Why there is no channel.
  };

  story::Command ask();
  story::Command leased(balancer::Lease&& lease, Moment now);
  story::Command end_wait();
  struct Running;
  [[gnu::noinline]] std::unique_ptr<Running> begin_attempt(int& error);
  Outgoing prepare();
  [[gnu::noinline]] story::Command ended(Running& running);
  [[gnu::noinline]] story::Command not_begun(int error);
  Connection connect();
  AnswerHandler::Options options(bool reused);
  story::Command over(story::AttemptOver over, Moment now);
  void note(const story::AttemptOver& over, Moment now);
  void count(const story::Attempt& repeated) const;
  metrics::wire::Ask wanted() const;
  bool cutting() const { return loop_.shared.cutting.load(std::memory_order_relaxed); }
  const fleet::Replica& replica() const { return replica_of(story_.replica()); }

  void answer_accepted(unsigned status) override;
  bool spend_retry_on_error(unsigned status) override;
  void request_sent() override { sender_.request_sent(); }

  Loop& loop_;
  ClientWatch& client_;
  story::Story& story_;
  const fleet::PoolRuntime& pool_;
  const config::Limits& limits_;
  Sender& sender_;
  metrics::wire::Ask asked_ = metrics::wire::Ask::nothing;
  std::shared_ptr<QueueWait> wait_;  ///< Set while the request waits.
};

}  // namespace weir::proxy::exchange
