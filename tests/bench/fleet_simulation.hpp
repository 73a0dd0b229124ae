// Puts the balancer's own Pool in front of engine models, in simulated time, to show what a policy does for the time to
// first token.
//
// These are real: the pool with its ledger, learned speeds and estimator; the requests' bodies, read by the request
// inspector, so that prompts have to be estimated and the estimator has to learn; and the engine models that `weir-lab
// sim` runs. Time and the engines are simulated. weir's own I/O, aborts, failures and retries are left out.
//
// It is deterministic by seed and costs about 0.1 s for 2,000 requests (-O2).
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/pool.hpp"
#include "lab/engine/engine_model.hpp"
#include "lab/engine/random.hpp"
#include "lab/engine/words.hpp"
#include "lab/load/trace.hpp"
#include "lab/load/workload.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "tests/bench/traffic.hpp"

namespace weir::bench {

using balancer::Moment;
using balancer::Tokens;
using metrics::wire::RequestFacts;

/// A request as the replica sees it, and what weir reads of its body.
struct TracedRequest {
  double at = 0;  ///< It is in seconds, in the trace's own time.
  Tokens prompt_tokens = 1, output_tokens = 1;
  RequestFacts facts;
};

/// This spread makes texts uneven: a median estimate is off by about 10 %.
inline constexpr double usual_text_spread = 0.15;

/// Makes `count` requests from the trace, begun at an entry that the seed chooses (`in_order`: at the first) and from
/// its start again at its end. What the replicas can do depends on the order, so figures of one order say little of
/// another.
///
/// The text in a request's body is a third shorter than its tokens suggest, as with a model with a small vocabulary:
/// the estimator's priors are wrong for it. And it is uneven, as real text is, by exp(`text_spread` * normal). All
/// requests allow 1,024 tokens of output, so weir is not told how long an answer will be.
inline std::vector<TracedRequest> requests_of(std::span<const TraceEntry> trace, std::size_t count, std::uint64_t seed,
                                              double text_spread = usual_text_spread, bool in_order = false) {
  lab::engine::Random random(seed);
  const std::size_t drawn = random.below(trace.size());
  const std::size_t first = in_order ? 0 : drawn;
  const auto part = part_of(trace, count, first);
  std::vector<TracedRequest> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    const TraceEntry& entry = part[i];
    TracedRequest& request = requests[i];
    request.at = entry.at - trace[first].at;
    request.prompt_tokens = entry.prompt_tokens;
    request.output_tokens = entry.output_tokens;
    const double written = static_cast<double>(entry.prompt_tokens) / 1.5 * std::exp(text_spread * random.normal());
    const std::string text =
        lab::engine::prompt_text(std::max<Tokens>(1, static_cast<Tokens>(std::llround(written))), random);
    const std::string body = lab::load::request_body(lab::load::Api::chat, "sim-7b", {&text, 1}, {1024, true});
    metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions");
    inspector.feed(body);
    request.facts = inspector.finish();
  }
  return requests;
}

/// Returns the requests per second in the trace's own time.
inline double rate_of(std::span<const TracedRequest> requests) {
  return static_cast<double>(requests.size() - 1) / (requests.back().at - requests.front().at);
}

struct Fleet {
  std::vector<lab::engine::EngineSettings> replicas;
  bool kv_tokens_known = false;  ///< The pool knows the size of the replicas' KV caches.
};

/// Returns four default engines, of which the last runs at `slow_speed`.
inline Fleet four_replicas(double slow_speed) {
  Fleet fleet{std::vector<lab::engine::EngineSettings>(4)};
  fleet.replicas.back().speed = slow_speed;
  return fleet;
}

/// Returns what the replicas can do together: the sum of what each can do.
inline double capacity_of(const Fleet& fleet, std::span<const TracedRequest> requests) {
  double sum = 0;
  for (const auto& settings : fleet.replicas) sum += capacity_of(settings, requests);
  return sum;
}

struct Served {
  std::vector<double> ttft;      ///< They are seconds from arrival, in the order of the requests.
  std::vector<double> estimate;  ///< They are prompt estimate / truth, in the same order.
  std::vector<double> tpot;      ///< They are seconds per output token after the first, in the order of the ends.
  std::vector<Tokens> tokens;    ///< They are prompts and outputs, by replica.
  std::vector<double> speed;     ///< They are what was learned of each replica by the end.
};

/// Sends the requests through a pool with that policy, `rate` of them a second, and waits for all the answers.
class FleetSimulation final : public balancer::GrantSink {
 public:
  FleetSimulation(const Fleet& fleet, config::Policy policy, double decode_weight, std::uint64_t seed)
      : pool_(balancer::Pool::make(policy, decode_weight, seed, this)) {
    balancer::PoolLimits limits;
    limits.queue = std::numeric_limits<std::size_t>::max();
    limits.queue_time = std::chrono::hours(1000);
    pool_->set_limits(limits, moment(0));
    std::vector<balancer::ReplicaSpec> specs;
    for (std::size_t i = 0; i < fleet.replicas.size(); ++i) {
      engines_.push_back({lab::engine::EngineModel(fleet.replicas[i], seed * 101 + i), never});
      balancer::ReplicaSpec spec;
      spec.name = "replica" + std::to_string(i);
      if (fleet.kv_tokens_known) spec.kv_tokens = fleet.replicas[i].kv_tokens;
      specs.push_back(spec);
    }
    pool_->set_replicas(specs, moment(0));
  }

  Served serve(std::span<const TracedRequest> requests, double rate) {
    requests_ = requests;
    leases_.resize(requests.size());
    arrivals_.resize(requests.size());
    served_.ttft.resize(requests.size());
    served_.estimate.resize(requests.size());
    served_.tokens.resize(engines_.size());
    const double faster = rate / rate_of(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      arrivals_[i] = (requests[i].at - requests.front().at) / faster;
      work_until(arrivals_[i]);
      arrive(i);
    }
    work_until(never);
    for (balancer::ReplicaIndex r = 0; r < engines_.size(); ++r) {
      served_.speed.push_back(pool_->load(r, moment(now_)).speed);
    }
    return std::move(served_);
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct Engine {
    lab::engine::EngineModel model;
    double step_ends = never;
  };

  static Moment moment(double seconds) { return Moment{} + std::chrono::nanoseconds(std::llround(seconds * 1e9)); }

  void work_until(double time) {
    while (true) {
      const auto next = std::ranges::min_element(engines_, {}, &Engine::step_ends);
      if (next->step_ends > time || next->step_ends == never) return;
      now_ = next->step_ends;
      for (const lab::engine::TokenEvent& event : next->model.end_step()) token(event);
      begin_step(*next);
    }
  }

  void begin_step(Engine& engine) {
    const auto took = engine.model.begin_step();
    engine.step_ends = took ? now_ + std::chrono::duration<double>(*took).count() : never;
  }

  void arrive(std::size_t i) {
    now_ = arrivals_[i];
    const TracedRequest& request = requests_[i];
    auto offered = pool_->offer({.facts = request.facts, .waiter = std::make_shared<std::size_t>(i)}, moment(now_));
    if (auto* const admitted = std::get_if<balancer::Admitted>(&offered)) begin(i, std::move(admitted->lease));
  }

  void grant(std::vector<balancer::Granted> granted) noexcept override {
    for (auto& one : granted)
      begin(*std::static_pointer_cast<std::size_t>(one.waiter), std::move(std::get<balancer::Lease>(one.what)));
  }

  void begin(std::size_t i, balancer::Lease granted) {
    const TracedRequest& request = requests_[i];
    balancer::Lease& lease = leases_[i] = std::move(granted);
    const balancer::ReplicaIndex r = lease.replica();
    served_.tokens[r] += request.prompt_tokens + request.output_tokens;
    served_.estimate[i] = static_cast<double>(lease.prompt_estimate()) / static_cast<double>(request.prompt_tokens);
    Engine& engine = engines_[r];
    if (!engine.model.submit({i, request.prompt_tokens, request.output_tokens})) {
      throw std::runtime_error("a request of the trace does not fit into the engine");
    }
    if (engine.step_ends == never) begin_step(engine);
  }

  void token(const lab::engine::TokenEvent& event) {
    balancer::Lease& lease = leases_[event.id];
    if (event.index == 1) {
      served_.ttft[event.id] = now_ - arrivals_[event.id];
      lease.first_token(moment(now_));
    }
    lease.tokens(1);
    if (!event.last) return;
    const double decoding = now_ - arrivals_[event.id] - served_.ttft[event.id];
    if (event.index > 1) served_.tpot.push_back(decoding / static_cast<double>(event.index - 1));
    balancer::End end(balancer::EndCause::answered);
    end.prompt_tokens = requests_[event.id].prompt_tokens;
    end.output_tokens = event.index;
    lease.end(end, moment(now_));
  }

  std::shared_ptr<balancer::Pool> pool_;
  std::vector<Engine> engines_;
  std::span<const TracedRequest> requests_;
  std::vector<balancer::Lease> leases_;
  std::vector<double> arrivals_;
  Served served_;
  double now_ = 0;
};

inline double quantile(std::vector<double> values, double q) {
  return metrics::compare::statistics::quantile(std::span(values), q);
}

}  // namespace weir::bench
