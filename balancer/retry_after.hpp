// A refused request may come back when the work before it is done: the prompts in the replicas, those that wait (of
// other keys no more than fair turns give them meanwhile), and its own. Where places are short, the requests are as
// many ends away. Other refused requests do not count, so that no client keeps others away by coming back too soon.
//
// The work goes as fast as it did in the last seconds in which requests waited, else as the replicas have taught, else
// as is assumed, on the slow side: a client that comes back too early is refused once more, and gives up.
//
// A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/pool_state.hpp"

namespace weir::balancer {

class RetryAfter {
 public:
  explicit RetryAfter(PoolState& pool) : pool_(pool) {}

  /// Refuses a request, and tells when it may come back.
  ///
  /// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
  /// quarter later in the mean: it is told 0.85 of the time. With the spread that is at most 60 s: clients of OpenAI's
  /// and Anthropic's libraries follow no longer one.
  Refused refuse(Refused::Reason reason, const WaitingRequest& request) const noexcept;
  /// Learns for how many seconds a request was on its replica.
  void note_lasted(double seconds);

 private:
  std::optional<std::uint64_t> places() const;
  double seconds_until_done(const WaitingRequest& request) const;

  PoolState& pool_;
  double lasted_ = 0, ends_ = 0;  ///< The seconds that a request is on its replica, as an EWMA, and how many taught it.
};

}  // namespace weir::balancer
