// A refusal costs about the same however many requests of some keys wait.
#include <ctime>

#include <algorithm>
#include <chrono>
#include <limits>

#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

/// The time that this thread computed, whatever else the machine does.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class RefusalCost : public PoolQueue {
 protected:
  /// Returns what a refusal costs where so many requests wait.
  double of(std::size_t requests, Refused::Reason reason) {
    constexpr std::uint64_t keys = 50;
    auto limits = queue_of(requests);
    limits.queue_time = std::chrono::hours(1);
    begin({places("a", 1)}, limits);
    double now = 0;
    running = admit({.name = "first", .prompt = 1000}, now);
    // A second of waiting teaches how fast the queue drains.
    wait({.name = "w", .key = 1'000'000}, now);
    now = 2;
    running.first_token(at(now));
    for (std::size_t i = 1; i < requests; ++i) wait({.name = "w", .prompt = 100 + i % 1000, .key = i % keys}, now);
    double best = std::numeric_limits<double>::max();
    for (int run = 0; run < 20; ++run) {
      const double before = cpu_seconds();
      for (int i = 0; i < 20; ++i) {
        Wish wish{.name = "r", .prompt = 500, .key = 1};
        if (reason == Refused::Reason::too_late) wish.deadline = at(now + 10);
        EXPECT_EQ(refuse(wish, now).reason, reason);
      }
      best = std::min(best, cpu_seconds() - before);
    }
    pool->set_limits(queue_of(0), at(now));
    TearDown();
    return best;
  }
};

TEST_F(RefusalCost, IsAboutTheSameForTwentyTimesTheRequests) {
  for (const auto reason : {Refused::Reason::queue_full, Refused::Reason::too_late})
    EXPECT_LT(of(2000, reason), 2 * of(100, reason)) << "reason " << static_cast<int>(reason);
}

}  // namespace
}  // namespace weir::balancer
