// What a request owns while a replica works for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

class Pool;

/// What is told at the end of a request.
struct End {
  bool unsent = false;    ///< It never reached the replica, for want of something of weir's own: no failure of its.
  bool answered = false;  ///< A successful answer: only from these the estimator and the speeds learn.
  std::optional<Tokens> prompt_tokens, cached_tokens, output_tokens;
};

/// Taken with the choice in one critical section; whatever happens, its end gives back all that is left. Movable; one
/// thread at a time. On an empty lease (default, moved from, ended) every call does nothing.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { leave(); }  ///< Where end() was not called: gives everything back at the pool's latest known time.

  explicit operator bool() const { return pool_ != nullptr; }
  ReplicaIndex replica() const { return replica_; }
  Tokens prompt_estimate() const { return prompt_; }

  /// The first token came: the prompt leaves the replica's queue. Only the first call counts.
  void first_token(Moment now);
  /// Output tokens streamed: relaxed atomics on the replica's own cache line. Of what the replica has yet to do, at
  /// most what the lease still holds is taken off.
  void tokens(std::uint32_t n);
  /// The replica's work is over. A request that ends before its first token without an answer leaves its prompt in the
  /// queue for 1 s more. The lease is empty afterwards.
  Company end(const End& end, Moment now);

 private:
  friend class Pool;
  void leave() noexcept;

  std::shared_ptr<Pool> pool_;
  std::unique_ptr<const metrics::wire::RequestFacts> facts_;  ///< What the pool learns about at the end.
  StreamedTokens* streamed_tokens_ = nullptr;                 ///< The replica's; lives as long as the pool.
  TokenLedger::Ticket ticket_ = 0;
  ReplicaIndex replica_ = 0;
  Tokens prompt_ = 0;
  Tokens output_left_ = 0;  ///< Of the replica's decode_left.
  Tokens streamed_ = 0;
};

}  // namespace weir::balancer
