// The story of one request: choose a replica, connect, send, relay, and record how it ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/relay.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::exchange {

/// A request, read whole.
struct ClientRequest {
  std::string head_bytes;  ///< What `head` points into.
  http::RequestHead head;
  std::string body;
  metrics::wire::RequestFacts facts;
  http::Route route = http::Route::unknown;
  std::string id;                             ///< weir's own.
  std::string client_id;                      ///< The client's x-request-id where it is valid, else "".
  std::string request_id;                     ///< That, or `id`.
  std::shared_ptr<const fleet::World> world;  ///< The settings and the fleet for this request.
  Moment received{};                          ///< t0
  std::chrono::system_clock::time_point time;
};

/// What is left to do for the client when an exchange is over.
struct ExchangeEnd {
  std::optional<http::OwnAnswer> own;  ///< Nothing was sent yet: this is the answer.
  /// Nothing was sent yet: this is the answer, head and body, of a replica.
  std::unique_ptr<std::string> kept;
  bool keep_alive = false;  ///< The connection may serve another request.
  bool reset = false;       ///< The body was cut where only a reset shows it.
};

/// One exchange, on the loop's thread. Counts and logs the request, whatever happens.
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
    int error = 0;  ///< Why there is none.
  };
  Connection connection_to(const fleet::ReplicaRuntime& replica);
  metrics::wire::Ask ask_of(const fleet::ReplicaRuntime& replica) const;
  Relay::Request relay_request(const fleet::ReplicaRuntime& replica, metrics::wire::Ask& asked,
                               std::uint64_t& body_length);
  Attempt::Options attempt_options(const fleet::ReplicaRuntime& replica, metrics::wire::Ask asked, bool reused);
  void decide(Relay& relay, const fleet::ReplicaRuntime& replica, bool injected);
  void accepted(const fleet::ReplicaRuntime& replica, unsigned status, bool injected);

  // What follows from an attempt:
  Next next(const fleet::ReplicaRuntime& replica);
  Next not_connected(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next refused(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next failed(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next answered(const fleet::ReplicaRuntime& replica, AttemptResult result);
  Next retry(const fleet::ReplicaRuntime& replica, metrics::series::Retry reason);
  Next give_up(const fleet::ReplicaRuntime& replica, AttemptResult last);

  /// Another replica may get the request after this one: what is no inference is sent once.
  bool repeatable() const { return request_.route == http::Route::inference; }
  bool another_is_left() const;
  bool take_retry();
  void give_retry_back();
  bool asks_another(const fleet::ReplicaRuntime& replica, unsigned status);
  void accepted_after_doubt(const fleet::ReplicaRuntime& replica, unsigned status);
  bool is_to_blame(const fleet::ReplicaRuntime& replica, unsigned status);
  void learn(const fleet::ReplicaRuntime& replica, const AttemptResult& result) const;
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
  std::shared_ptr<const fleet::ReplicaRuntime> last_replica_;  ///< Of the attempt under way, or the last one.
  balancer::ReplicaIndex last_index_ = 0;
  std::uint64_t connected_before_ = 0;  ///< The replica that this request has had a connection to last, by its id.
  /// The attempt's that is over, until next() takes it. Not a coroutine's value: frames would hold room for it three
  /// times while the answer streams.
  std::unique_ptr<AttemptResult> result_;
  std::unique_ptr<AttemptResult> last_result_;  ///< The last attempt's, in short, while another one is made.
  std::string upstream_head_;
  /// The error of a replica that tells the client most so far.
  struct Kept {
    AttemptResult result;
    std::shared_ptr<const fleet::ReplicaRuntime> replica;
  };
  std::unique_ptr<Kept> best_;  ///< Apart, for few requests have one, and all are held while they stream.
  /// The first replica that answered 401, 403 or 404, and with which.
  std::optional<std::pair<std::uint64_t, unsigned>> doubtful_;
  std::uint32_t attempts_ = 0;
  std::uint32_t retries_ = 0;                  ///< Those from the budget.
  metrics::Nanoseconds connect_{}, paused_{};  ///< Of all attempts.
  /// Whether another replica is to be asked, where that was settled before the attempt was over.
  std::optional<bool> asks_another_;
  ExchangeEnd end_;
  std::uint64_t refused_injection_ = 0;  ///< The replica, by its id, that gets the original.
  bool holds_retry_ = false;
};

/// Counts and logs a request that reached no replica.
void record_unassigned(Loop& loop, const ClientRequest& request, metrics::Outcome outcome,
                       std::optional<unsigned> status);

}  // namespace weir::proxy::exchange
