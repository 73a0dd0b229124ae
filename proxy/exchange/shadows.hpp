// The thread that mirrors requests. Stream loops post jobs to it and wait for nothing; it drops what the shadows or
// this machine cannot take, and every drop is counted and logged.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>
#include <thread>

#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror.hpp"
#include "proxy/exchange/mirror_job.hpp"

namespace weir::proxy::exchange {

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
