// Engines that live through random histories beside one that is stopped: nobody but the stopped one is ever out, and it
// is out as soon as its witnesses have spoken.
//
// An engine prefills one prompt at a time and decodes nothing meanwhile, or works on one request at a time; it may
// compile for 40 s before one of its requests, its tool parser may buffer what it generates, and a client may leave its
// stream unread. Its door answers as long as its process lives. So does that of an engine that is deadlocked.
#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "balancer/pool.hpp"
#include "balancer/pool_health.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

constexpr double tick = 0.05, probe_takes_at_most = 5, probe_every = 5, page_every = 1, page_takes_at_most = 5;

class Town {
 public:
  enum class Fate : std::uint8_t { stops, deadlocks };  ///< Of the first engine.

  explicit Town(std::uint32_t seed, Fate fate = Fate::stops) : random_(seed), fate_(fate) {
    std::vector<ReplicaSpec> specs;
    for (const auto* name : {"a", "b", "c", "d"}) specs.push_back(replica(name));
    pool_ = pool_of(specs, config::Policy::least_queued_tokens, seed);
    for (ReplicaIndex i = 0; i < specs.size(); ++i) {
      Engine engine;
      engine.key = pool_->figures().key(i);
      engine.prefill = std::exp(uniform(std::log(500), std::log(20'000)));
      engine.tells_counters = below(2) == 0 && (i > 0 || fate_ == Fate::stops);
      engine.one_at_a_time = below(3) == 0;
      engine.pause = below(2) == 0 ? tick : 2 * tick;
      engine.next_probe = uniform(0, probe_every);
      engines_.push_back(std::move(engine));
    }
    compiles_ = below(2) == 0;
    load_ = uniform(0.05, fate_ == Fate::stops ? 1 : 0.3);
  }

  /// `stops_at`: the first engine's process stops then.
  void live(double seconds, double stops_at) {
    for (int i = 1; tick * i <= seconds; ++i) {
      now_ = tick * i;
      engines_[0].stopped = now_ >= stops_at;
      if (uniform(0, 1) < load_ * tick) ask(stops_at);
      for (auto& engine : engines_) works(engine);
      pool_looks();
      for (auto& engine : engines_) witnesses(engine);
      for (std::size_t which = 1; which < engines_.size(); ++which)
        ASSERT_FALSE(is_out(which)) << "engine " << which << " lives at " << now_ << ": "
                                    << pool_->health().of(engines_[which].key, at(now_)).reason;
      if (is_out(0) && !out_at) out_at = now_;
      ASSERT_FALSE(out_at && now_ < stops_at) << pool_->health().of(engines_[0].key, at(now_)).reason;
      if (out_at) return;
    }
  }

  std::string reason() const { return pool_->health().of(engines_[0].key, at(now_)).reason; }

  /// How long its books may explain a silence of the first engine, four times, where its rate is not known.
  double explained() const {
    double prompts = 0;
    for (const auto& request : engines_[0].requests)
      if (request.made == 0) prompts += static_cast<double>(request.prompt);
    return 4 * prompts / silence::slowest_prefill;
  }

  std::optional<double> out_at, suspected_at;

 private:
  struct Request {
    Lease lease;
    Tokens prompt = 0, output = 0;
    bool stream = true, unread = false, buffers = false;
    double prefill_left = 0;  ///< In seconds; a compilation is part of it.
    double next_token = 0;
    Tokens made = 0, shown = 0;
  };
  struct Engine {
    ReplicaKey key;
    double prefill = 1000;
    bool tells_counters = false, stopped = false, one_at_a_time = false;
    double pause = tick;
    double counters = 0;
    std::vector<Request> requests;
    double next_probe = 0;
    std::optional<double> probe_begun, page_at;
    bool is_to_be_probed = false;  ///< At once, behind the probe that is under way.
    double page_begun = 0;
    double counters_then = -1;
    double last_token = -1, compiles_after = 0;
  };

  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_); }
  double uniform(double from, double to) { return std::uniform_real_distribution(from, to)(random_); }
  bool is_out(std::size_t which) {
    const auto state = pool_->health().of(engines_[which].key, at(now_)).state;
    return state == ReplicaState::ejected || state == ReplicaState::down;
  }

  void ask(double stops_at) {
    Request request;
    request.prompt = static_cast<Tokens>(std::exp(uniform(std::log(10), std::log(60'000))));
    request.output = 1 + below(400);
    request.stream = below(3) != 0;
    request.buffers = below(10) == 0;
    if (fate_ == Fate::deadlocks) {
      request.prompt = 10 + below(1000);
      request.stream = false;
    } else if (!request.stream && below(8) == 0) {
      request.output = 1000 + below(5000);
    }
    auto facts = prompt_of(request.prompt, request.output * (1 + below(3)));
    facts.stream = request.stream;
    if (fate_ == Fate::stops && below(4) == 0) facts.max_tokens.reset();
    request.lease = admitted(place(*pool_, facts, at(now_)));
    auto& engine = engines_[request.lease.replica()];
    request.prefill_left = static_cast<double>(request.prompt) / engine.prefill;
    // A client of the engine that is to stop reads all it gets, so that its silence shows.
    request.unread = now_ < stops_at - 400 && request.stream && below(10) == 0;
    // The engine compiles once for a request at most, and is quick for a while then.
    if (compiles_ && now_ >= engine.compiles_after && below(20) == 0) {
      request.prefill_left += 40;
      engine.compiles_after = now_ + 300;
    }
    engine.requests.push_back(std::move(request));
  }

  void works(Engine& engine) {
    if (engine.stopped) return;
    double left = tick;
    const std::span at_work =
        std::span(engine.requests)
            .first(std::min(engine.requests.size(), engine.one_at_a_time ? std::size_t{1} : engine.requests.size()));
    for (auto& request : at_work) {
      const double done = std::min(left, request.prefill_left);
      request.prefill_left -= done;
      left -= done;
      if (done > 0 && request.prefill_left <= 0) request.next_token = now_;
      if (left <= 0) break;
    }
    if (left <= 0) return;  // A prefill stops the decoding, and counters tell of whole steps alone.
    for (auto& request : at_work) {
      if (request.prefill_left > 0 || now_ < request.next_token) continue;
      request.next_token = now_ + engine.pause;
      ++request.made;
      ++engine.counters;
      shows(engine, request);
    }
    std::erase_if(engine.requests, [&](Request& request) {
      if (request.made < request.output) return false;
      LeaseEnd end(EndCause::answered);
      end.prompt_tokens = request.prompt;
      end.output_tokens = request.output;
      request.lease.end(end, at(now_));
      return true;
    });
  }

  void shows(Engine& engine, Request& request) {
    if (!request.stream) return;
    if (request.made == 1) request.lease.first_token(at(now_));
    const bool at_end = request.made == request.output;
    if (request.unread) request.lease.leave_unread(request.made > 5 && !at_end);
    if (request.unread && request.made > 5 && !at_end) return;
    if (request.buffers && request.made % 200 != 0 && !at_end) return;
    request.lease.tokens(static_cast<std::uint32_t>(request.made - request.shown));
    request.shown = request.made;
    engine.last_token = now_;
  }

  void pool_looks() {
    static_cast<void>(pool_->health().take_changes(at(now_)));
    for (const auto& suspect : pool_->health().take_suspects()) {
      auto& engine = engines_[suspect.key.index];
      engine.next_probe = now_;
      engine.is_to_be_probed = true;
      engine.page_at = engine.page_begun = now_;
      engine.counters_then = -1;
      if (suspect.key.index == 0 && engine.stopped) suspected_at = now_;
    }
  }

  void witnesses(Engine& engine) {
    const bool mute = engine.stopped && fate_ == Fate::stops;
    if (!engine.probe_begun && now_ >= engine.next_probe) {
      engine.probe_begun = now_;
      engine.is_to_be_probed = false;
    }
    if (engine.probe_begun) {
      const double begun = *engine.probe_begun;
      const bool late = now_ >= begun + probe_takes_at_most;
      if (!mute || late) {
        engine.probe_begun.reset();
        engine.next_probe = engine.is_to_be_probed ? now_ : now_ + probe_every;
        const bool excused = mute && engine.last_token > begun;
        const auto sign = !mute ? Sign::probe_passed : excused ? Sign::probe_excused : Sign::probe_failed;
        pool_->health().report(engine.key, sign, at(now_));
        if (!excused)
          pool_->health().testify(engine.key, mute ? Testimony::mute : Testimony::answered, at(begun), at(now_));
      }
    }
    if (!engine.tells_counters || !engine.page_at || now_ < *engine.page_at) return;
    if (mute) {
      if (now_ < engine.page_begun + page_takes_at_most) return;
      pool_->health().testify(engine.key, Testimony::untold, at(engine.page_begun), at(now_));
      engine.page_begun = now_;
      return;
    }
    engine.page_begun = now_ + page_every;
    pool_->health().testify(engine.key, Testimony::told, at(now_), at(now_));
    if (engine.counters_then < 0)
      engine.counters_then = engine.counters;
    else
      pool_->health().testify(engine.key, engine.counters != engine.counters_then ? Testimony::works : Testimony::still,
                              at(now_), at(now_));
    engine.page_at = now_ + page_every;
  }

  std::mt19937 random_;
  Fate fate_;
  std::shared_ptr<Pool> pool_;
  std::vector<Engine> engines_;
  bool compiles_ = false;
  double load_ = 0, now_ = 0;
};

TEST(PoolSilence, OfAnEngineThatLivesNeverPutsItOut) {
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    Town town(seed);
    town.live(900, 1e9);
    EXPECT_FALSE(town.out_at) << "seed " << seed;
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(PoolSilence, OfADeadlockedOneBehindAnOpenDoorPutsItOutThoughNothingIsStreamed) {
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    Town town(seed, Town::Fate::deadlocks);
    town.live(3000, 450);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    EXPECT_TRUE(town.out_at) << "seed " << seed;
  }
}

TEST(PoolSilence, OfAStoppedOnePutsItOutWithinTheTimeOfAProbe) {
  int suspected = 0, deaf = 0;
  std::vector<std::uint32_t> seeds(16);
  std::iota(seeds.begin(), seeds.end(), 1u);
  seeds.push_back(71);  // Few are deaf before they are suspected.
  for (const std::uint32_t seed : seeds) {
    Town town(seed);
    town.live(1500, 450);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    ASSERT_TRUE(town.out_at) << "seed " << seed;
    if (!town.suspected_at) continue;  // Its probes alone showed it, before it had anything to answer.
    ++suspected;
    if (town.reason().find("neither its probe nor") != std::string::npos) ++deaf;
    const double silent_since = *town.suspected_at - silence::least_suspect_seconds;
    // A probe that was under way when it came to be suspected says nothing, and ends first.
    EXPECT_LE(*town.out_at,
              std::max(*town.suspected_at, silent_since + town.explained()) + 2 * probe_takes_at_most + 3 * tick)
        << "seed " << seed;
  }
  EXPECT_GT(suspected, 3);
  EXPECT_GT(deaf, 0);
}

}  // namespace
}  // namespace weir::balancer
