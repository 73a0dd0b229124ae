// A request's wait for a replica: it ends with the pool's grant, or sooner. AttemptRunner makes one when the pool
// says that the request waits, and uses it on the loop's thread.
//
// While it waits, the client is watched, the loop looks at the deadline, and limits.drain ends it with all else that
// runs. It costs no thread and no timer. A grant that comes for a request that has gone finds nobody, and its lease
// goes back to the pool.
#pragma once

#include <atomic>
#include <boost/asio/async_result.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "balancer/pool.hpp"
#include "proxy/exchange/client_watch.hpp"
#include "proxy/exchange/early_head.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/completion.hpp"

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

}  // namespace weir::proxy::exchange
