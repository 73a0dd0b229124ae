// Runs one request: it chooses a replica, connects, sends, relays, and records how the request ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/admission.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror_job.hpp"
#include "proxy/exchange/relay.hpp"
#include "proxy/exchange/retries.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::exchange {

/// What is left to do for the client when an exchange has ended.
struct ExchangeEnd {
  std::unique_ptr<http::OwnAnswer> own;  ///< Nothing was sent yet, and this is the answer. Frames have no room for it.
  /// Nothing was sent yet, and this is the answer of a replica, head and body.
  std::unique_ptr<std::string> kept;
  net::BudgetHold kept_hold{};  ///< It pays for that.
  bool keep_alive = false;    ///< The connection may serve another request.
  bool reset = false;         ///< The body was cut where only a reset shows it.
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
  void no_pool();
  bool ask(bool again);
  void take(balancer::Lease lease);
  void end_wait();
  void refuse(const balancer::Refused& refused);
  net::Awaitable<void> attempt();
  void not_begun(int error);
  void mirror(const fleet::Replica& replica);
  const std::string& body() const { return shared_body_ ? *shared_body_ : request_.body; }
  struct Connection {
    std::unique_ptr<net::Channel> channel;
    bool reused = false;
    int error = 0;  ///< It says why there is no channel.
  };
  Connection connection_to(const fleet::Replica& replica);
  Relay::Request relay_request(const fleet::Replica& replica, metrics::wire::Ask& asked,
                               std::uint64_t& body_length);
  AnswerHandler::Options attempt_options(const fleet::Replica& replica, metrics::wire::Ask asked, bool reused);
  void decide(AnswerHandler& attempt, Relay& relay, bool injected);
  void accepted(unsigned status, bool injected);
  Retries::Next next();
  void tell();
  void answer(http::OwnAnswer own) { end_.own = std::make_unique<http::OwnAnswer>(std::move(own)); }
  void record_without_answer(AttemptResult end);
  void record(metrics::series::ReplicaSeries& series, const fleet::Replica* replica, AttemptResult seen);

  Loop& loop_;
  ClientWatch client_;
  ClientRequest& request_;
  const std::uint64_t body_size_;
  const std::shared_ptr<const fleet::Snapshot> snapshot_;
  const fleet::PoolRuntime* const pool_;  ///< Null if no pool has the model.
  Retries retries_;
  balancer::Lease lease_;
  std::optional<std::uint64_t> prompt_estimate_;
  Place place_;                         ///< It is that of the current or the last attempt.
  std::uint64_t connected_before_ = 0;  ///< It is the id of the replica that this request was last connected to.
  net::Destination connected_to_;
  /// The result of the attempt that has ended waits here for next(). As the value of a coroutine it would have room in
  /// three frames while the answer streams.
  std::unique_ptr<AttemptResult> result_;
  std::string upstream_head_;
  std::shared_ptr<const std::string> shared_body_;  ///< It is the request's body, if shadows may get it.
  std::shared_ptr<std::atomic<bool>> client_left_;  ///< That of the jobs that were posted; null if there was none.
  std::vector<const fleet::ShadowState*> mirrored_to_;
  std::uint32_t attempts_ = 0;
  metrics::Nanoseconds connect_{}, paused_{};  ///< They cover all attempts.
  metrics::Nanoseconds waited_{};              ///< In the pool's queue.
  std::unique_ptr<Admission> admission_;       ///< It is there while the request waits.
  std::optional<Moment> deadline_;             ///< A request that waited waits no longer than this.
  ExchangeEnd end_;
};

}  // namespace weir::proxy::exchange
