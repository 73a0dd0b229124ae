// No request waits for a replica that may take it. A plain account of what a replica may take stands beside the pool,
// and looks at every request and every replica after each call.
//
// There are these exceptions. A replica on which a request has failed rests for 1 s. A request waits for a context that
// suffices where the pool has one that takes requests, and for one that holds its prompt in any case. Once somebody has
// waited for 5 s, up to half of the replicas, or one, may be reserved for those who had their turn and fitted nowhere,
// and with a limit of the whole pool all of them; a reserved replica has work, or it takes the one it is reserved for.
#include <algorithm>
#include <map>
#include <random>

#include "balancer/pool.hpp"
#include "prompts.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

class Conservation {
 public:
  Conservation(std::uint64_t seed, bool pool_limits)
      : random_(seed), pool_limits_(pool_limits), one_drains_(seed % 4 > 1) {
    pool_ = Pool::make(config::Policy::least_queued_tokens, seed, &sink_);
    pool_->set_prefix_aware(seed % 3 != 0);
    specs_.resize(3 + below(2));
    known_.resize(specs_.size());
    change_limits();
    change_replicas();
  }
  // A lease that goes grants the next.
  ~Conservation() {
    while (!held_.empty() || !sink_.all.empty()) {
      held_.clear();
      settle();
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ += below(20) == 0 ? static_cast<double>(below(3)) : 0.001 * static_cast<double>(below(60));
      step();
      settle();
      check();
    }
    if (!testing::Test::HasFailure()) {
      EXPECT_GT(waited_, 50u) << "hardly anybody waited";
    }
  }

 private:
  struct Known {
    std::optional<Tokens> told;
    double rests_until = 0;
  };
  struct Waits {
    Tokens prompt, context;
    double since;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void step() {
    const auto what = below(100);
    if (what < 42) return offer();
    if (what < 60 && !held_.empty()) return first_token();
    if (what < 84 && !held_.empty()) return end();
    if (what < 90 && !waiting_.empty()) return leave();
    if (what < 94) return engine_tells();
    if (what < 96) return change_replicas();
    if (what < 98) return change_limits();
    pool_->health().take_changes(at(now_));
  }

  void offer() {
    static constexpr Tokens longest[] = {50, 700, 1100, 1500, 6000, 40'000};
    const Tokens prompt = 1 + below(longest[below(std::size(longest))]);
    RequestFacts facts = prompt_of(prompt, below(6) == 0 ? 60'000 : below(300));
    std::vector<Serial> tried;
    for (ReplicaIndex r = 0; r < specs_.size(); ++r)
      if (below(8) == 0) tried.push_back(pool_->figures().key(r).serial);
    const auto id = ++ids_;
    PlacementRequest placement{.facts = shared(facts), .tried = tried, .fair_key = below(3), .bytes = below(100)};
    placement.front_of_queue = below(12) == 0;
    placement.waiter = std::make_shared<std::uint64_t>(id);
    if (below(2)) placement.prefix = prefix_of(below(10), prompt);
    auto offered = pool_->offer(placement, at(now_));
    if (auto* admitted = std::get_if<Admitted>(&offered)) held_.push_back(std::move(admitted->lease));
    if (const auto* waits = std::get_if<Waiting>(&offered)) {
      ++waited_;
      tickets_[id] = waits->ticket;
      waiting_[id] = {prompt, prompt + *facts.max_tokens, now_};
    }
  }
  void first_token() {
    held_[below(held_.size())].first_token(at(now_));
    pool_->health().take_changes(at(now_));  // The first token may have come before.
  }
  void end() {
    std::swap(held_[below(held_.size())], held_.back());
    Lease lease = std::move(held_.back());
    held_.pop_back();
    static constexpr EndCause causes[] = {EndCause::answered, EndCause::answered, EndCause::client_left,
                                          EndCause::replica_failed};
    const EndCause cause = causes[below(std::size(causes))];
    if (cause == EndCause::replica_failed) known_[lease.replica()].rests_until = now_ + 1;
    lease.end(LeaseEnd(cause), at(now_));
  }
  void leave() {
    const auto one = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(below(waiting_.size())));
    EXPECT_TRUE(pool_->leave(tickets_[one->first], at(now_)));
    waiting_.erase(one);
  }
  void engine_tells() {
    const auto r = static_cast<ReplicaIndex>(below(specs_.size()));
    known_[r].told.reset();
    if (below(3)) known_[r].told = Tokens{1000} << below(6);
    pool_->health().engine_told(pool_->figures().key(r), {std::nullopt, known_[r].told});
    pool_->health().take_changes(at(now_));  // An engine's page has no time.
  }
  void change_replicas() {
    for (std::size_t r = 0; r < specs_.size(); ++r) {
      ReplicaSpec spec = replica("r" + std::to_string(r));
      spec.health.eject = false;  // Nobody is out here.
      spec.draining = r == 0 && one_drains_;  // One that comes back would have to start.
      if (below(2)) spec.max_in_flight = 1 + static_cast<std::uint32_t>(below(4));
      if (below(2)) spec.max_queued_tokens = 200 + below(4000);
      if (below(3) == 0) spec.max_context = Tokens{1000} << below(6);
      specs_[r] = spec;
    }
    pool_->set_replicas(specs_, at(now_));
  }
  void change_limits() {
    limits_ = {};
    limits_.queue = 10 + below(20);
    limits_.queue_bytes = 200 + below(2000);
    limits_.queue_time = std::chrono::hours(1);
    if (pool_limits_ && below(2)) limits_.max_in_flight = 1 + static_cast<std::uint32_t>(below(10));
    if (pool_limits_ && below(2)) limits_.max_queued_tokens = 500 + below(8000);
    pool_->set_limits(limits_, at(now_));
  }
  void settle() {
    while (!sink_.all.empty()) {
      Granted granted = std::move(sink_.all.front());
      sink_.all.erase(sink_.all.begin());
      EXPECT_EQ(waiting_.erase(*std::static_pointer_cast<std::uint64_t>(granted.waiter)), 1u);
      if (auto* lease = std::get_if<Lease>(&granted.what)) held_.push_back(std::move(*lease));
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
  bool may_take(std::size_t r, const Waits& request) {
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
  void check() {
    Tokens queued = 0;
    std::uint32_t held = 0;
    bool somebody_waits_long = false, all_idle = true;
    for (std::size_t r = 0; r < specs_.size(); ++r) {
      const ReplicaLoad load = pool_->figures().load(static_cast<ReplicaIndex>(r), at(now_));
      queued += load.prefill_left;
      held += load.in_flight;
      all_idle &= load.in_flight == 0 && load.prefill_left == 0;
    }
    for (const auto& [id, request] : waiting_) somebody_waits_long |= now_ - request.since >= 5;
    if (somebody_waits_long && pool_limits_ && !all_idle) return;
    std::size_t could_take = 0;
    for (std::size_t r = 0; r < specs_.size(); ++r) {
      could_take += std::ranges::any_of(waiting_, [&](const auto& one) {
        const Waits& request = one.second;
        if (limits_.max_in_flight && held >= *limits_.max_in_flight) return false;
        if (limits_.max_queued_tokens && queued > 0 && queued + request.prompt > *limits_.max_queued_tokens) return false;
        return may_take(r, request);
      });
    }
    const std::size_t reserved = somebody_waits_long && !all_idle ? std::max<std::size_t>(1, (specs_.size() - one_drains_) / 2) : 0;
    EXPECT_LE(could_take, reserved) << "at " << now_ << " s, " << waiting_.size() << " wait";
  }

  std::mt19937_64 random_;
  const bool pool_limits_, one_drains_;
  Grantees sink_;
  std::shared_ptr<Pool> pool_;
  PoolLimits limits_;
  std::vector<ReplicaSpec> specs_;
  std::vector<Known> known_;
  std::vector<Lease> held_;
  std::map<std::uint64_t, WaitTicket> tickets_;
  std::map<std::uint64_t, Waits> waiting_;
  std::uint64_t ids_ = 0;
  std::size_t waited_ = 0;
  double now_ = 10;
};

TEST(PoolConservation, NobodyWaitsForAReplicaThatMayTakeHim) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Conservation(seed, seed % 2 == 0).run(1500);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weir::balancer
