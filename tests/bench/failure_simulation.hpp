// Puts the balancer's Pool in front of four engine models that die, hang, slow down and return, in simulated time.
//
// Real are the pool with its health, its queue and its books, the request inspector and the engine models. The driver
// does what the proxy does around them: it probes, reports what attempts show, retries what has sent its client
// nothing, and calls the pool every 50 ms. Plain health checks stand beside it: round robin, which hears of a replica
// only by its probes, has no queue and retries nothing but refused connections.
//
// It is deterministic by seed.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tests/bench/fleet_simulation.hpp"

namespace weir::bench {

enum class Fault { none, three_of_four, kill, hang, half_speed, wrong_model, flap, rolling_restart };

class FailureSimulation final : public balancer::GrantSink {
 public:
  static constexpr double fault_at = 60, back_at = 120, end_at = 200;
  static constexpr std::size_t ill = 3;

  struct Results {
    struct Answer {
      double arrived, ttft;
    };
    std::vector<Answer> answers;
    std::optional<double> out_after;  ///< Seconds from the fault until the replica was ejected or down.
    std::size_t failed = 0;           ///< Requests that failed, or got a wrong answer, before anything else was sent.
    std::size_t broken = 0;           ///< Streams that broke off.
    std::size_t refused = 0;          ///< Requests that weir refused: full, too late or expired.
    std::size_t stuck = 0;            ///< Requests that had no first token 30 s after the end.
    double share_of_ill = 0;          ///< Its share of the prompt tokens, from 30 s after the fault to its return.
    /// Its queued tokens and its peers' mean, in each 5 s of the 60 s after its return.
    std::vector<std::pair<double, double>> after_return;
  };

  FailureSimulation(bool plain, Fault fault, std::uint64_t seed)
      : plain_(plain), fault_(fault), seed_(seed * 1000) {
    const auto policy = plain ? config::Policy::round_robin : config::Policy::least_queued_tokens;
    pool_ = balancer::Pool::make(policy, config::Pool{}.decode_weight, seed, plain ? nullptr : this);
    pool_->set_limits({}, moment(0));
    const std::size_t count = fault == Fault::three_of_four ? 3 : 4;
    for (std::size_t i = 0; i < count; ++i) {
      servers_.emplace_back();
      servers_.back().model = fresh_engine();
      servers_.back().probe_at = 0.7 * static_cast<double>(i);
      specs_.emplace_back();
      specs_.back().name = std::to_string(i);
      specs_.back().health.eject = !plain;
    }
    pool_->set_replicas(specs_, moment(0));
    for (balancer::ReplicaIndex i = 0; i < count; ++i) keys_.push_back(pool_->key(i));
    plan(tick_every, [this] { tick(); });
    write_script();
  }

  Results serve(std::span<const TracedRequest> requests, double rate) {
    requests_ = requests;
    const double faster = rate / rate_of(requests);
    for (const TracedRequest& request : requests) {
      const double arrival = (request.at - requests.front().at) / faster;
      if (arrival > end_at) break;
      work_until(arrival);
      stories_.emplace_back();
      stories_.back().arrived = now_;
      ask(stories_.size() - 1);
      take_grants();
    }
    work_until(end_at + 30);
    for (const Story& story : stories_) results_.stuck += story.first || story.over ? 0 : 1;
    if (all_tokens_ > 0) results_.share_of_ill = ill_tokens_ / all_tokens_;
    for (Story& story : stories_) {
      if (story.ticket) pool_->leave(*story.ticket, moment(now_));
      story.lease = {};
    }
    granted_.clear();
    return std::move(results_);
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr double tick_every = 0.05, probe_time_out = 5, wrong_answer_takes = 0.002, restart_takes = 5;
  static constexpr std::size_t most_attempts = 6;
  using Sign = balancer::Sign;

  struct Server {
    std::unique_ptr<lab::engine::EngineModel> model;
    double step_ends = never, probe_at = 0;
    bool alive = true, hangs = false, wrong_model = false;
    double slower = 1;
  };
  struct Story {
    double arrived = 0;
    balancer::Lease lease;
    std::vector<balancer::Serial> tried;
    std::optional<balancer::WaitTicket> ticket;
    std::optional<balancer::Moment> deadline;
    std::size_t attempts = 0;
    std::uint64_t produced = 0;
    std::optional<std::size_t> refused_by;  ///< The replica that answered it with 4xx.
    bool first = false, over = false;
  };

  static Moment moment(double seconds) { return Moment{} + std::chrono::nanoseconds(std::llround(seconds * 1e9)); }
  std::unique_ptr<lab::engine::EngineModel> fresh_engine() {
    return std::make_unique<lab::engine::EngineModel>(lab::engine::EngineSettings{}, ++seed_);
  }
  void plan(double at, std::function<void()> what) { timers_.emplace(at, std::move(what)); }

  void write_script() {
    const auto at_fault = [this](auto what) { plan(fault_at, what); };
    const auto at_return = [this](auto what) { plan(back_at, what); };
    const auto restart_it = [this] { restart(ill); };
    switch (fault_) {
      case Fault::none:
      case Fault::three_of_four:
        return;
      case Fault::kill:
        at_fault([this] { kill(ill); });
        return at_return(restart_it);
      case Fault::hang:
        at_fault([this] { servers_[ill].hangs = true, servers_[ill].step_ends = never; });
        return at_return(restart_it);
      case Fault::half_speed:
        at_fault([this] { servers_[ill].slower = 2; });
        return at_return([this] { servers_[ill].slower = 1; });
      case Fault::wrong_model:
        at_fault([this] { servers_[ill].wrong_model = true; });
        return at_return(restart_it);
      case Fault::flap:
        for (double at = fault_at; at < back_at; at += 10) {
          plan(at, [this] { kill(ill); });
          plan(at + 5, restart_it);
        }
        return;
      case Fault::rolling_restart:
        return at_fault([this] { roll(0); });
    }
  }

  /// With weir a replica is drained first, for a minute at most.
  void roll(std::size_t r) {
    if (r == servers_.size()) return;
    if (plain_) return take_down(r);
    set_draining(r, true);
    when_idle(r, now_ + 60);
  }
  void when_idle(std::size_t r, double latest) {
    if (now_ >= latest || pool_->load(keys_[r].index, moment(now_)).in_flight == 0) return take_down(r);
    plan(now_ + tick_every, [this, r, latest] { when_idle(r, latest); });
  }
  void take_down(std::size_t r) {
    kill(r);
    plan(now_ + restart_takes, [this, r] {
      restart(r);
      if (!plain_) set_draining(r, false);
      plan(now_ + 10, [this, r] { roll(r + 1); });
    });
  }
  void set_draining(std::size_t r, bool draining) {
    specs_[r].draining = draining;
    pool_->set_replicas(specs_, moment(now_));
  }

  void kill(std::size_t r) {
    servers_[r].alive = false;
    servers_[r].step_ends = never;
    servers_[r].model = fresh_engine();
    for (std::size_t i = 0; i < stories_.size(); ++i) {
      Story& story = stories_[i];
      if (!story.lease || story.lease.replica() != keys_[r].index) continue;
      report(r, Sign::failed);
      attempt_failed(i, !plain_);
    }
  }
  void restart(std::size_t r) {
    if (servers_[r].alive) kill(r);
    servers_[r].alive = true;
    servers_[r].hangs = servers_[r].wrong_model = false;
  }

  void work_until(double time) {
    while (true) {
      const auto next = std::ranges::min_element(servers_, {}, &Server::step_ends);
      const double timer = timers_.begin()->first;
      if (std::min(next->step_ends, timer) > time) break;
      if (timer <= next->step_ends) {
        now_ = timer;
        const auto what = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
        what();
      } else {
        now_ = next->step_ends;
        for (const lab::engine::TokenEvent& event : next->model->end_step()) token(event);
        begin_step(*next);
      }
      take_grants();
    }
    now_ = time;
  }
  void begin_step(Server& server) {
    const auto took = server.model->begin_step();
    server.step_ends = took ? now_ + server.slower * std::chrono::duration<double>(*took).count() : never;
  }

  void tick() {
    plan(now_ + tick_every, [this] { tick(); });
    for (const auto& [name, subject, change] : pool_->take_changes(moment(now_))) {
      const auto r = static_cast<std::size_t>(std::stoi(name));
      const bool out = change.to == balancer::ReplicaState::ejected || change.to == balancer::ReplicaState::down;
      if (out && now_ >= fault_at && !results_.out_after) results_.out_after = now_ - fault_at;
      if (change.hung) leave_hung(r);
    }
    for (const auto& suspect : pool_->take_suspects()) {
      for (std::size_t r = 0; r < servers_.size(); ++r)
        if (keys_[r].serial == suspect.key.serial && servers_[r].probe_at != never) servers_[r].probe_at = now_;
    }
    for (std::size_t r = 0; r < servers_.size(); ++r) probe(r);
    for (const std::size_t i : std::set(waiting_)) {
      if (*stories_[i].deadline > moment(now_)) continue;
      if (!pool_->leave(*stories_[i].ticket, moment(now_))) continue;
      waiting_.erase(i);
      refused(i);
    }
    if (now_ >= back_at && now_ < back_at + 60) watch_return();
  }
  /// Attempts that have sent their client nothing go elsewhere.
  void leave_hung(std::size_t r) {
    for (std::size_t i = 0; i < stories_.size(); ++i) {
      Story& story = stories_[i];
      if (story.first || !story.lease || story.lease.replica() != keys_[r].index) continue;
      servers_[r].model->abort(i);
      attempt_failed(i, true);
    }
  }
  void probe(std::size_t r) {
    Server& server = servers_[r];
    if (now_ < server.probe_at) return;
    if (server.alive && server.hangs) {
      server.probe_at = never;
      plan(now_ + probe_time_out, [this, r, begun = now_] { probed(r, Sign::probe_failed, begun); });
    } else {
      probed(r, server.alive ? Sign::probe_passed : Sign::probe_refused, now_);
    }
  }
  void probed(std::size_t r, Sign sign, double begun) {
    using balancer::Testimony;
    pool_->report(keys_[r], sign, moment(now_));
    pool_->testify(keys_[r], sign == Sign::probe_passed ? Testimony::answered : Testimony::mute, moment(begun),
                   moment(now_));
    servers_[r].probe_at = now_ + pool_->health(keys_[r], moment(now_)).probe_after.count();
  }
  void report(std::size_t r, Sign sign) {
    if (!plain_) pool_->report(keys_[r], sign, moment(now_));
  }
  void watch_return() {
    double peers = 0;
    for (std::size_t r = 0; r < servers_.size(); ++r) {
      const auto queued = static_cast<double>(pool_->load(keys_[r].index, moment(now_)).prefill_left);
      if (r == ill)
        queued_ill_ += queued;
      else
        peers += queued / static_cast<double>(servers_.size() - 1);
    }
    queued_peers_ += peers;
    if (++looks_ % static_cast<int>(5 / tick_every) != 0) return;
    results_.after_return.emplace_back(queued_ill_, queued_peers_);
    queued_ill_ = queued_peers_ = 0;
  }

  void ask(std::size_t i) {
    Story& story = stories_[i];
    if (++story.attempts > most_attempts) return failed(i);
    balancer::PlacementRequest placement{.facts = requests_[i].facts, .tried = story.tried, .deadline = story.deadline};
    if (!plain_) placement.waiter = std::make_shared<std::size_t>(i);
    auto offered = pool_->offer(placement, moment(now_));
    if (auto* const admitted = std::get_if<balancer::Admitted>(&offered)) {
      begin(i, std::move(admitted->lease));
    } else if (const auto* const waiting = std::get_if<balancer::Waiting>(&offered)) {
      story.ticket = waiting->ticket;
      story.deadline = waiting->deadline;
      waiting_.insert(i);
    } else {
      refused(i);
    }
  }
  void grant(std::vector<balancer::Granted> granted) noexcept override {
    for (auto& one : granted) granted_.push_back(std::move(one));
  }
  void take_grants() {
    while (!granted_.empty()) {
      balancer::Granted one = std::move(granted_.front());
      granted_.pop_front();
      const std::size_t i = *std::static_pointer_cast<std::size_t>(one.waiter);
      stories_[i].ticket.reset();
      waiting_.erase(i);
      if (auto* const lease = std::get_if<balancer::Lease>(&one.what))
        begin(i, std::move(*lease));
      else
        refused(i);
    }
  }
  void begin(std::size_t i, balancer::Lease lease) {
    Story& story = stories_[i];
    story.lease = std::move(lease);
    const std::size_t r = story.lease.replica();
    const TracedRequest& request = requests_[i];
    if (now_ >= fault_at + 30 && now_ < back_at) {
      all_tokens_ += static_cast<double>(request.prompt_tokens);
      if (r == ill) ill_tokens_ += static_cast<double>(request.prompt_tokens);
    }
    Server& server = servers_[r];
    if (!server.alive) {
      report(r, Sign::refused);
      return attempt_failed(i, true);
    }
    if (server.wrong_model) {
      return plan(now_ + wrong_answer_takes, [this, i, r] {
        if (!stories_[i].lease || stories_[i].lease.replica() != r) return;
        report(r, Sign::client_error);
        stories_[i].refused_by = r;
        attempt_failed(i, !plain_, balancer::EndCause::client_erred);
      });
    }
    if (!server.model->submit({i, request.prompt_tokens, request.output_tokens}))
      throw std::runtime_error("a request of the trace does not fit into the engine");
    if (server.step_ends == never && !server.hangs) begin_step(server);
  }
  void attempt_failed(std::size_t i, bool retried, balancer::EndCause cause = balancer::EndCause::replica_failed) {
    Story& story = stories_[i];
    story.tried.push_back(story.lease.key().serial);
    story.lease.end(balancer::End(cause), moment(now_));
    if (story.first) {
      ++results_.broken;
    } else if (retried) {
      plan(now_, [this, i] { ask(i); });
    } else {
      failed(i);
    }
  }
  void failed(std::size_t i) {
    ++results_.failed;
    stories_[i].over = true;
  }
  void refused(std::size_t i) {
    ++results_.refused;
    stories_[i].over = true;
  }

  void token(const lab::engine::TokenEvent& event) {
    Story& story = stories_[event.id];
    if (!story.lease) return;
    if (event.index == 1) {
      story.first = true;
      if (story.refused_by) report(*story.refused_by, Sign::outdone);
      results_.answers.push_back({story.arrived, now_ - story.arrived});
      story.lease.first_token(moment(now_));
    }
    story.lease.tokens(1);
    if (!event.last) return;
    report(story.lease.replica(), Sign::answered);
    balancer::End end(balancer::EndCause::answered);
    end.prompt_tokens = requests_[event.id].prompt_tokens;
    end.output_tokens = event.index;
    story.lease.end(end, moment(now_));
  }

  const bool plain_;
  const Fault fault_;
  std::uint64_t seed_;
  std::deque<balancer::Granted> granted_;
  std::shared_ptr<balancer::Pool> pool_;
  std::vector<balancer::ReplicaSpec> specs_;
  std::vector<balancer::ReplicaKey> keys_;
  std::vector<Server> servers_;
  std::span<const TracedRequest> requests_;
  std::deque<Story> stories_;
  std::set<std::size_t> waiting_;
  std::multimap<double, std::function<void()>> timers_;
  Results results_;
  double ill_tokens_ = 0, all_tokens_ = 0, queued_ill_ = 0, queued_peers_ = 0;
  int looks_ = 0;
  double now_ = 0;
};

}  // namespace weir::bench
