#include "tests/bench/plan/faults.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "metrics/compare/statistics/intervals.hpp"

namespace weir::lab::plan {
namespace {

constexpr std::size_t ill = 3;
constexpr double fault_at = FaultRun::fault_at, back_at = FaultRun::back_at;
constexpr double looks_every = 0.05, looks_a_window = 100;  // A window is 5 s.

/// Restarts one replica after the other. With weir each is drained first, for a minute at most.
class RollingRestart : public std::enable_shared_from_this<RollingRestart> {
 public:
  RollingRestart(Simulation& simulation, bool plain) : simulation_(simulation), plain_(plain) {}

  void begin(std::size_t replica) {
    if (replica == simulation_.line().engines.size()) return;
    if (plain_) return take_down(replica);
    simulation_.drain(replica, true);
    when_idle(replica, simulation_.line().now() + 60);
  }

 private:
  void when_idle(std::size_t replica, double latest) {
    if (simulation_.line().now() >= latest || simulation_.load(replica).in_flight == 0) return take_down(replica);
    in(looks_every, [replica, latest](RollingRestart& self) { self.when_idle(replica, latest); });
  }
  void take_down(std::size_t replica) {
    simulation_.kill(replica);
    in(5, [replica](RollingRestart& self) {
      self.simulation_.restart(replica);
      if (!self.plain_) self.simulation_.drain(replica, false);
      self.in(10, [replica](RollingRestart& then) { then.begin(replica + 1); });
    });
  }
  void in(double seconds, const std::function<void(RollingRestart&)>& what) {
    simulation_.line().at(simulation_.line().now() + seconds, [self = shared_from_this(), what] { what(*self); });
  }

  Simulation& simulation_;
  const bool plain_;
};

void write_script(Simulation& of, Fault fault, bool plain) {
  const auto restart = [&of] { of.restart(ill); };
  switch (fault) {
    case Fault::none:
    case Fault::three_of_four:
      return;
    case Fault::kill:
      of.line().at(fault_at, [&of] { of.kill(ill); });
      return of.line().at(back_at, restart);
    case Fault::hang:
      of.line().at(fault_at, [&of] { of.hang(ill); });
      return of.line().at(back_at, restart);
    case Fault::half_speed:
      of.line().at(fault_at, [&of] { of.line().engines[ill].set_pace([](double) { return 2.0; }); });
      return of.line().at(back_at, [&of] { of.line().engines[ill].set_pace({}); });
    case Fault::wrong_model:
      of.line().at(fault_at, [&of] { of.errors_of(ill).wrong_model = true; });
      return of.line().at(back_at, restart);
    case Fault::flap:
      for (double at = fault_at; at < back_at; at += 10) {
        of.line().at(at, [&of] { of.kill(ill); });
        of.line().at(at + 5, restart);
      }
      return;
    case Fault::rolling_restart:
      return of.line().at(fault_at, [&of, plain] { std::make_shared<RollingRestart>(of, plain)->begin(0); });
  }
}

/// Sums queued tokens, of the ill replica and of its peers, while it is back.
void watch_return(Simulation& of, FaultRun& run) {
  const auto sums = std::make_shared<std::pair<double, double>>();
  const auto looks = std::make_shared<int>(0);
  of.line().every(looks_every, [&of, &run, sums, looks] {
    if (of.line().engines.size() <= ill || of.line().now() < back_at || of.line().now() >= back_at + 60) return;
    for (std::size_t r = 0; r < of.line().engines.size(); ++r) {
      const auto queued = static_cast<double>(of.load(r).prefill_left);
      if (r == ill)
        sums->first += queued;
      else
        sums->second += queued / static_cast<double>(of.line().engines.size() - 1);
    }
    if (++*looks < looks_a_window) return;
    run.after_return.push_back(std::exchange(*sums, {}));
    *looks = 0;
  });
}

bool is_out(balancer::ReplicaState state) {
  return state == balancer::ReplicaState::ejected || state == balancer::ReplicaState::down;
}

double share_of_ill(const Results& results, std::span<const TracedRequest> requests) {
  double its = 0, all = 0;
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    const auto& served = results.requests[i];
    for (std::size_t n = 0; n < served.asked.size(); ++n) {
      if (served.asked_at[n] < fault_at + 30 || served.asked_at[n] >= back_at) continue;
      const auto tokens = static_cast<double>(requests[i].prompt_tokens);
      all += tokens;
      if (served.asked[n] == ill) its += tokens;
    }
  }
  return all > 0 ? its / all : 0;
}

}  // namespace

FaultRun run_with(Fault fault, bool plain, std::uint64_t seed, std::span<const TracedRequest> requests, double rate) {
  Setup setup;
  setup.engines.resize(fault == Fault::three_of_four ? 3 : 4);
  setup.policy = plain ? config::Policy::round_robin : config::Policy::least_queued_tokens;
  setup.seed = seed;
  setup.engine_seed = seed * 1000 + 1;
  setup.plain = plain;
  Simulation simulation(setup);
  FaultRun run;
  write_script(simulation, fault, plain);
  watch_return(simulation, run);
  run.results = simulation.serve(requests, rate, FaultRun::end_at, FaultRun::end_at + 30);
  for (const auto& served : run.results.requests) run.stuck += served.ttft || served.over ? 0 : 1;
  const auto out =
      std::ranges::find_if(run.results.changes, [](const auto& one) { return is_out(one.to) && one.at >= fault_at; });
  if (out != run.results.changes.end()) run.out_after = out->at - fault_at;
  run.share_of_ill = share_of_ill(run.results, requests);
  return run;
}

double p99_ttft(std::span<const FaultRun> runs, double from, double to) {
  std::vector<double> ttft;
  for (const auto& run : runs)
    for (const auto& served : run.results.requests)
      if (served.ttft && served.arrived >= from && served.arrived < to) ttft.push_back(*served.ttft);
  return ttft.empty() ? 0 : metrics::compare::statistics::quantile(std::span(ttft), 0.99);
}

double highest_after_return(std::span<const FaultRun> runs) {
  double highest = 0;
  for (std::size_t window = 0; window < runs.front().after_return.size(); ++window) {
    double its = 0, peers = 0;
    for (const auto& run : runs) {
      its += run.after_return[window].first;
      peers += run.after_return[window].second;
    }
    if (peers > 0) highest = std::max(highest, its / peers);
  }
  return highest;
}

}  // namespace weir::lab::plan
