// A pool whose requests are split between a candidate and the replicas beside it.
#include <algorithm>
#include <map>
#include <random>

#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

ReplicaSpec candidate(std::string name) {
  auto spec = replica(std::move(name));
  spec.candidate = true;
  return spec;
}

RequestFacts of_conversation(std::uint64_t number, Tokens prompt = 10) {
  auto facts = prompt_of(prompt);
  facts.conversation = number;
  return facts;
}

constexpr std::uint64_t first = 1, last = ~std::uint64_t{0};  ///< The first and the last to come to a candidate.

/// A pool of the stable replicas 0 and 1, and the candidate's 2 and 3.
class PoolSplit : public testing::Test {
 protected:
  void begin(std::optional<double> share) {
    pool = pool_of({replica("a"), replica("b"), candidate("c"), candidate("d")});
    pool->set_split(share, at(0));
  }
  bool goes_to_candidate(const RequestFacts& facts, std::vector<Serial> tried = {}) {
    auto lease = admitted(place(*pool, facts, at(0), tried));
    return lease.replica() >= 2;
  }
  void go_down(ReplicaIndex index) { pool->health().report(pool->figures().key(index), Sign::probe_refused, at(0)); }
  Serial serial(ReplicaIndex index) { return pool->figures().key(index).serial; }

  std::shared_ptr<Pool> pool;
};

TEST_F(PoolSplit, AConversationIsTheCandidatesBelowTheShare) {
  begin(0.25);
  for (int sixteenth = 0; sixteenth < 16; ++sixteenth) {
    const auto number = static_cast<std::uint64_t>(sixteenth) << 60 | 1;
    EXPECT_EQ(goes_to_candidate(of_conversation(number)), sixteenth < 4) << sixteenth;
  }
}

TEST_F(PoolSplit, ARequestWithoutAConversationGoesByItsOwnNumber) {
  begin(0.5);
  for (const auto& [lot, to_candidate] : {std::pair{first, true}, std::pair{last, false}}) {
    PlacementRequest request{shared(of_conversation(0))};
    request.lot = lot;
    EXPECT_EQ(admitted(pool->offer(request, at(0))).replica() >= 2, to_candidate);
  }
}

TEST_F(PoolSplit, AtOneEveryRequestIsTheCandidates) {
  begin(1);
  EXPECT_TRUE(goes_to_candidate(of_conversation(last)));
}

TEST_F(PoolSplit, WithoutASplitTheSidesDoNotCount) {
  begin(std::nullopt);
  std::map<bool, int> to;
  std::vector<Lease> held;
  for (int i = 0; i < 40; ++i) {
    held.push_back(admitted(place(*pool, of_conversation(first), at(0))));
    ++to[held.back().replica() >= 2];
  }
  EXPECT_EQ(to[true], 20);
  EXPECT_EQ(pool->split().crossed, 0u);
  held.clear();
  pool->health().report(pool->figures().key(2), Sign::answered, at(0));
  EXPECT_EQ(pool->split().candidate.ended, 0u);
}

TEST_F(PoolSplit, ACandidateWithoutAShareGetsNothingEvenIfNoOtherIsUp) {
  begin(0);
  EXPECT_FALSE(goes_to_candidate(of_conversation(first)));
  EXPECT_FALSE(goes_to_candidate(of_conversation(first), {serial(0), serial(1)})) << "not as a second try either";
  EXPECT_FALSE(pool->another_is_left(std::vector{serial(0)}, serial(1)));
  go_down(0);
  go_down(1);
  EXPECT_FALSE(goes_to_candidate(of_conversation(first))) << "the others are tried";
  EXPECT_TRUE(pool->health().of(pool->figures().key(2), at(0)).closed);
  EXPECT_EQ(pool->health().of(pool->figures().key(2), at(0)).state, ReplicaState::up) << "what it is stays known";
  EXPECT_EQ(pool->health().of(pool->figures().key(2), at(0)).reason, "its rollout gives it no requests");
}

TEST_F(PoolSplit, TheOtherSideServesWhileAllOfOneSideSleep) {
  begin(1);
  for (const ReplicaIndex of_candidate : {2u, 3u})
    pool->health().engine_told(pool->figures().key(of_candidate), {.kv_tokens = {}, .max_context = {}, .asleep = true});
  EXPECT_FALSE(goes_to_candidate(of_conversation(first)));
}

TEST_F(PoolSplit, AReturnTakesEveryRequestAtOnce) {
  begin(1);
  EXPECT_TRUE(goes_to_candidate(of_conversation(first)));
  pool->set_split(0, at(0));
  EXPECT_FALSE(goes_to_candidate(of_conversation(first)));
  const std::vector<ReplicaSpec> specs{replica("a"), candidate("c"), candidate("e")};
  pool->set_replicas(specs, at(0));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(admitted(place(*pool, of_conversation(first), at(0))).replica(), 0u)
        << "new replicas of the candidate, too";
}

TEST_F(PoolSplit, ASideThatIsDownGivesItsRequestsToTheOther) {
  begin(0.5);
  go_down(2);
  EXPECT_TRUE(goes_to_candidate(of_conversation(first)));
  EXPECT_EQ(pool->split().crossed, 0u);
  go_down(3);
  EXPECT_FALSE(goes_to_candidate(of_conversation(first)));
  EXPECT_EQ(pool->split().crossed, 1u);
  go_down(0);
  go_down(1);
  goes_to_candidate(of_conversation(first));
  EXPECT_FALSE(pool->health().of(pool->figures().key(3), at(0)).closed);
}

TEST_F(PoolSplit, ARequestThatItsSideFailedTriesTheOther) {
  begin(0.5);
  EXPECT_TRUE(goes_to_candidate(of_conversation(first), {serial(2)})) << "one of its side has not had it";
  EXPECT_FALSE(goes_to_candidate(of_conversation(first), {serial(2), serial(3)}));
  EXPECT_TRUE(goes_to_candidate(of_conversation(last), {serial(0), serial(1)}));
  EXPECT_EQ(pool->split().crossed, 2u);
}

TEST_F(PoolSplit, ALongRequestGoesWhereItFits) {
  auto small = candidate("c");
  small.max_context = 1000;
  pool = pool_of({replica("a"), replica("b"), small});
  pool->set_split(1, at(0));
  EXPECT_TRUE(goes_to_candidate(of_conversation(first, 500)));
  EXPECT_FALSE(goes_to_candidate(of_conversation(first, 5000)));
}

TEST_F(PoolSplit, WhatAttemptsShowIsCountedBySide) {
  begin(0.5);
  const auto show = [&](ReplicaIndex of, Sign sign) { pool->health().report(pool->figures().key(of), sign, at(0)); };
  for (const auto sign : {Sign::connect_timed_out, Sign::refused, Sign::failed, Sign::answered, Sign::client_error})
    show(2, sign);
  EXPECT_EQ(pool->split().candidate.ended, 5u);
  EXPECT_EQ(pool->split().candidate.failed, 3u);
  for (const auto sign : {Sign::full, Sign::probe_passed, Sign::probe_failed, Sign::probe_excused, Sign::probe_refused})
    show(3, sign);
  EXPECT_EQ(pool->split().candidate.ended, 5u) << "no attempt failed";
  show(2, Sign::outdone);
  EXPECT_EQ(pool->split().candidate.ended, 5u) << "it was counted when it refused";
  EXPECT_EQ(pool->split().candidate.failed, 4u);
  show(0, Sign::answered);
  EXPECT_EQ(pool->split().stable.ended, 1u);
  EXPECT_EQ(pool->split().stable.failed, 0u);
}

// It may be what fails everywhere, and no other side ever has it.
TEST_F(PoolSplit, FailuresCountOncePerConversation) {
  begin(0.5);
  for (int i = 0; i < 10; ++i)
    for (const std::uint64_t number : {first, first + 1})
      pool->health().report(pool->figures().key(2), Sign::failed, at(i), {}, {.number = number});
  EXPECT_EQ(pool->split().candidate.failed, 2u);
  EXPECT_EQ(pool->split().candidate.ended, 2u);
  pool->health().report(pool->figures().key(2), Sign::failed, at(20));
  EXPECT_EQ(pool->split().candidate.failed, 3u) << "no request had a part in it";
}

/// A client that sends one bad request again and again always meets the same side.
TEST_F(PoolSplit, RefusalsCountOncePerConversationForTheSideThatWasDrawn) {
  begin(0.5);
  const auto refuse = [&](ReplicaIndex by, std::uint64_t number) {
    pool->health().report(pool->figures().key(by), Sign::client_error, at(0), {},
                          {.number = number, .refused_content = true});
  };
  for (int i = 0; i < 10; ++i) refuse(2, first);
  refuse(0, first + 1);
  EXPECT_EQ(pool->split().candidate.refused, 2u) << "also where the other side had the request";
  for (int i = 0; i < 3; ++i) refuse(3, last);
  EXPECT_EQ(pool->split().stable.refused, 1u);
  EXPECT_EQ(pool->split().candidate.ended, 13u) << "as requests they count each";
  pool->set_split(0.5, at(1));
  refuse(2, first);
  EXPECT_EQ(pool->split().candidate.refused, 2u) << "a reload is no other share";
  pool->set_split(0.75, at(1));
  refuse(2, first);
  EXPECT_EQ(pool->split().candidate.refused, 3u);
  pool->set_split(std::nullopt, at(2));
  refuse(2, first);
  EXPECT_EQ(pool->split().candidate.refused, 0u);
}

TEST_F(PoolSplit, StreamsWithoutAFirstTokenInTimeCountOnce) {
  begin(0.5);
  std::vector<Lease> held;
  const auto send = [&](const RequestFacts& facts, double when) {
    held.push_back(admitted(place(*pool, facts, at(when))));
  };
  send(of_conversation(first), 0);
  send(of_conversation(first), 1);
  send(of_conversation(first + 1), 2);
  send(of_conversation(last), 3);
  send(of_conversation(first + 2), 4);
  held.back().first_token(at(5));
  send(of_conversation(first + 3), 5);
  held.back().end(LeaseEnd(EndCause::client_left), at(6));
  send(not_streamed(of_conversation(first + 4)), 6);
  send(of_conversation(first + 5), 20);
  for (int i = 0; i < 3; ++i) {
    pool->note_overdue(at(20));
    EXPECT_EQ(pool->split().candidate.overdue, 2u) << "one conversation counts once; answers that show nothing do not";
    EXPECT_EQ(pool->split().stable.overdue, 1u);
  }
  pool->note_overdue(at(21));
  EXPECT_EQ(pool->split().candidate.overdue, 3u);
  EXPECT_EQ(pool->split().candidate.ended, 0u);
}

TEST_F(PoolSplit, StreamsThatStandStillCountForTheirConversationOnceWhereItWaitedForItsFirstTokenToo) {
  begin(0.5);
  std::vector<Lease> held;
  for (const auto conversation : {first, first, first + 1, last}) {
    held.push_back(admitted(place(*pool, of_conversation(conversation), at(0))));
    if (conversation != first + 1) held.back().first_token(at(1));
  }
  for (const auto& lease : held) lease.stalled();
  pool->note_overdue(at(30));
  EXPECT_EQ(pool->split().candidate.overdue, 2u);
  EXPECT_EQ(pool->split().stable.overdue, 1u);
  pool->set_split(1, at(30));
  const auto whole = admitted(place(*pool, of_conversation(first + 7), at(31)));
  whole.stalled();
  EXPECT_EQ(pool->split().candidate.overdue, 2u) << "there are no two sides to compare";
  Lease().stalled();
}

/// The place for which a request waits is of either side: availability comes before the split.
TEST_F(PoolQueue, AWaitingRequestTakesTheFirstPlaceOfEitherSide) {
  auto fresh = places("c", 1);
  fresh.candidate = true;
  begin({places("a", 1), fresh});
  pool->set_split(0.5, at(0));
  auto on_its_side = admit({"first"}, 0), crossed = admit({"second"}, 0);
  EXPECT_EQ(on_its_side.replica(), 1u) << "requests of number 0 are the candidate's";
  EXPECT_EQ(crossed.replica(), 0u);
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer({"third"}, 0)));
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer({"fourth"}, 0)));
  crossed.end(LeaseEnd(EndCause::answered), at(1));
  auto [third, third_lease] = sink.take();
  EXPECT_EQ(third, "third");
  EXPECT_EQ(third_lease.replica(), 0u);
  pool->set_split(0, at(1));
  on_its_side.end(LeaseEnd(EndCause::answered), at(2));
  EXPECT_TRUE(sink.all.empty()) << "the candidate's place is closed";
  third_lease.end(LeaseEnd(EndCause::answered), at(3));
  auto [fourth, fourth_lease] = sink.take();
  EXPECT_EQ(fourth, "fourth");
  EXPECT_EQ(fourth_lease.replica(), 0u);
}

/// Replicas go down, come back, fill up and drain, and shares change, at random. A naive account of them says on which
/// side a request may be.
class Traffic {
 public:
  explicit Traffic(std::uint64_t seed) : random_(seed) {
    pool_ = Pool::make(config::Policy::least_queued_tokens, seed);
    const std::size_t replicas = 2 + below(4);
    for (std::size_t i = 0; i < replicas; ++i) {
      auto spec = i > 0 && (i == 1 || below(2)) ? candidate(std::to_string(i)) : replica(std::to_string(i));
      spec.health.eject = false;  // Nobody hangs here.
      if (below(3) == 0) spec.max_in_flight = 1 + static_cast<std::uint32_t>(below(3));
      specs_.push_back(spec);
    }
    pool_->set_replicas(specs_, at(0));
    pool_->set_split(0, at(0));
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += 0.01;
      const auto what = below(100);
      if (what < 60) {
        offer();
      } else if (what < 90) {
        if (!held_.empty()) finish();
      } else if (what < 94) {
        change_health();
      } else if (what < 97) {
        change_drain();
      } else {
        change_share();
      }
    }
    EXPECT_EQ(pool_->split().crossed, crossed_);
  }

  int crossings() const { return static_cast<int>(crossed_); }
  int on_candidate() const { return on_candidate_; }

 private:
  struct Held {
    Lease lease;
    std::size_t replica;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  ReplicaKey key(std::size_t i) { return pool_->figures().key(static_cast<ReplicaIndex>(i)); }
  std::size_t in_flight(std::size_t i) const {
    return static_cast<std::size_t>(std::ranges::count(held_, i, &Held::replica));
  }

  bool takes(std::size_t i) {
    if (specs_[i].draining || down_[i]) return false;
    return !specs_[i].max_in_flight || in_flight(i) < *specs_[i].max_in_flight;
  }

  void offer() {
    const std::uint64_t number = random_() | 1;
    const bool is_candidates = share_ >= 1 || static_cast<double>(number) < share_ * 0x1p64;
    bool own = false, any = false;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const bool closed = share_ == 0 && specs_[i].candidate;
      own = own || (takes(i) && !closed && specs_[i].candidate == is_candidates);
      any = any || (takes(i) && !closed);
    }
    auto offered = place(*pool_, of_conversation(number), at(now_));
    auto* const admitted = std::get_if<Admitted>(&offered);
    if (any) {
      ASSERT_NE(admitted, nullptr);
    }
    if (admitted == nullptr) return;
    const std::size_t chosen = admitted->lease.replica();
    const bool to_candidate = specs_[chosen].candidate;
    if (share_ == 0) {
      ASSERT_FALSE(to_candidate);
    }
    if (own) {
      ASSERT_EQ(to_candidate, is_candidates) << "its own side takes it";
    }
    if (any) {
      ASSERT_TRUE(takes(chosen));
    }
    if (to_candidate != is_candidates) ++crossed_;
    on_candidate_ += to_candidate;
    held_.push_back({std::move(admitted->lease), chosen});
  }

  void finish() {
    std::swap(held_[below(held_.size())], held_.back());
    Held held = std::move(held_.back());
    held_.pop_back();
    held.lease.end(LeaseEnd(below(20) == 0 ? EndCause::replica_failed : EndCause::answered), at(now_));
  }

  /// A replica that comes back starts, and holds one request at a time at first. The account knows no starts, so the
  /// replica is taken out of them by a large prompt that it finishes.
  void change_health() {
    const auto i = below(specs_.size());
    down_[i] = !down_[i];
    pool_->health().report(key(i), down_[i] ? Sign::probe_refused : Sign::probe_passed, at(now_));
    if (down_[i]) return;
    now_ += 61;  // No start lasts longer.
    static_cast<void>(pool_->health().take_changes(at(now_)));
    EXPECT_EQ(pool_->health().of(key(i), at(now_)).state,
              specs_[i].draining ? ReplicaState::draining : ReplicaState::up);
  }

  void change_drain() {
    const auto i = below(specs_.size());
    specs_[i].draining = !specs_[i].draining;
    pool_->set_replicas(specs_, at(now_));
    now_ += 61;
  }

  void change_share() {
    constexpr double shares[] = {0, 0.01, 0.05, 0.25, 0.5, 1};
    share_ = shares[below(std::size(shares))];
    pool_->set_split(share_, at(now_));
  }

  std::mt19937_64 random_;
  std::shared_ptr<Pool> pool_;
  std::vector<ReplicaSpec> specs_;
  std::map<std::size_t, bool> down_;
  std::vector<Held> held_;
  double share_ = 0, now_ = 0;
  std::size_t crossed_ = 0;
  int on_candidate_ = 0;
};

TEST(PoolSplitProperty, ARequestIsOnItsSideWhileThatTakesIt) {
  int crossings = 0, on_candidate = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Traffic traffic(seed);
    traffic.run(1500);
    crossings += traffic.crossings();
    on_candidate += traffic.on_candidate();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(crossings, 1000);
  EXPECT_GT(on_candidate, 3000);
}

/// Whoever has come to the candidate stays there while the share grows.
TEST(PoolSplitProperty, SharesGrowMonotonously) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t number = random();
    const double less = static_cast<double>(random()) * 0x1p-64, more = std::min(1.0, less + 0.1);
    if (Split::belongs(number, less)) ASSERT_TRUE(Split::belongs(number, more));
  }
  for (const std::uint64_t number : {first, last}) EXPECT_TRUE(Split::belongs(number, 1) && !Split::belongs(number, 0));
  int of_candidate = 0;
  for (int i = 0; i < 100'000; ++i) of_candidate += Split::belongs(random(), 0.05);
  EXPECT_NEAR(of_candidate, 5000, 300);
}

}  // namespace
}  // namespace weir::balancer
