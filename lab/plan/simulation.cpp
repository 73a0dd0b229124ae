#include "lab/plan/simulation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "balancer/story/attempt.hpp"

namespace weir::lab::plan {
namespace {

namespace story = balancer::story;
using balancer::Moment;
using balancer::Sign;
using story::Command;

constexpr std::size_t most_plain_attempts = 6;

balancer::PoolLimits limits_of(const Setup& setup) {
  balancer::PoolLimits limits;
  if (!setup.endless_queue) return limits;
  limits.queue = std::numeric_limits<std::size_t>::max();
  limits.queue_time = std::chrono::hours(1000);
  return limits;
}

}  // namespace

std::vector<engine::EngineSettings> four_engines(double slow_speed) {
  std::vector<engine::EngineSettings> engines(4);
  engines.back().speed = slow_speed;
  return engines;
}

Simulation::Simulation(const Setup& setup)
    : setup_(setup),
      has_weir_(!setup.plain && !setup.peer && !setup.router),
      seed_(setup.engine_seed),
      pool_(make_pool()),
      budget_(config::Limits{}.retry_budget, [this] { return std::size_t{pool_->figures().in_flight()}; }) {
  router_ = setup.peer ? std::shared_ptr(make_router(*setup.peer, setup.engines)) : setup.router;
  while (servers_.size() + setup.absent < setup.engines.size()) add_replica();
  for (const auto& beside : setup.beside) line_.engines.emplace_back(beside, seed_++);
  name_replicas();
  if (setup.probes) line_.every(tick_every, [this] { tick(); });
}

std::shared_ptr<balancer::Pool> Simulation::make_pool() {
  auto pool = balancer::Pool::make(setup_.policy, setup_.seed, has_weir_ ? this : nullptr);
  pool->set_limits(limits_of(setup_), moment());
  pool->set_prefix_aware(setup_.prefix_aware);
  return pool;
}

void Simulation::restart_weir() {
  old_pools_.push_back(std::exchange(pool_, make_pool()));
  keys_.clear();
  name_replicas();
  if (setup_.peer) router_ = make_router(*setup_.peer, setup_.engines);
}

void Simulation::add_replica() {
  note_idle();
  const std::size_t r = servers_.size();
  servers_.emplace_back().probe_at = now() + 0.7 * static_cast<double>(r);
  in_flight_.push_back(0);
  lost_prefill_.push_back(0);
  line_.engines.emplace_back(setup_.engines[r], seed_++);
  usage_.push_back(std::make_unique<story::UsageOption>());
  auto& spec = specs_.emplace_back();
  spec.name = std::to_string(r);
  spec.health.eject = !setup_.plain;
  spec.candidate = r + setup_.candidates >= setup_.engines.size();
  if (setup_.kv_tokens_known) spec.kv_tokens = setup_.engines[r].kv_tokens;
}

void Simulation::name_replicas() {
  pool_->set_replicas(specs_, moment());
  while (keys_.size() < servers_.size())
    keys_.push_back(pool_->figures().key(static_cast<balancer::ReplicaIndex>(keys_.size())));
}

void Simulation::join() {
  add_replica();
  name_replicas();
}

Simulation::~Simulation() {
  for (Request& request : requests_)
    if (request.ticket) request.pool->leave(*request.ticket, moment());
  granted_.clear();
  requests_.clear();
}

Moment Simulation::moment(double seconds) { return Moment{} + std::chrono::nanoseconds(std::llround(seconds * 1e9)); }

Results Simulation::serve(std::span<const TracedRequest> requests, double rate, double end, double last) {
  traced_ = requests;
  results_.requests.resize(requests.size());
  requests_.resize(requests.size());
  children_.resize(requests.size());
  left_ = requests.size();
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (requests[i].parent) children_[*requests[i].parent].push_back(i);
  const double faster = rate / rate_of(requests);
  const auto on_token = [this](std::size_t replica, const engine::TokenEvent& event) { token(replica, event); };
  const auto settle = [this] { take_grants(); };
  std::size_t count = 0;
  for (; count < requests.size(); ++count) {
    if (requests[count].parent) continue;
    const double arrival = (requests[count].at - requests.front().at) / faster;
    if (arrival > end) break;
    line_.run_until(arrival, on_token, settle);
    if (stopped_) break;
    arrive(count);
    take_grants();
  }
  left_ -= requests.size() - count;
  results_.requests.resize(count);
  if (!stopped_ && (last < never || !setup_.probes)) line_.run_until(last, on_token, settle);
  // Probes go on for ever, so the line has no end of its own.
  while (!stopped_ && last == never && setup_.probes && left_ > 0) line_.run_until(now() + 1, on_token, settle);
  for (std::size_t r = 0; r < servers_.size(); ++r)
    results_.prefilled.push_back(lost_prefill_[r] + line_.engines[r].prefilled());
  return std::move(results_);
}

void Simulation::arrive(std::size_t i) {
  results_.requests[i].arrived = now();
  Request& request = requests_[i];
  if (setup_.plain) return ask_plainly(i);
  if (router_) return ask_peer(i);
  story::Story::Request about{traced_[i].facts, setup_.prefix_aware ? traced_[i].prefix : nullptr};
  about.caller.client = about.fair_key = i;
  about.repeatable = about.leaves_hung = about.may_go_twice = true;
  request.pool = pool_.get();
  const story::Story::Shared shared{*request.pool, budget_, poison_, true, std::chrono::seconds(30)};
  request.story = std::make_unique<story::Story>(shared, std::move(about));
  follow(i, Command::ask_pool);
}

void Simulation::follow(std::size_t i, Command command) {
  for (bool goes_on = true; goes_on;) {
    switch (command) {
      case Command::ask_pool:
        command = ask(i);
        break;
      case Command::connect:
        goes_on = connect(i, command);
        break;
      case Command::wait:
        return;
      case Command::done:
        return finish(i);
    }
  }
}

/// Asks the pool.
Command Simulation::ask(std::size_t i) {
  Request& request = requests_[i];
  auto placement = request.story->placement();
  placement.waiter = std::make_shared<std::size_t>(i);
  auto offered = request.pool->offer(placement, moment());
  if (auto* const admitted = std::get_if<balancer::Admitted>(&offered)) return leased(i, std::move(admitted->lease));
  if (const auto* const refused = std::get_if<balancer::Refused>(&offered))
    return request.story->resume(*refused, moment());
  const auto& waiting = std::get<balancer::Waiting>(offered);
  request.ticket = waiting.ticket;
  request.deadline = std::chrono::duration<double>(waiting.deadline - Moment{}).count();
  waiting_.insert(i);
  return request.story->resume(waiting, moment());
}

Command Simulation::leased(std::size_t i, balancer::Lease lease) {
  auto* const usage = usage_[lease.replica()].get();
  return requests_[i].story->resume(story::Leased{std::move(lease), usage}, moment());
}

/// Sends the request to its replica. Returns false if the replica works on it.
bool Simulation::connect(std::size_t i, Command& next) {
  Request& request = requests_[i];
  request.lease = request.story->take_lease();
  const std::size_t replica = request.lease.replica();
  placed(i, replica);
  if (!servers_[replica].alive) {
    story::AttemptOver refused;
    refused.end = story::End::unconnected;
    refused.connect_failure = story::ConnectFailure::refused;
    next = over(i, std::move(refused));
    return true;
  }
  if (begins(i, replica)) return false;
  at(now() + wrong_answer_takes, [this, i, replica] {
    if (requests_[i].on != replica) return;
    story::AttemptOver answer;
    answer.end = story::End::whole;
    answer.reply = story::Reply::error;
    answer.sent = moment();
    answer.kept = std::make_shared<std::string>();
    answer.retry_reason = metrics::Retry::status;
    if (servers_[replica].errors.wrong_model) {
      answer.status = 404;
      answer.verdict = {metrics::Outcome::client_error, {}, balancer::Blame::client};
    } else {
      answer.status = 500;
      answer.verdict = {metrics::Outcome::upstream_error, {}, balancer::Blame::replica};
    }
    follow(i, over(i, std::move(answer)));
  });
  return false;
}

void Simulation::placed(std::size_t i, std::size_t replica) {
  auto& served = results_.requests[i];
  served.asked.push_back(replica);
  served.asked_at.push_back(now());
  requests_[i].on = replica;
  note_idle();
  ++in_flight_[replica];
  if (setup_.watcher != nullptr) setup_.watcher->placed(i, replica);
  if (!router_) {
    served.estimate =
        static_cast<double>(requests_[i].lease.prompt_estimate()) / static_cast<double>(traced_[i].prompt_tokens);
    served.predicted = requests_[i].lease.predicted();
  }
}

/// The replica works on the request no more.
void Simulation::leaves_replica(std::size_t i) {
  note_idle();
  --in_flight_[requests_[i].on.value()];
  if (setup_.watcher != nullptr) setup_.watcher->left(i, *requests_[i].on);
  requests_[i].on.reset();
  if (router_) router_->ended(i);
}

/// Is called before a replica gets or loses a request, comes or goes.
void Simulation::note_idle() {
  const double since = std::exchange(in_flight_since_, now());
  if (since == now() || std::ranges::none_of(in_flight_, [](std::uint32_t n) { return n >= 2; })) return;
  std::size_t idle = 0;
  for (std::size_t r = 0; r < servers_.size(); ++r) idle += servers_[r].alive && in_flight_[r] == 0 ? 1 : 0;
  if (idle > 0) results_.idle.push_back({since, now(), idle});
}

engine::Sequence Simulation::sequence_of(std::size_t i) const {
  return {i, traced_[i].prompt_tokens, traced_[i].output_tokens, traced_[i].blocks};
}

void Simulation::copy(std::size_t i, std::size_t engine, engine::SequenceId id, std::uint64_t output_tokens) {
  line_.engines[engine].submit({id, traced_[i].prompt_tokens, output_tokens, traced_[i].blocks}, now());
}

/// The replica gets the request. Returns false if it answers at once, with an error.
bool Simulation::begins(std::size_t i, std::size_t replica) {
  const Errors& errors = servers_[replica].errors;
  if (errors.wrong_model || (errors.fails && errors.fails(i))) return false;
  line_.engines[replica].submit(sequence_of(i), now());
  return true;
}

Command Simulation::over(std::size_t i, story::AttemptOver over) {
  Request& request = requests_[i];
  leaves_replica(i);
  if (over.end == story::End::unconnected) {
    over.lease = std::move(request.lease);
  } else {
    balancer::LeaseEnd end(story::cause_of(over.verdict));
    end.prompt_tokens = over.answer.prompt_tokens;
    end.cached_tokens = over.answer.cached_tokens;
    end.output_tokens = over.answer.output_tokens;
    over.concurrency = request.lease.end(end, moment());
  }
  return request.story->resume(std::move(over), moment());
}

/// The replica's work for the request is lost.
void Simulation::break_off(std::size_t i, story::End end) {
  const bool begun = results_.requests[i].ttft.has_value();
  if (!has_weir_) {
    const std::size_t replica = requests_[i].on.value();
    leaves_replica(i);
    if (router_ && !begun) {
      requests_[i].tried.push_back(static_cast<balancer::Serial>(replica));
      return ask_peer(i);
    }
    requests_[i].lease.end(balancer::LeaseEnd(balancer::EndCause::replica_failed), moment());
    ++(begun ? results_.broken : results_.failed);
    return ended(i);
  }
  story::AttemptOver broken;
  broken.end = end;
  broken.reply = begun ? story::Reply::relayed : story::Reply::none;
  broken.sent = moment();
  broken.retry_reason = end == story::End::timed_out ? metrics::Retry::hung : metrics::Retry::reset;
  const bool hung = end == story::End::timed_out;
  broken.verdict = {hung ? metrics::Outcome::timeout : metrics::Outcome::upstream_reset, {}, balancer::Blame::replica};
  follow(i, over(i, std::move(broken)));
}

/// The request is over, and its children may come.
void Simulation::ended(std::size_t i) {
  results_.requests[i].over = true;
  --left_;
  for (const std::size_t child : children_[i]) at(now() + traced_[child].think, [this, child] { arrive(child); });
}

void Simulation::finish(std::size_t i) {
  ended(i);
  const auto story = std::move(requests_[i].story);
  const auto ending = story->ending();
  if (setup_.watcher != nullptr) {
    const bool was_refused = ending.told == story::Told::refused;
    setup_.watcher->finished(i, was_refused ? metrics::Outcome::rejected : ending.attempt->verdict.outcome);
  }
  switch (ending.told) {
    case story::Told::relayed:
      if (ending.attempt->verdict.outcome != metrics::Outcome::ok) ++results_.broken;
      break;
    case story::Told::refused:
      ++results_.refused;
      break;
    default:
      ++results_.failed;
  }
}

/// Places a request as plain health checks do: a refused connection is tried elsewhere, and nothing else.
void Simulation::ask_plainly(std::size_t i) {
  Request& request = requests_[i];
  while (request.tried.size() < most_plain_attempts) {
    auto offered = pool_->offer(balancer::PlacementRequest{traced_[i].facts, request.tried}, moment());
    auto* const admitted = std::get_if<balancer::Admitted>(&offered);
    if (admitted == nullptr) {
      ++results_.refused;
      return ended(i);
    }
    request.lease = std::move(admitted->lease);
    const std::size_t replica = request.lease.replica();
    placed(i, replica);
    if (servers_[replica].alive) {
      if (!begins(i, replica)) fails_soon(i, replica);
      return;
    }
    leaves_replica(i);
    request.tried.push_back(request.lease.key().serial);
    request.lease.end(balancer::LeaseEnd(balancer::EndCause::replica_failed), moment());
  }
  ++results_.failed;
  ended(i);
}

void Simulation::ask_peer(std::size_t i) {
  std::vector<std::size_t> candidates;
  for (std::size_t r = 0; r < servers_.size(); ++r) {
    const auto& tried = requests_[i].tried;
    const bool was_tried = std::ranges::find(tried, static_cast<balancer::Serial>(r)) != tried.end();
    if (servers_[r].alive && !was_tried) candidates.push_back(r);
  }
  if (candidates.empty()) {
    ++results_.failed;
    return ended(i);
  }
  const auto engine = [this](std::size_t r) -> const TimedEngine& { return line_.engines[r]; };
  const Fleet fleet{now(), candidates, in_flight_, engine};
  const std::size_t replica = router_->choose(i, traced_[i], fleet);
  placed(i, replica);
  if (!begins(i, replica)) fails_soon(i, replica);
}

/// The replica answers a request that no story follows with 404.
void Simulation::fails_soon(std::size_t i, std::size_t replica) {
  at(now() + wrong_answer_takes, [this, i, replica] {
    if (requests_[i].on == replica) break_off(i, story::End::reset);
  });
}

void Simulation::token(std::size_t replica, const engine::TokenEvent& event) {
  if (setup_.watcher != nullptr) setup_.watcher->token(replica, event);
  if (event.id >= first_copy) return;
  const std::size_t i = event.id;
  Request& request = requests_[i];
  if (request.on != replica) return;
  auto& served = results_.requests[i];
  if (!served.ttft) {
    served.ttft = now() - served.arrived;
    served.cached_tokens = event.cached_tokens;
    if (router_) router_->first_token(i);
    request.lease.first_token(moment());
    if (request.story) request.story->answer_accepted(200, false, moment());
  }
  request.lease.tokens(event.tokens);
  if (!event.last) return;
  served.e2e = now() - served.arrived;
  if (event.index > 1) served.tpot = (now() - served.arrived - *served.ttft) / static_cast<double>(event.index - 1);
  story::AttemptOver answer;
  answer.end = story::End::whole;
  answer.reply = story::Reply::relayed;
  answer.status = 200;
  answer.sent = moment();
  answer.accepted = true;
  answer.verdict.outcome = metrics::Outcome::ok;
  answer.answer.prompt_tokens = traced_[i].prompt_tokens;
  if (setup_.engines[replica].prefix_caching != engine::PrefixCaching::none)
    answer.answer.cached_tokens = engine::reported_tokens(setup_.cache_report, event.cached_tokens);
  answer.answer.output_tokens = event.index;
  if (request.story) return follow(i, over(i, std::move(answer)));
  leaves_replica(i);
  balancer::LeaseEnd end(balancer::EndCause::answered);
  end.prompt_tokens = answer.answer.prompt_tokens;
  end.cached_tokens = answer.answer.cached_tokens;
  end.output_tokens = answer.answer.output_tokens;
  request.lease.end(end, moment());
  ended(i);
}

void Simulation::grant(std::vector<balancer::Granted> granted) noexcept {
  for (auto& one : granted) granted_.push_back(std::move(one));
}

void Simulation::take_grants() {
  while (!granted_.empty()) {
    balancer::Granted one = std::move(granted_.front());
    granted_.pop_front();
    const std::size_t i = *std::static_pointer_cast<std::size_t>(one.waiter);
    Request& request = requests_[i];
    request.ticket.reset();
    waiting_.erase(i);
    if (auto* const lease = std::get_if<balancer::Lease>(&one.what))
      follow(i, leased(i, std::move(*lease)));
    else
      follow(i, request.story->resume(std::get<balancer::Refused>(one.what), moment()));
  }
}

/// Calls it for each request that the replica works on.
template <class Does>
void Simulation::each_on(std::size_t replica, bool without_token, const Does& does) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].on != replica) continue;
    if (!without_token || !results_.requests[i].ttft) does(i);
  }
}

void Simulation::kill(std::size_t replica) {
  note_idle();
  servers_[replica].alive = false;
  lost_prefill_[replica] += line_.engines[replica].prefilled();
  line_.engines[replica] = TimedEngine(setup_.engines[replica], seed_++);
  each_on(replica, false, [this](std::size_t i) { break_off(i, story::End::reset); });
}

void Simulation::restart(std::size_t replica) {
  if (servers_[replica].alive) kill(replica);
  note_idle();
  servers_[replica].alive = true;
  servers_[replica].hangs = servers_[replica].errors.wrong_model = false;
}

void Simulation::drain(std::size_t replica, bool draining) {
  specs_[replica].draining = draining;
  pool_->set_replicas(specs_, moment());
}

balancer::ReplicaLoad Simulation::load(std::size_t replica) { return pool_->figures().load(keys_[replica], moment()); }

void Simulation::tick() {
  for (const auto& [name, subject, change] : pool_->health().take_changes(moment())) {
    const auto replica = static_cast<std::size_t>(std::stoi(name));
    results_.changes.push_back({now(), replica, change.to});
    if (!change.hung || !has_weir_) continue;
    each_on(replica, true, [this, replica](std::size_t i) {
      line_.engines[replica].abort(i);
      break_off(i, story::End::timed_out);
    });
  }
  for (const auto& suspect : pool_->health().take_suspects())
    for (std::size_t r = 0; r < servers_.size(); ++r)
      if (keys_[r].serial == suspect.key.serial && servers_[r].probe_at != never) servers_[r].probe_at = now();
  for (std::size_t r = 0; r < servers_.size(); ++r) probe(r);
  for (const std::size_t i : std::set(waiting_)) {
    Request& request = requests_[i];
    if (request.deadline > now()) continue;
    const auto refused = request.pool->leave(*request.ticket, moment());
    if (!refused) continue;
    waiting_.erase(i);
    request.ticket.reset();
    follow(i, request.story->resume(*refused, moment()));
  }
}

void Simulation::probe(std::size_t replica) {
  Server& server = servers_[replica];
  if (now() < server.probe_at) return;
  if (server.alive && server.hangs) {
    server.probe_at = never;
    at(now() + probe_time_out, [this, replica, begun = now()] { probed(replica, Sign::probe_failed, begun); });
  } else {
    probed(replica, server.alive ? Sign::probe_passed : Sign::probe_refused, now());
  }
}

void Simulation::probed(std::size_t replica, Sign sign, double begun) {
  using balancer::Testimony;
  pool_->health().report(keys_[replica], sign, moment());
  const auto said = sign == Sign::probe_passed ? Testimony::answered : Testimony::mute;
  pool_->health().testify(keys_[replica], said, moment(begun), moment());
  servers_[replica].probe_at = now() + pool_->health().of(keys_[replica], moment()).probe_after.count();
}

}  // namespace weir::lab::plan
