// Whole rollouts in simulated time: weir's pool and the story of each request before engine models, and all that
// decides about the rollout as weir runs it, with balancer::rollout::Follower, its machine, the split, and the gate by
// the samples of the simulated requests.
//
// The pool has two replicas of the version in use and two of the candidate, on GPUs whose speed drifts. In the shadow
// step a copy of each request of the first replica goes to the first replica of the candidate, and one to a control.
// Simulated are time, engines, connections, the beginning of each conversation, and how long the answers to greedy
// requests, which are half of all, stay the same . weir's own I/O is left out,
// and the gate is asked less often.
// A run is deterministic by seed.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "balancer/rollout/follower.hpp"
#include "lab/plan/simulation.hpp"
#include "metrics/record/answer.hpp"
#include "tests/bench/drifting_engine.hpp"

namespace weir::bench {

namespace compare = metrics::compare;
namespace rollout = balancer::rollout;
using lab::plan::Simulation;
using lab::plan::TracedRequest;

enum class Death : std::uint8_t { none, hangs, refuses };

/// The faults of a candidate.
struct Candidate {
  double step = 1;            ///< Each of its steps takes so many times as long.
  double fails = 0;           ///< The share of requests that it answers with 500.
  double freeze_s = 0;        ///< All its streams stand still for so long,
  double freezes_in = 40;     ///< at random, once in so many seconds in the mean.
  double leaves = 1;          ///< Its greedy answers leave the primary's text so many times as soon as the control's.
  Death dies = Death::none;   ///< Both replicas, at a moment that the seed draws,
  double dies_within = 3600;  ///< so many seconds after the first live step at most.
};

struct RolloutOptions {
  double drift_sd = 0.02, drift_s = 300;
  double rate = 5;     ///< Requests of clients a second; half of them go to the replica that is mirrored.
  double speed = 1.5;  ///< Of the GPUs.
  bool slo = false;    ///< An objective counts.
  bool shadow = true;  ///< The first step is that of a shadow.
  config::OtherAnswers answers = config::OtherAnswers::look;
  double gate_every = 30;     ///< Seconds.
  double longest = 5 * 3600;  ///< Seconds, after which a rollout is given up.
};

struct RolloutEnded {
  rollout::State state = rollout::State::idle;
  rollout::Reason reason = rollout::Reason::start;  ///< Of the last move.
  std::string why;
  double hours = 0;
  std::string step;            ///< From which it went.
  double noticed_s = 0;        ///< From a death to the return.
  std::size_t requests = 0;    ///< Of clients, from the first step to the last.
  std::size_t candidates = 0;  ///< Those of them that the candidate had.
  double due = 0;              ///< The sum of the shares under which they came.
  std::size_t harmed = 0;      ///< Clients that were told of an error, or whose stream broke off.
  std::size_t after = 0;       ///< Requests that the candidate got while its share was 0.
};

/// The load of a bench: requests whose beginnings are drawn anew for each rollout.
struct RolloutTraffic {
  RolloutTraffic(std::span<const TraceEntry> trace, std::size_t count, std::uint64_t seed)
      : requests(lab::plan::requests_of(trace, count, seed)) {
    for (const auto& one : trace) lengths.push_back(one.output_tokens);
  }

  std::vector<TracedRequest> requests;
  std::vector<std::uint64_t> lengths;
};

/// Returns the load with conversations of this seed.
inline std::vector<TracedRequest> conversations_of(const RolloutTraffic& traffic, std::uint64_t seed) {
  auto requests = traffic.requests;
  Random random(seed);
  for (auto& one : requests) {
    auto facts = *one.facts;
    facts.conversation = random.next() | 1;
    one.facts = std::make_shared<const metrics::wire::RequestFacts>(std::move(facts));
  }
  return requests;
}

class RolloutRun final : lab::plan::Watcher {
 public:
  RolloutRun(const RolloutTraffic& traffic, const Candidate& candidate, const RolloutOptions& options,
             std::uint64_t seed)
      : traffic_(traffic),
        candidate_(candidate),
        options_(options),
        requests_(conversations_of(traffic, seed_of(seed, 1))),
        random_(seed_of(seed, 2)),
        sim_(setup(seed)),
        follower_(settings(options)) {
    for (std::size_t e = 0; e < engines; ++e) sim_.line().engines[e].set_pace(pace(e, seed_of(seed, 20 + e)));
    if (candidate.fails > 0)
      for (const std::size_t r : candidates)
        sim_.errors_of(r).fails = [this](std::size_t) { return chance(candidate_.fails); };
    for (const std::size_t r : candidates)
      keys_.push_back(sim_.pool().figures().key(static_cast<balancer::ReplicaIndex>(r)));
    sim_.pool().set_split(0, now());
    dies_after_ = candidate.dies_within * random_.uniform();
  }

  /// Runs the rollout to its end.
  RolloutEnded run() {
    sim_.line().every(1, [this] { tick(); });
    sim_.serve(requests_, options_.rate, options_.longest, options_.longest);
    return std::move(ended_);
  }

 private:
  using Sample = compare::samples::Sample;
  static constexpr std::size_t twin = 0, control = 4, engines = 5;
  static constexpr std::array<std::size_t, 2> candidates{2, 3};
  static constexpr std::array<std::string_view, engines> replica_names{"gpu0", "gpu1", "gpu2", "gpu3", "control0"};
  static constexpr double begins_at = 120, goes_on = 30;
  static constexpr std::int64_t begin_us = 1'795'219'200'000'000;

  struct Load {
    std::uint32_t in_flight = 0;
    double area = 0, since = 0;
    void change(double now, int by) {
      area += (now - since) * in_flight;
      since = now;
      in_flight = static_cast<std::uint32_t>(static_cast<int>(in_flight) + by);
    }
  };
  /// The stream of a request or of a copy at an engine.
  struct Stream {
    std::size_t request = 0, engine = 0;
    double began = 0, area = 0;
    std::uint32_t in_flight_at_start = 0;
    double first = 0, last = 0, gone = 0;
    std::uint64_t tokens = 0;
    metrics::record::GapSketch gaps;
  };

  lab::plan::Setup setup(std::uint64_t seed) {
    lab::plan::Setup setup;
    setup.engines.resize(4);
    setup.candidates = candidates.size();
    setup.beside.resize(1);
    for (auto& one : setup.engines) one.speed = options_.speed;
    setup.beside[0].speed = options_.speed;
    setup.seed = seed_of(seed, 3);
    setup.engine_seed = seed_of(seed, 4);
    setup.watcher = this;
    return setup;
  }

  static config::Rollout settings(const RolloutOptions& options) {
    using config::Seconds;
    config::Rollout all;
    all.name = "upgrade";
    all.pool = "chat";
    all.candidate = "new";
    all.shadow = "upgrade";
    if (options.slo) all.slo = "chat";
    all.answers = options.answers;
    all.steps = {{true, 0, Seconds(1200)},     {false, 0.01, Seconds(600)}, {false, 0.05, Seconds(600)},
                 {false, 0.25, Seconds(1200)}, {false, 0.5, Seconds(1200)}, {false, 1, Seconds(0)}};
    if (options.shadow) return all;
    all.shadow.clear();
    all.steps.erase(all.steps.begin());
    return all;
  }
  static config::Slo objective() { return {"chat", "chat", config::Seconds(1.0), {}, config::Seconds(0.05), {}}; }
  std::optional<config::Slo> slo() const { return options_.slo ? std::optional(objective()) : std::nullopt; }

  lab::plan::TimedEngine::Pace pace(std::size_t engine, std::uint64_t seed) const {
    const bool is_new = engine == candidates[0] || engine == candidates[1];
    const double step = is_new ? candidate_.step : 1, freeze = is_new ? candidate_.freeze_s : 0;
    return [step, freeze, in = candidate_.freezes_in,
            speed = Speed({options_.drift_sd, options_.drift_s}, seed_of(seed, 1)), random = Random(seed_of(seed, 2)),
            next = 0.0](double now) mutable {
      const double factor = step / speed.at(now);
      if (freeze <= 0 || now < next) return factor;
      const bool first = next == 0;
      next = now + in * random.exponential();
      constexpr double usual_step = 0.025;
      return first ? factor : factor * (1 + freeze / usual_step);
    };
  }

  bool chance(double share) { return random_.uniform() < share; }
  balancer::Moment now() const {
    return balancer::Moment() + std::chrono::nanoseconds(std::llround(sim_.line().now() * 1e9));
  }
  static std::int64_t wall_us(double seconds) { return begin_us + std::llround(seconds * 1e6); }
  static bool is_new(std::size_t replica) { return replica == candidates[0] || replica == candidates[1]; }

  // The simulation calls these.

  void placed(std::size_t i, std::size_t replica) override {
    begin(i, i, replica);
    if (sim_.course(i).asked.size() == 1 && ended_.step.empty() && began_) {
      ++ended_.requests;
      ended_.due += follower_.machine.share();
      ended_.candidates += is_new(replica);
    }
    if (is_new(replica) && follower_.machine.share() <= 0) ++ended_.after;
    if (!mirrors_ || replica != twin || sim_.course(i).asked.size() > 1) return;
    mirror(i, control);
    if (began_) mirror(i, candidates[0]);
  }

  void left(std::size_t i, std::size_t replica) override {
    loads_[replica].change(sim_.line().now(), -1);
    const auto found = streams_.find(i);
    if (found == streams_.end()) return;
    last_of_[i] = std::move(found->second);
    last_of_[i].gone = sim_.line().now();
    streams_.erase(found);
  }

  void token(std::size_t engine, const lab::engine::TokenEvent& event) override {
    const auto found = streams_.find(event.id);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    const double now = sim_.line().now();
    if (stream.tokens == 0)
      stream.first = now;
    else
      stream.gaps.add(std::chrono::nanoseconds(std::llround((now - stream.last) * 1e9)));
    stream.last = now;
    stream.tokens += event.tokens;
    if (!event.last || event.id < Simulation::first_copy) return;
    loads_[engine].change(now, -1);
    stream.gone = now;
    const Stream whole = std::move(stream);
    streams_.erase(found);
    copy_ended(whole, true);
  }

  void finished(std::size_t i, metrics::Outcome outcome) override {
    const bool well = outcome == metrics::Outcome::ok;
    if (!well && began_) ++ended_.harmed;
    auto& course = sim_.course(i);
    Sample sample = sample_of(last_of_[i], well);
    sample.outcome = outcome;
    sample.received_us = wall_us(course.arrived);
    sample.id = {1, i + 1};
    sample.config = names_.of(course.asked.empty() ? "" : is_new(course.asked.back()) ? "new" : "old");
    if (well) sample.ttft_client = static_cast<float>(last_of_[i].first - course.arrived);
    sample.lasted = static_cast<float>(sim_.line().now() - course.arrived);
    sample.greedy = is_greedy(i);
    keep(std::move(sample));
    last_of_.erase(i);
    over_.emplace(i, true);
    if (const auto waiting = waiting_.equal_range(i); waiting.first != waiting.second) {
      for (auto one = waiting.first; one != waiting.second; ++one) keep(std::move(one->second));
      waiting_.erase(i);
    }
  }

  // Requests and copies.

  void begin(std::uint64_t id, std::size_t i, std::size_t engine) {
    Load& load = loads_[engine];
    Stream stream;
    stream.request = i;
    stream.engine = engine;
    stream.began = sim_.line().now();
    stream.in_flight_at_start = load.in_flight;
    load.change(sim_.line().now(), 1);
    stream.area = load.area;
    streams_.insert_or_assign(id, std::move(stream));
  }

  void mirror(std::size_t i, std::size_t engine) {
    const auto id = Simulation::first_copy + 2 * i + (engine == control ? 0 : 1);
    begin(id, i, engine);
    if (engine != control && chance(candidate_.fails)) {
      const auto failed = std::move(streams_.at(id));
      streams_.erase(id);
      loads_[engine].change(sim_.line().now(), -1);
      return copy_ended(failed, false);
    }
    // Greedy answers are as long as the primary's. Of others the length is drawn anew.
    const auto& lengths = traffic_.lengths;
    sim_.copy(i, engine, id, is_greedy(i) ? requests_[i].output_tokens : lengths[random_.below(lengths.size())]);
  }

  void copy_ended(const Stream& stream, bool well) {
    const std::size_t i = stream.request;
    Sample sample = sample_of(stream, well);
    const bool of_control = stream.engine == control;
    sample.id = {of_control ? 3u : 2u, i + 1};
    sample.pair = {1, i + 1};
    sample.role = metrics::Role::shadow;
    sample.shadow = names_.of(of_control ? "control" : "upgrade");
    sample.config = names_.of(of_control ? "old" : "new");
    sample.received_us = sample.dispatched_us;
    sample.greedy = is_greedy(i);
    if (well && sample.greedy) leave_text(sample, i, of_control);
    if (over_.contains(i))
      keep(std::move(sample));
    else
      waiting_.emplace(i, std::move(sample));
  }

  Sample sample_of(const Stream& stream, bool well) {
    const auto& request = requests_[stream.request];
    Sample sample;
    sample.dispatched_us = wall_us(stream.began);
    sample.pool = names_.of("chat");
    sample.replica = names_.of(replica_names[stream.engine]);
    sample.api = metrics::Api::openai_chat;
    sample.stream = true;
    sample.served = well;
    sample.outcome = well ? metrics::Outcome::ok : metrics::Outcome::upstream_error;
    sample.status = well ? 200 : 500;
    sample.prompt_tokens = static_cast<std::uint32_t>(request.prompt_tokens);
    sample.cached_tokens = 0;
    const double took = stream.gone - stream.began;
    sample.lasted = static_cast<float>(took);
    sample.in_flight_at_start = stream.in_flight_at_start;
    if (!well) return sample;
    const auto& load = loads_[stream.engine];
    sample.in_flight_mean = static_cast<float>((load.area - stream.area) / std::max(took, 1e-9));
    sample.output_tokens = static_cast<std::uint32_t>(stream.tokens);
    sample.output_chars = 4 * sample.output_tokens;
    sample.ttft = sample.ttft_client = static_cast<float>(stream.first - stream.began);
    if (stream.tokens > 1)
      sample.tpot = static_cast<float>((stream.last - stream.first) / static_cast<double>(stream.tokens - 1));
    sample.e2e = sample.lasted;
    sample.gaps_are_itl = true;
    sample.gaps.assign(stream.gaps.bins().begin(), stream.gaps.bins().end());
    return sample;
  }

  static bool is_greedy(std::size_t i) { return i % 2 == 0; }

  /// Says where the answer leaves the primary's text.
  void leave_text(Sample& sample, std::size_t i, bool of_control) {
    constexpr double per_token = 0.5 / 1000;
    constexpr std::uint32_t bytes_of_a_token = 4, checkpoint = 64;
    const double frailty = std::exp(Random(seed_of(7, i)).normal() - 0.5);
    const double hazard = per_token * frailty * (of_control ? 1 : candidate_.leaves);
    const double after = random_.exponential() / hazard;
    sample.same_text = after >= sample.output_tokens;
    const auto common = static_cast<std::uint32_t>(std::min<double>(after, sample.output_tokens) * bytes_of_a_token);
    sample.common_prefix_bytes = sample.same_text ? common : common / checkpoint * checkpoint;
  }

  void keep(Sample sample) {
    samples_.push_back(std::move(sample));
    came_.push_back(now());
  }

  // The rollout, as proxy/rollout/rollouts.cpp runs it.

  void tick() {
    if (ends_at_) {
      if (sim_.line().now() >= *ends_at_) sim_.stop();
      return;
    }
    if (sim_.line().now() < begins_at) return;
    if (!std::exchange(began_, true)) take(std::get<rollout::Move>(follower_.machine.start()));
    die();
    const auto objective = slo();
    auto facts = follower_.look(sim_.pool(), keys_, {names_, [this](auto since) { return samples_since(since); }},
                                objective ? &*objective : nullptr, now());
    if (const auto move = follower_.machine.tick(facts)) take(*move);
    ask_gate(objective);
  }

  void take(const rollout::Move& move) {
    const auto& machine = follower_.machine;
    sim_.pool().set_split(machine.share(), now());
    follower_.moved(move.reason, sim_.pool().split(), now());
    mirrors_ = machine.shadow().value_or(false);
    ended_.state = machine.standing().state;
    ended_.reason = move.reason;
    ended_.why = move.line;
    ended_.hours = (sim_.line().now() - begins_at) / 3600;
    if (machine.share() > 0 && !live_since_) live_since_ = sim_.line().now();
    if (ended_.state == rollout::State::shadow || ended_.state == rollout::State::live) {
      step_ = machine.step_text();
      return;
    }
    ended_.step = step_.substr(0, step_.find(' '));
    if (died_at_) ended_.noticed_s = sim_.line().now() - *died_at_;
    ends_at_ = sim_.line().now() + goes_on;
  }

  void die() {
    if (candidate_.dies == Death::none || died_at_ || !live_since_ || sim_.line().now() < *live_since_ + dies_after_)
      return;
    died_at_ = sim_.line().now();
    for (const std::size_t r : candidates) {
      if (candidate_.dies == Death::hangs)
        sim_.hang(r);
      else
        sim_.kill(r);
    }
  }

  std::vector<const Sample*> samples_since(balancer::Moment moment) const {
    const auto first = std::ranges::lower_bound(came_, moment) - came_.begin();
    std::vector<const Sample*> since;
    for (auto i = static_cast<std::size_t>(first); i < samples_.size(); ++i) since.push_back(&samples_[i]);
    return since;
  }

  void ask_gate(const std::optional<config::Slo>& objective) {
    if (!follower_.gate_is_due(now()) || sim_.line().now() < next_gate_) return;
    next_gate_ = sim_.line().now() + options_.gate_every;
    const auto question = follower_.gate_asked(now());
    if (follower_.machine.share() > 0) {
      const rollout::SplitSides sides{"chat", "new", "old", objective};
      const rollout::SplitGate gate(std::make_shared<compare::samples::Names>(names_),
                                    samples_since(follower_.step_began()), sides);
      return follower_.gate_said(question, gate.judge().gate);
    }
    compare::comparison::Options options;
    options.a = {compare::sides::By::shadow, names_.of("control"), metrics::Role::shadow};
    options.b = {compare::sides::By::shadow, names_.of("upgrade"), metrics::Role::shadow};
    options.slo = objective;
    follower_.gate_said(question, gate_of(compare::comparison::compare(samples_, names_, options)));
  }

  const RolloutTraffic& traffic_;
  const Candidate candidate_;
  const RolloutOptions options_;
  const std::vector<TracedRequest> requests_;
  Random random_;
  std::array<Load, engines> loads_{};
  std::unordered_map<std::uint64_t, Stream> streams_;  ///< By the engine's id.
  std::unordered_map<std::size_t, Stream> last_of_;    ///< The last attempt of each request that is not over.
  std::unordered_map<std::size_t, bool> over_;         ///< Requests that have ended.
  std::multimap<std::size_t, Sample> waiting_;         ///< Copies whose request has not ended.
  compare::samples::Names names_;
  std::vector<Sample> samples_;         ///< In the order in which they came.
  std::vector<balancer::Moment> came_;  ///< When each of them did.
  Simulation sim_;
  rollout::Follower follower_;
  std::vector<balancer::ReplicaKey> keys_;
  std::string step_;
  bool mirrors_ = false, began_ = false;
  std::optional<double> live_since_, died_at_, ends_at_;
  double dies_after_ = 0, next_gate_ = 0;
  RolloutEnded ended_;
};

}  // namespace weir::bench
