// A refused request may come back when the work before it is done: the prompts in the replicas, those that wait, those
// that were refused and come back before it, and its own. The other keys count for no more than fair turns give them
// meanwhile, so that no client that sends too much, or comes back too soon, keeps others away. Where places are short,
// the requests are as many ends away. What the replicas have not taught yet is assumed, on the slow side: a client that
// comes back too early is refused once more, and gives up.
//
// A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/pool_state.hpp"
#include "balancer/returns.hpp"

namespace weir::balancer {

class RetryAfter {
 public:
  explicit RetryAfter(PoolState& pool) : pool_(pool) {}

  /// Refuses a request, and expects it back.
  ///
  /// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
  /// quarter later in the mean. Clients are told 0.85 of the time: then returns are about as many as the pool serves.
  /// With the spread it is at most 60 s: clients of OpenAI's and Anthropic's libraries follow no longer one.
  Refused refuse(Refused::Reason reason, const WaitingRequest& request) noexcept;
  /// Expects the request back no more. Returns whether it comes back, and no sooner than it was told.
  bool came_back(const WaitingRequest& request) noexcept;
  /// Learns for how many seconds a request was on its replica.
  void note_lasted(double seconds);

 private:
  std::optional<double> capacity() const;
  std::optional<std::uint64_t> places() const;
  double seconds_until_done(std::uint64_t key, Tokens uncached) const;

  PoolState& pool_;
  Returns returns_;
  double lasted_ = 0, ends_ = 0;  ///< The seconds that a request is on its replica, as an EWMA, and how many taught it.
};

}  // namespace weir::balancer
