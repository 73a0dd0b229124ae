// A player does anything to a pool, in any order: requests come, wait, leave, get tokens and end, replicas and limits
// change. After each step:
//
//   - each request that is granted waited, and nobody is told twice what becomes of him;
//   - the gauges are what a naive account of the leases says, except for the failures of the last second;
//   - no request waits for a replica that may take it. A plain account of what a replica may take looks at every
//     request and every replica. There are these exceptions. A replica on which a request has failed rests for 1 s. A
//     request waits for a context that suffices where the pool has one that takes requests, and for one that holds its
//     prompt in any case. Once somebody has waited for 5 s, up to half of the replicas, or one, may be reserved for
//     those who had their turn and fitted nowhere, and with a limit of the whole pool all of them; a reserved replica
//     has work, or it takes the one it is reserved for.
//
// At the end each request was told one thing, nobody waits, and every gauge is zero. In an ill pool, replicas are
// reported and go, and some requests show no tokens: there the accounts know too little, and the rest is checked.
#include <algorithm>
#include <map>
#include <random>

#include "balancer/pool.hpp"
#include "prompts.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

class Player {
 public:
  Player(config::Policy policy, std::uint64_t seed, bool ill)
      : random_(seed), ill_(ill), pool_limits_(seed % 2 == 0), one_drains_(seed % 4 > 1) {
    pool_ = Pool::make(policy, seed, &sink_);
    pool_->set_prefix_aware(seed % 3 != 0);
    specs_.resize(3 + below(2));
    for (std::size_t r = 0; r < specs_.size(); ++r) specs_[r] = replica("r" + std::to_string(r), r == 0 ? 2 : 1);
    known_.resize(specs_.size());
    pool_->set_replicas(specs_, at(0));
    change_replicas();
    change_limits();
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ += below(20) == 0 ? static_cast<double>(below(3)) : 0.001 * static_cast<double>(below(60));
      step();
      take_grants();
      EXPECT_EQ(pool_->figures().in_flight(), held_.size());
      EXPECT_EQ(pool_->figures().queue(at(now_)).waiting, waiting_.size());
      if (ill_) continue;
      check_gauges();
      check_waiting();
    }
    recover();
    const QueueFigures queue = pool_->figures().queue(at(now_));
    EXPECT_EQ(queue.waiting + queue.waiting_tokens + queue.waiting_bytes, 0u);
    expect_idle(*pool_, static_cast<ReplicaIndex>(specs_.size()), at(now_ + 2));
    for (const auto& [id, told] : told_) EXPECT_EQ(told, 1) << "request " << id;
    EXPECT_GT(waited_, 50u) << "hardly anybody waited";
    EXPECT_GT(granted_, 25u);
  }
  /// What was predicted to be cached, of all requests.
  Tokens cached() const { return cached_; }

 private:
  struct Known {
    std::optional<Tokens> told;
    double rests_until = 0;
  };
  struct Request {
    Tokens prompt = 0, context = 0, expected = 0;
    double since = 0;
    WaitTicket ticket = 0;
  };
  struct Held {
    Lease lease;
    Tokens prompt = 0, uncached = 0, expected = 0, streamed = 0;
    bool first_token = false;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  ReplicaKey some_key() { return pool_->figures().key(static_cast<ReplicaIndex>(below(specs_.size()))); }

  void step() {
    const auto what = below(100);
    if (what < 40) return offer();
    if (what < 54 && !held_.empty()) return first_token();
    if (what < 66 && !held_.empty()) return stream();
    if (what < 85 && !held_.empty()) return end();
    if (what < 90 && !waiting_.empty()) return leave();
    if (what < 94) return ill_ ? report() : engine_tells();
    if (what < 96) return change_replicas();
    if (what < 98) return change_limits();
    look();
  }
  void look() { pool_->health().take_changes(at(now_)); }

  void offer() {
    static constexpr Tokens longest[] = {50, 700, 1100, 1500, 6000, 40'000};
    const Tokens prompt = 1 + below(longest[below(std::size(longest))]), most = below(6) == 0 ? 60'000 : below(300);
    RequestFacts facts = prompt_of(prompt, most);
    facts.stream = !ill_ || below(5) > 0;
    const auto id = ++ids_;
    PlacementRequest placement{.facts = shared(facts), .fair_key = below(5), .bytes = below(100)};
    while (below(5) == 0) placement.tried.push_back(some_key().serial);
    placement.front_of_queue = below(10) == 0;
    if (ill_ && below(5) == 0) placement.deadline = at(now_ + static_cast<double>(below(10)));
    if (below(10) > 0) placement.waiter = std::make_shared<std::uint64_t>(id);
    if (below(2)) placement.prefix = prefix_of(below(10), prompt);
    const Request request{prompt, prompt + most, std::min(most, ExpectedOutput::before_any), now_};
    auto offered = pool_->offer(placement, at(now_));
    if (!placement.waiter) look();  // It serves nobody.
    told_[id] = 1;
    if (auto* const admitted = std::get_if<Admitted>(&offered)) return hold(std::move(admitted->lease), request);
    const auto* const waits = std::get_if<Waiting>(&offered);
    if (waits == nullptr) return;
    EXPECT_TRUE(placement.waiter);
    ++waited_;
    told_[id] = 0;
    waiting_[id] = request;
    waiting_[id].ticket = waits->ticket;
  }
  void hold(Lease lease, const Request& request) {
    const auto prefix = lease.prefix_tokens().value_or(Lease::PrefixTokens{});
    EXPECT_LE(prefix.predicted, prefix.best);
    EXPECT_LE(prefix.best, request.prompt);
    cached_ += prefix.predicted;
    held_.push_back({std::move(lease), request.prompt, request.prompt - prefix.predicted, request.expected});
  }
  void first_token() {
    Held& held = held_[below(held_.size())];
    held.lease.first_token(at(now_));
    held.first_token = true;
    look();  // The first token may have come before.
  }
  void stream() {
    Held& held = held_[below(held_.size())];
    const auto n = static_cast<std::uint32_t>(below(40));
    held.lease.tokens(n);
    held.streamed += n;
    look();  // The pool hears of no token but the first.
  }
  void end() {
    std::swap(held_[below(held_.size())], held_.back());
    Held held = std::move(held_.back());
    held_.pop_back();
    static constexpr EndCause causes[] = {EndCause::answered,    EndCause::answered,     EndCause::unsent,
                                          EndCause::client_left, EndCause::client_erred, EndCause::replica_failed};
    const std::size_t how = below(std::size(causes) + 1);
    if (how == std::size(causes)) return look();  // The lease's destructor ends it, and has no time.
    if (causes[how] == EndCause::replica_failed) {
      known_[held.lease.replica() % known_.size()].rests_until = now_ + 1;
      if (!held.first_token) failed_ = now_;
    }
    LeaseEnd end(causes[how]);
    if (below(2)) end.prompt_tokens = held.prompt;
    if (below(2)) end.cached_tokens = below(held.prompt + 1);
    EXPECT_GE(held.lease.end(end, at(now_)).in_flight_mean, 1 - 1e-6);
    EXPECT_FALSE(held.lease);
  }
  void leave() {
    const auto one = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(below(waiting_.size())));
    EXPECT_TRUE(pool_->leave(one->second.ticket, at(now_)));
    ++told_[one->first];
    waiting_.erase(one);
  }
  void engine_tells() {
    const auto r = static_cast<ReplicaIndex>(below(specs_.size()));
    known_[r].told.reset();
    if (below(3)) known_[r].told = Tokens{1000} << below(6);
    pool_->health().engine_told(pool_->figures().key(r), {std::nullopt, known_[r].told});
    look();  // An engine's page has no time.
  }
  void report() {
    static constexpr Sign signs[] = {Sign::answered, Sign::failed,       Sign::refused,
                                     Sign::full,     Sign::probe_passed, Sign::probe_failed};
    const Sign sign = signs[below(std::size(signs))];
    const ReplicaKey key = some_key();
    for (auto times = 1 + below(6); times > 0; --times)
      pool_->health().report(key, sign, at(now_), std::chrono::seconds(below(4)));
  }
  void change_replicas() {
    for (std::size_t r = 0; r < specs_.size(); ++r) {
      ReplicaSpec& spec = specs_[r];
      spec.health.eject = ill_;  // Else nobody is out.
      spec.draining = ill_ ? below(4) == 0 : r == 0 && one_drains_;  // One that comes back has to start.
      spec.max_in_flight.reset();
      spec.max_queued_tokens.reset();
      spec.max_context.reset();
      spec.kv_tokens.reset();
      if (below(2)) spec.max_in_flight = 1 + static_cast<std::uint32_t>(below(4));
      if (below(2)) spec.max_queued_tokens = 200 + below(4000);
      if (below(3) == 0) spec.max_context = Tokens{1000} << below(6);
      if (below(4) == 0) spec.kv_tokens = 20'000;
    }
    auto specs = specs_;
    if (ill_ && below(3) == 0) specs.erase(specs.begin() + static_cast<std::ptrdiff_t>(below(specs.size())));
    pool_->set_replicas(specs, at(now_));
  }
  void change_limits() {
    limits_ = {};
    limits_.queue = ill_ && below(4) == 0 ? 0 : 10 + below(20);
    limits_.queue_bytes = 200 + below(2000);
    limits_.queue_time = std::chrono::hours(1);
    if (pool_limits_ && below(2)) limits_.max_in_flight = 1 + static_cast<std::uint32_t>(below(10));
    if (pool_limits_ && below(2)) limits_.max_queued_tokens = 500 + below(8000);
    pool_->set_limits(limits_, at(now_));
  }
  void take_grants() {
    for (; !sink_.all.empty(); sink_.all.erase(sink_.all.begin())) {
      Granted granted = std::move(sink_.all.front());
      const auto id = *std::static_pointer_cast<std::uint64_t>(granted.waiter);
      const auto found = waiting_.find(id);
      ASSERT_NE(found, waiting_.end()) << "it does not wait, or was told before";
      ++told_[id];
      if (auto* const lease = std::get_if<Lease>(&granted.what)) {
        ++granted_;
        hold(std::move(*lease), found->second);
      }
      waiting_.erase(found);
    }
  }

  void check_gauges() {
    std::map<ReplicaIndex, ReplicaLoad> account;
    for (const Held& held : held_) {
      ReplicaLoad& load = account[held.lease.replica()];
      if (!held.first_token) load.prefill_left += held.uncached;
      load.decode_left += held.expected - std::min(held.expected, held.streamed);
      load.resident += held.uncached + held.streamed;
      ++load.in_flight;
    }
    for (ReplicaIndex i = 0; i < specs_.size(); ++i) {
      const ReplicaLoad load = pool_->figures().load(i, at(now_));
      EXPECT_EQ(load.decode_left, account[i].decode_left);
      EXPECT_EQ(load.resident, account[i].resident);
      EXPECT_EQ(load.in_flight, account[i].in_flight);
      EXPECT_GE(load.prefill_left, account[i].prefill_left);
      if (now_ >= failed_ + 1) {
        EXPECT_EQ(load.prefill_left, account[i].prefill_left);
      }
      EXPECT_LT(load.prefill_left, 100'000'000u) << "below zero";
    }
  }

  std::optional<Tokens> context_of(std::size_t r) const {
    return specs_[r].max_context ? specs_[r].max_context : known_[r].told;
  }
  bool has_room(std::size_t r, Tokens prompt) {
    const ReplicaLoad load = pool_->figures().load(static_cast<ReplicaIndex>(r), at(now_));
    const ReplicaSpec& spec = specs_[r];
    if (spec.draining || now_ < known_[r].rests_until) return false;
    if (spec.max_in_flight && load.in_flight >= *spec.max_in_flight) return false;
    return !spec.max_queued_tokens || load.prefill_left == 0 || load.prefill_left + prompt <= *spec.max_queued_tokens;
  }
  bool may_take(std::size_t r, const Request& request) {
    const auto holds = [&](std::size_t one, Tokens tokens) { return !context_of(one) || tokens <= *context_of(one); };
    bool any = false, any_in = false, any_holds_prompt = false;
    for (std::size_t one = 0; one < specs_.size(); ++one) {
      any |= holds(one, request.context);
      any_in |= holds(one, request.context) && !specs_[one].draining;
      any_holds_prompt |= holds(one, request.prompt) && !specs_[one].draining;
    }
    const bool prompt_alone = !any_in && any_holds_prompt;
    const bool suffices = holds(r, prompt_alone ? request.prompt : request.context);
    return (suffices || (!any && !prompt_alone)) && has_room(r, request.prompt);
  }
  void check_waiting() {
    Tokens queued = 0;
    bool all_idle = held_.empty();
    for (ReplicaIndex r = 0; r < specs_.size(); ++r) {
      const Tokens left = pool_->figures().load(r, at(now_)).prefill_left;
      queued += left;
      all_idle &= left == 0;
    }
    const bool somebody_waits_long =
        std::ranges::any_of(waiting_, [&](const auto& one) { return now_ - one.second.since >= 5; });
    if (somebody_waits_long && pool_limits_ && !all_idle) return;
    std::size_t could_take = 0;
    for (std::size_t r = 0; r < specs_.size(); ++r) {
      could_take += std::ranges::any_of(waiting_, [&](const auto& one) {
        const Tokens prompt = one.second.prompt;
        if (limits_.max_in_flight && held_.size() >= *limits_.max_in_flight) return false;
        if (limits_.max_queued_tokens && queued > 0 && queued + prompt > *limits_.max_queued_tokens) return false;
        return may_take(r, one.second);
      });
    }
    const std::size_t half = std::max<std::size_t>(1, (specs_.size() - one_drains_) / 2);
    EXPECT_LE(could_take, somebody_waits_long && !all_idle ? half : 0)
        << "at " << now_ << " s, " << waiting_.size() << " wait";
  }

  /// Replicas recover and running requests end; then everything that waits is granted.
  void recover() {
    for (ReplicaSpec& spec : specs_) spec = replica(spec.name, spec.weight);
    pool_->set_replicas(specs_, at(now_));
    PoolLimits wide;
    wide.queue = 10'000;
    pool_->set_limits(wide, at(now_));
    for (int i = 0; i < 3000 && (!waiting_.empty() || !held_.empty() || !sink_.all.empty()); ++i) {
      now_ += 1;
      for (ReplicaIndex r = 0; r < specs_.size(); ++r)
        pool_->health().report(pool_->figures().key(r), Sign::probe_passed, at(now_));
      look();
      take_grants();
      for (Held& held : std::exchange(held_, {})) {
        held.lease.first_token(at(now_));
        held.lease.end(LeaseEnd(EndCause::answered), at(now_));
      }
    }
    EXPECT_TRUE(waiting_.empty());
  }

  std::mt19937_64 random_;
  const bool ill_, pool_limits_, one_drains_;
  Grantees sink_;
  std::shared_ptr<Pool> pool_;
  PoolLimits limits_;
  std::vector<ReplicaSpec> specs_;
  std::vector<Known> known_;
  std::vector<Held> held_;
  std::map<std::uint64_t, Request> waiting_;
  std::map<std::uint64_t, int> told_;  ///< How often each request was told what becomes of it.
  std::uint64_t ids_ = 0;
  std::size_t waited_ = 0, granted_ = 0;
  Tokens cached_ = 0;
  double now_ = 10, failed_ = -10;
};

TEST(PoolPlayer, NobodyWaitsInVainOrIsToldTwiceAndTheBooksAreRight) {
  for (const bool ill : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const auto policy = seed % 4 == 3 ? config::Policy::round_robin : config::Policy::least_queued_tokens;
      SCOPED_TRACE(testing::Message() << (ill ? "ill, seed " : "seed ") << seed);
      Player player(policy, seed, ill);
      player.run(1500);
      const bool counts_cached = seed % 3 != 0 && policy == config::Policy::least_queued_tokens;
      EXPECT_EQ(player.cached() > 1000, counts_cached);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace weir::balancer
