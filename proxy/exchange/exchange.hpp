// Runs a client's request through its story: sends it, mirrors it, answers where no replica's answer can be given, and
// records how it ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "balancer/story/story.hpp"
#include "metrics/memory.hpp"
#include "proxy/exchange/attempt_runner.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

/// The work left to do for the client when an exchange has ended.
struct ExchangeEnd {
  /// Nothing was sent yet, and weir answers so. On the heap: frames have no room for it.
  std::unique_ptr<http::OwnAnswer> own;
  std::shared_ptr<std::string> kept;  ///< Nothing was sent yet, and a replica's answer is kept, head and body.
  bool keep_alive = false;            ///< The connection may serve another request.
  bool reset = false;                 ///< The body was cut where only a reset shows it.
};

/// conclude() counts and logs the request, however it ended. An exchange that throws is recorded by its session.
class Exchange final : Sender, public metrics::Recycled<Exchange> {
 public:
  /// `pool` is the request's, in its snapshot. `unread` takes what the client sends of following requests.
  Exchange(Loop& loop, net::Channel& client, std::string& unread, ClientRequest& request,
           const fleet::PoolRuntime& pool);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Runs to the request's end. Then conclude() is to be called.
  net::Awaitable<void> run() {
    if (story_.wants_identity()) identify();
    return runner_.run(story_.resume(story::Begun{}, std::chrono::steady_clock::now()));
  }
  /// Records the request, and returns what is left to do.
  ExchangeEnd conclude();

 private:
  const std::string& id() const override { return request_.ids.weir; }
  void identify() override { story_.identify(metrics::sip_hash(loop_.shared.keys.fair_by, body())); }
  void begins(const fleet::Replica& replica) override;
  Outgoing outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) override;
  void describe(AnswerHandler::Options& options, const fleet::Replica& replica) override;
  std::shared_ptr<keys::KeyUse> key_use() const override {
    return request_.client.key ? request_.client.key->use : nullptr;
  }
  EarlyHead* early_head() override { return early_.get(); }
  void answer_accepted() override;
  void request_sent() override;

  const std::string& body() const { return shared_body_ ? *shared_body_ : request_.message.body; }
  std::unique_ptr<EarlyHead> make_early_head() const;
  std::unique_ptr<http::OwnAnswer> own_answer();
  void tell_inside(ExchangeEnd& end);
  http::OwnAnswer refusal();
  void record(ExchangeEnd& end);

  Loop& loop_;
  ClientWatch client_;
  ClientRequest& request_;
  const std::uint64_t body_size_;
  const fleet::PoolRuntime& pool_;
  story::Story story_;
  const std::unique_ptr<EarlyHead> early_;  ///< Null unless the pool has keep_alive, and the client asks for events.
  AttemptRunner runner_;
  std::string upstream_head_;
  std::shared_ptr<const std::string> shared_body_;  ///< The request's body, if shadows may get it.
  std::shared_ptr<std::atomic<bool>>
      client_left_;  ///< The flag shared with posted mirror jobs; null if there are none.
  std::vector<const fleet::ShadowState*> mirrored_to_;
};

/// Answers and records a request for a model that no pool has.
ExchangeEnd end_without_pool(Loop& loop, ClientRequest& request);

}  // namespace weir::proxy::exchange
