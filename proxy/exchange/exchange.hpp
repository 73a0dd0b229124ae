// Runs one request: it chooses a replica, connects, sends, relays, and records how the request ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/relay.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::exchange {

/// What is left to do for the client when an exchange has ended.
struct ExchangeEnd {
  std::optional<http::OwnAnswer> own;  ///< Nothing was sent yet, and this is the answer.
  /// Nothing was sent yet, and this is the answer of a replica, head and body.
  std::unique_ptr<std::string> kept;
  bool keep_alive = false;  ///< The connection may serve another request.
  bool reset = false;       ///< The body was cut where only a reset shows it.
};

/// One exchange, on the loop's thread. It counts and logs the request, whatever happens.
class Exchange {
 public:
  /// `unread` takes what the client sends of following requests.
  Exchange(Loop& loop, net::Channel& client, std::string& unread, ClientRequest& request);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  net::Awaitable<ExchangeEnd> run();

 private:
  enum class Next : std::uint8_t { another_attempt, end };

  bool enter();
  net::Awaitable<void> attempt(const fleet::ReplicaRuntime& replica);
  void not_begun(int error);
  struct Connection {
    std::unique_ptr<net::Channel> channel;
    bool reused = false;
    int error = 0;  ///< It says why there is no channel.
  };
  Connection connection_to(const fleet::ReplicaRuntime& replica);
  Relay::Request relay_request(const fleet::ReplicaRuntime& replica, metrics::wire::Ask& asked,
                               std::uint64_t& body_length);
  Attempt::Options attempt_options(const fleet::ReplicaRuntime& replica, metrics::wire::Ask asked, bool reused);
  void decide(Attempt& attempt, Relay& relay, const fleet::ReplicaRuntime& replica, bool injected);
  void accepted(const fleet::ReplicaRuntime& replica, unsigned status, bool injected);

  // These decide what follows from an attempt.
  Next next(const fleet::ReplicaRuntime& replica);
  void report(const AttemptResult& result);
  void report(const balancer::ReplicaKey& replica, balancer::Sign sign,
              std::optional<std::chrono::seconds> full_for) const;
  void blame_the_replica();
  Next not_connected(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next refused(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next failed(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next answered(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next again(const fleet::ReplicaRuntime& replica, std::optional<metrics::series::Retry> reason);
  Next ask_another(const fleet::ReplicaRuntime& replica, std::optional<metrics::series::Retry> reason);
  Next give_up(const fleet::ReplicaRuntime& replica, AttemptResult last);

  /// True if another replica may get the request after this one. A request that is no inference is sent once.
  bool repeatable() const { return request_.route == http::Route::inference; }
  bool another_is_left() const;
  bool take_retry();
  void give_retry_back();
  bool asks_another(const fleet::ReplicaRuntime& replica, unsigned status);
  void accepted_second_opinion(const fleet::ReplicaRuntime& replica, unsigned status);
  bool is_to_blame(const fleet::ReplicaRuntime& replica, unsigned status);
  void record(metrics::series::ReplicaSeries& series, const fleet::ReplicaRuntime* replica, AttemptResult seen);

  Loop& loop_;
  ClientWatch client_;
  ClientRequest& request_;
  const std::uint64_t body_size_;
  const std::shared_ptr<const fleet::World> world_;
  const fleet::PoolRuntime* pool_ = nullptr;
  balancer::Lease lease_;
  std::optional<std::uint64_t> prompt_estimate_;
  std::vector<balancer::ReplicaIndex> tried_;
  std::shared_ptr<const fleet::ReplicaRuntime> last_replica_;  ///< It is the replica of the current or the last
                                                               ///< attempt.
  balancer::ReplicaKey last_key_;
  /// This replica answered with an error of its own. The error counts if no second replica answers in the same way.
  std::optional<balancer::ReplicaKey> blamed_;
  std::uint64_t connected_before_ = 0;  ///< It is the id of the replica that this request was last connected to.
  /// The result of the attempt that has ended waits here for next(). As the value of a coroutine it would have room in
  /// three frames while the answer streams.
  std::unique_ptr<AttemptResult> result_;
  std::unique_ptr<AttemptResult> last_result_;  ///< It is the short result of that attempt.
  std::string upstream_head_;
  /// Of the replicas' errors so far, this one tells the client most.
  struct KeptError {
    AttemptResult result;
    std::shared_ptr<const fleet::ReplicaRuntime> replica;
  };
  std::unique_ptr<KeptError> best_;  ///< It is kept apart, because few requests have one, and every request in flight
                                     ///< holds these members.
  /// The first replica that answered 401, 403 or 404, and its status.
  std::optional<std::pair<std::uint64_t, unsigned>> second_opinion_on_;
  std::uint32_t attempts_ = 0;
  std::uint32_t retries_ = 0;                  ///< Counts those from the budget.
  metrics::Nanoseconds connect_{}, paused_{};  ///< They cover all attempts.
  /// It says whether another replica is to be asked, if that was settled before the attempt ended.
  std::optional<bool> asks_another_;
  ExchangeEnd end_;
  std::uint64_t refused_injection_ = 0;  ///< It is the id of the replica that gets the original request.
  bool holds_retry_ = false;
};

}  // namespace weir::proxy::exchange
