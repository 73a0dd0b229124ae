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
  /// Takes a job, on any thread.
  void post(std::shared_ptr<const MirrorJob> job);
  /// The client of the jobs with this flag has left, and the flag says so. On any thread.
  void left(std::shared_ptr<const std::atomic<bool>> client_left);
  /// Ends all mirrored requests, since weir drains. On any thread.
  void end_all();
  Loop& loop() { return loop_; }

 private:
  void take(const std::shared_ptr<const MirrorJob>& job);
  void mirror(const std::shared_ptr<const MirrorJob>& job, const std::shared_ptr<const fleet::ShadowRuntime>& shadow);
  void drop(const MirrorJob& job, const fleet::ShadowRuntime& shadow, metrics::series::Mirrored why);
  net::Awaitable<void> run(std::unique_ptr<Mirror> mirror);
  void count(const fleet::ShadowRuntime& shadow, metrics::series::Mirrored what);
  bool some_loop_is_late() const;

  Shared& shared_;
  const std::size_t loops_;
  Loop loop_;
  std::list<Mirror*> running_;
  bool stopping_ = false;
  std::atomic<std::size_t> posted_{0};
  std::thread thread_;
};

/// True if this request may be mirrored at all: an inference request that weir knows, with no context stored elsewhere.
bool can_be_mirrored(const ClientRequest& request);

/// True if the shadow gets a copy of a request of its pool that this replica gets.
bool wants(const fleet::ShadowRuntime& shadow, const fleet::ReplicaRuntime& replica, const ClientRequest& request,
           const SipKey& key);

}  // namespace weir::proxy::exchange
