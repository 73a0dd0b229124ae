// Whole rollouts in simulated time: a pool that is split, requests that fail by chance, and the machine that moves the
// share. The gate passes in the shadow step, and knows nothing of the few live requests.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "balancer/pool.hpp"
#include "balancer/rollout/machine.hpp"
#include "tests/draws.hpp"
#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer::rollout {
namespace {

constexpr double requests_per_second = 2.5;

config::Rollout usual() {
  using config::Seconds;
  config::Rollout all;
  all.name = "fp8";
  all.pool = "chat";
  all.candidate = "new";
  all.shadow = "mirror";
  all.steps = {{true, 0, Seconds(1200)},     {false, 0.01, Seconds(600)}, {false, 0.05, Seconds(600)},
               {false, 0.25, Seconds(1200)}, {false, 0.5, Seconds(1200)}, {false, 1, Seconds(0)}};
  return all;
}

struct Candidate {
  double fails = 0, beside = 0;     ///< Shares of requests, of the candidate's and of the others.
  std::optional<double> dies_at{};  ///< Seconds after its first live request.
  double refuses = 0;               ///< Share of its requests that it refuses, and the others take.
  bool hangs = false;               ///< It answers nothing.
  /// Share of requests that are bad: of clients that send each several times, and some of them a thousand times.
  double bad = 0;
};

struct Ended {
  State state;
  double hours;
  std::uint64_t failed_on_candidate;
  std::uint64_t crossed;
  std::uint64_t refused = 0;
  int live_seconds = 0;
};

/// Conversations of clients whose requests nobody takes.
class BadClients {
 public:
  explicit BadClients(std::uint64_t seed) : random_(seed) {}
  std::uint64_t next() {
    if (left_ == 0) {
      conversation_ = random_() | 1;
      left_ = random_() % 8 == 0 ? 1000 : 1 + random_() % 10;
    }
    --left_;
    return conversation_;
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t conversation_ = 0, left_ = 0;
};

Ended run(const Candidate& candidate, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<> uniform;
  auto fresh = replica("new0");
  fresh.candidate = true;
  auto pool = pool_of({replica("old0"), replica("old1"), fresh});
  pool->set_split(0, balancer::at(0));
  Machine machine(usual());
  machine.start();
  SplitFigures counted;
  BadClients bad_clients(seed + 1000);
  std::vector<Lease> hung;
  std::optional<int> live_since;
  const auto key = pool->figures().key(2);
  for (int second = 1; second < 12 * 3600; ++second) {
    const auto now = balancer::at(second);
    if (machine.share() > 0) live_since = live_since.value_or(second);
    if (candidate.dies_at && live_since && second - *live_since >= *candidate.dies_at)
      pool->health().report(key, Sign::probe_refused, now);
    for (int i = std::poisson_distribution<>(requests_per_second)(random); i > 0; --i) {
      auto facts = prompt_of(100);
      const bool bad = uniform(random) < candidate.bad;
      facts.conversation = bad ? bad_clients.next() : random() | 1;
      auto lease = admitted(place(*pool, facts, now));
      const bool fails = uniform(random) < (lease.replica() == 2 ? candidate.fails : candidate.beside);
      const auto to = lease.key();
      const bool of_candidate = lease.replica() == 2;
      if (bad || (of_candidate && uniform(random) < candidate.refuses)) {
        lease.end(LeaseEnd(EndCause::client_erred), now);
        pool->health().report(to, Sign::client_error, now, {}, {.number = facts.conversation, .refused_content = true});
        continue;
      }
      if (of_candidate && candidate.hangs) {
        hung.push_back(std::move(lease));
        continue;
      }
      lease.end(LeaseEnd(fails ? EndCause::replica_failed : EndCause::answered), now);
      pool->health().report(to, fails ? Sign::failed : Sign::answered, now);
    }
    pool->note_overdue(balancer::at(second - 10));
    const auto split = pool->split();
    Tick tick{now, machine.shadow().value_or(false) ? Word::pass : Word::unknown, "", {}, {}, false};
    tick.failures = {split.candidate.ended - counted.candidate.ended, split.candidate.failed - counted.candidate.failed,
                     split.stable.ended - counted.stable.ended, split.stable.failed - counted.stable.failed};
    tick.refusals = {split.candidate.refused - counted.candidate.refused,
                     split.stable.refused - counted.stable.refused};
    tick.hangs = {split.candidate.overdue - counted.candidate.overdue, split.stable.overdue - counted.stable.overdue};
    counted = split;
    tick.candidate_is_out = pool->health().of(key, now).state == ReplicaState::down;
    if (!machine.tick(tick)) continue;
    pool->set_split(machine.share(), now);
    const auto state = machine.standing().state;
    if (state != State::live)
      return {state,         second / 3600.0,         split.candidate.failed,
              split.crossed, split.candidate.refused, second - live_since.value_or(second)};
  }
  return {State::idle, 12, 0, 0, 0, 0};
}

int count(State state, const Candidate& candidate, int runs) {
  int counted = 0;
  for (int i = 0; i < runs; ++i) counted += run(candidate, static_cast<std::uint64_t>(i)).state == state;
  return counted;
}

TEST(RolloutSimulation, EqualCandidatesArrive) {
  EXPECT_GE(count(State::done, {0.01, 0.01}, 20), 19);
  EXPECT_EQ(count(State::done, {0, 0}, 5), 5);
  const auto ended = run({0, 0}, 1);
  EXPECT_GE(ended.hours, 80 / 60.0) << "each step has its least time";
  EXPECT_LT(ended.hours, 3);
  EXPECT_EQ(ended.crossed, 0u);
}

TEST(RolloutSimulation, FailingCandidatesGoBack) {
  EXPECT_GE(count(State::returned, {0.01, 0}, 20), 19) << "1 of 100 fails, and none beside it";
  EXPECT_EQ(count(State::returned, {0.1, 0.01}, 10), 10);
  EXPECT_LE(run({0.1, 0.01}, 1).failed_on_candidate, 20u) << "clients of few requests notice anything";
}

/// A client that sends bad requests meets each side by its share, and stays with the side of each conversation.
TEST(RolloutSimulation, EqualCandidatesArriveWhateverBadRequestsClientsSend) {
  const int runs = static_cast<int>(tests::draws(5, 20));
  for (const double bad : {0.05, 0.5}) EXPECT_GE(count(State::done, {0, 0, {}, 0, false, bad}, runs), runs - 1) << bad;
  EXPECT_LE(count(State::returned, {0, 0, {}, 0, false, 0.9}, runs), 1) << "with so few good ones a step may pause";
}

TEST(RolloutSimulation, CandidatesThatRefuseWhatOthersTakeGoBack) {
  EXPECT_EQ(count(State::returned, {0, 0, {}, 0.1}, 10), 10);
  EXPECT_LE(run({0, 0, {}, 0.1}, 1).refused, 10u);
  EXPECT_EQ(count(State::returned, {0, 0, {}, 0.1, false, 0.02}, 10), 10) << "some clients send bad requests, too";
}

/// At 2.5 requests/s a share of 1 % is one request in 40 s.
TEST(RolloutSimulation, ACandidateThatHangsGoesBackAfterAFewRequests) {
  for (int i = 1; i <= 5; ++i) {
    const auto ended = run({0, 0, {}, 0, true}, static_cast<std::uint64_t>(i));
    EXPECT_EQ(name_of(ended.state), "returned");
    EXPECT_LT(ended.live_seconds, 300);
  }
}

TEST(RolloutSimulation, ACandidateThatDiesGoesBackInASecond) {
  for (const double after : {1.0, 700.0, 3000.0}) {
    const auto ended = run({0, 0, after}, 2);
    EXPECT_EQ(name_of(ended.state), "returned");
    EXPECT_LE(ended.crossed, 10u) << "requests of about a second went to the others";
  }
}

}  // namespace
}  // namespace weir::balancer::rollout
