// Sends a copy of a request to a shadow's replica, measures the answer as a client's answer is measured, and throws it
// away. It runs on the shadows' thread, and nobody waits for it.
//
// The story, its runner and the relay are those of a primary, so the two sides are measured alike; only the client's
// channel takes everything at once.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "balancer/evidence.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/wire/request/edits.hpp"
#include "metrics/wire/request/facts.hpp"
#include "proxy/exchange/attempt_runner.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

struct MirrorJob {
  std::shared_ptr<const fleet::Snapshot> snapshot;
  std::shared_ptr<balancer::Pool> primary_pool;                      ///< The client's request is served there.
  std::vector<std::shared_ptr<const fleet::ShadowRuntime>> shadows;  ///< Each gets a copy.
  std::string head_bytes;                                            ///< A head that has passed the gate.
  std::shared_ptr<const std::string> body;                           ///< The primary's own bytes.
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  std::string id;           ///< The primary's.
  balancer::Caller caller;  ///< Whose the request is.
  metrics::Moment received{};
  std::chrono::system_clock::time_point time;
  /// The primary's client has left. The primary's loop sets it.
  std::shared_ptr<std::atomic<bool>> client_left = std::make_shared<std::atomic<bool>>(false);
};

/// The members of a request that a shadow sets, as edits of its body. The texts of the edits are its own and the
/// shadow's.
struct SetEdits {
  std::vector<std::string> wholes;  ///< `"key":json,` of each member.
  std::vector<metrics::wire::RequestEdit> edits;
};

/// Returns nothing if a member cannot be set: see metrics::wire::edits_that_set.
std::optional<SetEdits> set_edits(const fleet::ShadowRuntime& shadow, const MirrorJob& job);

class Mirror final : Sender {
 public:
  Mirror(Loop& loop, std::shared_ptr<const MirrorJob> job, std::shared_ptr<const fleet::ShadowRuntime> shadow,
         SetEdits set);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Runs under this lease to the answer's end, and counts it.
  net::Awaitable<void> run(balancer::Lease lease);
  /// Gives up, as if its client had left.
  void leave() { sink_.hang_up(); }
  const MirrorJob& job() const { return *job_; }
  const fleet::ShadowRuntime& shadow() const { return *shadow_; }

 private:
  const std::string& id() const override { return id_; }
  void begins(const fleet::Replica&) override {}
  Outgoing outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) override;
  void describe(AnswerHandler::Options& options, const fleet::Replica& replica) override;
  void answer_accepted() override {}
  void request_sent() override { std::string().swap(upstream_head_); }
  void finish();

  Loop& loop_;
  const std::shared_ptr<const MirrorJob> job_;
  const std::shared_ptr<const fleet::ShadowRuntime> shadow_;
  const std::string id_;
  http::RequestHead head_;
  net::SinkChannel sink_;
  std::string unread_, upstream_head_;
  ClientWatch client_{sink_, unread_};
  const SetEdits set_;
  story::Story story_;
  AttemptRunner runner_;
};

/// Records a request that was not sent to `shadow`.
metrics::record::RequestRecord record_of_dropped(const MirrorJob& job, const fleet::ShadowRuntime& shadow,
                                                 std::string id, std::string reason);

// The thread that mirrors requests. Stream loops post jobs to it and wait for nothing; it drops what the shadows or
// this machine cannot take, and every drop is counted and logged.

class Shadows {
 public:
  /// So many jobs may wait for the thread. Each holds its request's body.
  static constexpr std::size_t most_posted = 256;
  /// While a loop is later than this, nothing is mirrored: clients come first.
  static constexpr std::chrono::milliseconds latest{50};
  /// The thread yields to the stream loops.
  static constexpr int niceness = 10;

  /// `loops` stream loops have the shards before this thread's.
  Shadows(Shared& shared, std::size_t loops);
  ~Shadows();

  void start();
  /// Ends the thread.
  void stop();
  /// Takes a job of this loop, on the loop's thread. A job that is one too many for the shadows' thread is dropped
  /// here and now.
  void post(Loop& from, std::shared_ptr<const MirrorJob> job);
  /// The client of some job has left, and the job's flag says so. On any thread.
  void client_left();
  /// Ends all mirrored requests, since weir drains. On any thread.
  void end_all();
  Loop& loop() { return loop_; }

 private:
  class Running;

  void leave_all();
  void take(const std::shared_ptr<const MirrorJob>& job);
  void mirror(const std::shared_ptr<const MirrorJob>& job, const std::shared_ptr<const fleet::ShadowRuntime>& shadow);
  void drop(const MirrorJob& job, const fleet::ShadowRuntime& shadow, metrics::series::Mirrored why) {
    drop(loop_, job, shadow, why);
  }
  static void drop(Loop& on, const MirrorJob& job, const fleet::ShadowRuntime& shadow, metrics::series::Mirrored why);
  net::Awaitable<void> run(std::unique_ptr<Mirror> mirror, balancer::Lease lease);
  static void count(const Loop& on, const fleet::ShadowRuntime& shadow, metrics::series::Mirrored what);
  bool some_loop_is_late() const;
  metrics::series::InternalErrors& errors() const { return shared_.exposition.internal_errors; }

  Shared& shared_;
  const std::size_t loops_;
  std::list<Mirror*> running_;
  bool stopping_ = false;
  Loop loop_;  ///< Behind what its coroutines use.
  std::atomic<std::size_t> posted_{0};
  std::atomic<bool> looks_for_left_{false};  ///< The thread is going to look which clients have left.
  std::thread thread_;
};

/// True if the request may be mirrored at all: an inference request that weir knows, with no context stored elsewhere.
bool can_be_mirrored(const ClientMessage& message);

/// True if the shadow gets a copy of a request of its pool that this replica gets.
bool wants(const fleet::ShadowRuntime& shadow, const fleet::Replica& replica, const ClientRequest& request,
           const SipKey& key);

}  // namespace weir::proxy::exchange
