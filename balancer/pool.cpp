#include "balancer/pool.hpp"

#include <algorithm>
#include <limits>

#include "balancer/eligibility.hpp"

namespace weir::balancer {

namespace {

using metrics::wire::RequestFacts;

/// True if token events will come. A stream whose API is not read shows none.
bool shows_tokens(const RequestFacts& facts) { return facts.stream && facts.api != metrics::Api::other; }

// Returns the context that one sequence of the request needs for sure. An unknown prompt may need none. A list of
// prompts comes as one sum, and its longest prompt has at least an equal share. Each choice repeats its whole prompt.
Tokens context_needed(const RequestFacts& facts, const TokenEstimator::Estimate& prompt) {
  const Tokens input = prompt.known ? prompt.tokens / std::max<Tokens>(1, facts.prompts) : 0;
  const Tokens output = facts.max_tokens.value_or(0);
  return output > std::numeric_limits<Tokens>::max() - input ? std::numeric_limits<Tokens>::max() : input + output;
}

/// True if the replica may have worked on the prompt in vain. Such a prompt leaves its queue a little later
/// (TokenLedger::failure_memory).
bool leaves_prompt(EndCause cause) { return cause == EndCause::replica_failed || cause == EndCause::client_left; }

}  // namespace

template <class Change>
auto Pool::free_room(Moment now, Change change) {
  const std::lock_guard lock(mutex_);
  return change(latest(now));
}

std::shared_ptr<Pool> Pool::make(config::Policy policy, double decode_weight, std::uint64_t seed) {
  return std::shared_ptr<Pool>(new Pool(policy, decode_weight, seed));
}

Pool::Pool(config::Policy policy, double decode_weight, std::uint64_t seed)
    : policy_(policy::make(policy, decode_weight)), random_(seed) {}

Moment Pool::latest(Moment now) { return latest_ = std::max(latest_, now); }

std::vector<ReplicaIndex> Pool::set_replicas(std::span<const ReplicaSpec> specs, Moment now) {
  return free_room(now, [&](Moment latest_now) {
    if (serials_ == 0) first_set_ = specs.size();
    for (const auto& replica : replicas_)
      if (replica) replica->removed = true;
    std::vector<ReplicaIndex> indices;
    for (const ReplicaSpec& spec : specs) {
      const ReplicaIndex index = index_of(spec, latest_now);
      Replica& replica = *replicas_[index];
      replica.spec = spec;
      replica.health.set(spec.health);
      replica.removed = false;
      indices.push_back(index);
    }
    for (ReplicaIndex i = 0; i < replicas_.size(); ++i) drop_if_gone(i);
    update_speeds();
    return indices;
  });
}

ReplicaIndex Pool::index_of(const ReplicaSpec& spec, Moment now) {
  const auto is_it = [&spec](const auto& replica) {
    return replica && replica->spec.name == spec.name && replica->spec.url == spec.url;
  };
  auto found = std::ranges::find_if(replicas_, is_it);
  if (found == replicas_.end()) {
    found = std::ranges::find_if(replicas_, [](const auto& replica) { return !replica; });
    if (found == replicas_.end()) found = replicas_.emplace(replicas_.end());
    const bool from_the_start = serials_ < first_set_;
    *found = std::make_unique<Replica>(spec, ++serials_, from_the_start, now);
  }
  return static_cast<ReplicaIndex>(found - replicas_.begin());
}

/// Frees the place of a replica that is no longer named and that no lease points into.
void Pool::drop_if_gone(ReplicaIndex index) {
  auto& replica = replicas_[index];
  if (replica && replica->removed && replica->ledger.in_flight() == 0) replica.reset();
}

Offered Pool::offer(const RequestFacts& facts, Moment now, std::span<const ReplicaIndex> tried) {
  auto kept_facts = std::make_unique<const RequestFacts>(facts);

  const std::lock_guard lock(mutex_);
  now = latest(now);
  forget_untested_speeds();
  views_.clear();
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i] || replicas_[i]->removed) continue;
    replicas_[i]->ledger.advance(now);
    replicas_[i]->health.advance(now);
    views_.push_back(view_of(i, tried));
  }

  const TokenEstimator::Estimate prompt = estimator_.estimate(facts);
  const auto [eligibility, panic] = narrow(views_, {prompt.tokens, context_needed(facts, prompt)});
  switch (eligibility) {
    case Eligibility::no_replica:
      return refusal(Refused::Reason::no_replica);
    case Eligibility::too_long:
      return refusal(Refused::Reason::too_long);
    case Eligibility::busy:
      return refusal(Refused::Reason::busy);
    case Eligibility::some:
    case Eligibility::kv_full:
      break;
  }

  const ReplicaIndex index = views_[policy_->choose(prompt.tokens, views_, random_)].index;
  Replica& replica = *replicas_[index];
  if (eligibility == Eligibility::kv_full) ++replica.kv_full;
  if (!prompt.known) ++replica.unknown_prompt;
  if (panic) ++replica.panic;

  const Tokens output = expected_output_.of(facts);
  replica.ledger.open(++tickets_, {prompt.tokens, output, shows_tokens(facts)}, now);
  ++in_flight_;

  Holding holding;
  holding.facts = std::move(kept_facts);
  holding.streamed_tokens = &replica.ledger.streamed();
  holding.subject = replica.spec.subject;
  holding.ticket = tickets_;
  holding.key = {index, replica.serial};
  holding.prompt = prompt.tokens;
  holding.output_left = shows_tokens(facts) ? output : 0;
  return Admitted{Lease(std::shared_ptr<Lessor>(shared_from_this(), this), std::move(holding))};
}

ReplicaView Pool::view_of(ReplicaIndex index, std::span<const ReplicaIndex> tried) const {
  const Replica& replica = *replicas_[index];
  ReplicaView view;
  view.index = index;
  view.weight = replica.spec.weight;
  view.speed = replica.speed;
  view.prefill_left = replica.ledger.prefill_left();
  view.decode_left = replica.ledger.decode_left();
  view.resident = replica.ledger.resident();
  view.in_flight = replica.ledger.in_flight();
  view.recent_failures = replica.ledger.recent_failures();
  view.tried = std::ranges::find(tried, index) != tried.end();
  view.refuses = replica.health.refuses();
  view.out = replica.health.out();
  view.full = replica.health.is_full(latest_);
  view.starting = replica.health.state() == ReplicaState::starting;
  view.allowance = replica.health.allowance();
  view.kv_tokens = replica.spec.kv_tokens ? replica.spec.kv_tokens : replica.told.kv_tokens;
  view.max_context = replica.spec.max_context;
  if (!view.max_context) view.told_context = replica.told.max_context;
  view.max_in_flight = replica.spec.max_in_flight;
  return view;
}

Refused Pool::refusal(Refused::Reason reason) const {
  Tokens waiting = 0;
  for (const auto& replica : replicas_) {
    if (replica && !replica->removed) waiting += replica->ledger.prefill_left();
  }
  return {reason, finished_.retry_after(waiting, latest_)};
}

Tokens Pool::first_token(const Holding& holding, Moment now) {
  const std::lock_guard lock(mutex_);
  now = latest(now);
  Replica& replica = *replicas_[holding.key.index];
  const std::optional<Tokens> output = replica.ledger.first_token(holding.ticket, now);
  if (!output) return 0;
  finished_.add(holding.prompt, now);
  replica.health.prompt_finished(holding.prompt);
  end_starts();
  if (shows_tokens(*holding.facts)) {
    replica.rates.prompt_finished(holding.prompt, replica.ledger.pending_seconds());
    replica.tested = now;
    update_speeds();
  }
  return *output;
}

Concurrency Pool::end(Holding holding, const End& end, Moment now) {
  return free_room(now, [&](Moment latest_now) {
    Replica& replica = *replicas_[holding.key.index];
    const TokenLedger::Closed closed = replica.ledger.close(holding.ticket, !leaves_prompt(end.cause),
                                                            holding.output_left, holding.streamed, latest_now);
    --in_flight_;
    if (end.cause == EndCause::answered) learn(replica, *holding.facts, end, closed);
    drop_if_gone(holding.key.index);
    return closed.concurrency;
  });
}

void Pool::learn(Replica& replica, const RequestFacts& facts, const End& end, const TokenLedger::Closed& closed) {
  if (!facts.gives_work) return;
  estimator_.learn(facts, end.prompt_tokens);
  if (end.output_tokens) expected_output_.learn(facts, *end.output_tokens);
  if (!closed.first_token) {
    finished_.add(closed.prompt, latest_);
    replica.health.prompt_finished(closed.prompt);
    end_starts();
    return;
  }
  if (!shows_tokens(facts)) return;
  if (end.prompt_tokens) {
    const Tokens cached = std::min(end.cached_tokens.value_or(0), *end.prompt_tokens);
    replica.rates.prompt_settled(closed.prompt, *end.prompt_tokens - cached);
  }
  if (end.output_tokens) {
    replica.rates.answer_finished(*end.output_tokens, metrics::seconds(latest_ - *closed.first_token));
  }
  update_speeds();
}

void Pool::update_speeds() {
  rates_.clear();
  for (const auto& replica : replicas_) {
    if (!replica) continue;
    const std::optional<double> prefill = replica->rates.prefill();
    replica->ledger.set_drain_rates({prefill.value_or(0), replica->rates.decode().value_or(0)});
    if (prefill && !replica->removed) rates_.push_back(*prefill);
  }
  const double median = median_of(rates_);
  for (const auto& replica : replicas_)
    if (replica) replica->speed = relative_speed(replica->rates.prefill(), median);
}

/// A replica that hung for a while looks slow. While the others have time to spare, a slow replica gets no request that
/// could prove otherwise. So its speed is forgotten when nothing has tested it for a minute.
void Pool::forget_untested_speeds() {
  constexpr double seconds = 60;
  bool any = false;
  for (const auto& replica : replicas_) {
    if (!replica || replica->speed >= 1 || replica->ledger.in_flight() > 0) continue;
    if (metrics::seconds(latest_ - replica->tested) < seconds) continue;
    replica->rates.forget_prefill(replica->ledger.pending_seconds());
    replica->tested = latest_;
    any = true;
  }
  if (any) update_speeds();
}

Pool::Replica* Pool::find(const ReplicaKey& key) const {
  if (key.index >= replicas_.size()) return nullptr;
  Replica* const replica = replicas_[key.index].get();
  return replica != nullptr && replica->serial == key.serial ? replica : nullptr;
}

ReplicaKey Pool::key(ReplicaIndex index) const {
  const std::lock_guard lock(mutex_);
  return {index, replicas_.at(index) ? replicas_[index]->serial : 0};
}

/// Soft reasons never take out more than half of a pool.
bool Pool::may_eject() const {
  std::size_t all = 0, ejected = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed) continue;
    ++all;
    if (replica->health.state() == ReplicaState::ejected) ++ejected;
  }
  return 2 * (ejected + 1) <= all;
}

/// More than half of a replica's last answers are 4xx, and fewer than one in twenty of its peers': a wrong model, which
/// answers in 2 ms, would otherwise draw all traffic.
void Pool::eject_the_odd_one(Replica& suspect) {
  if (!suspect.answers.full() || 2 * suspect.answers.client_errors() <= suspect.answers.answers()) return;
  std::size_t answers = 0, client_errors = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed || replica.get() == &suspect || replica->health.out()) continue;
    answers += replica->answers.answers();
    client_errors += replica->answers.client_errors();
  }
  if (answers < AnswerWindow::size || 20 * client_errors >= answers || !may_eject()) return;
  suspect.health.odd_one_out(latest_);
  suspect.answers.clear();
}

/// A replica that starts is up once it may hold as much as its peers do in the median.
void Pool::end_starts() {
  const auto starts = [](const auto& replica) {
    return replica && !replica->removed && replica->health.state() == ReplicaState::starting;
  };
  if (std::ranges::none_of(replicas_, starts)) return;
  rates_.clear();
  for (const auto& replica : replicas_)
    if (replica && !replica->removed && replica->health.state() == ReplicaState::up)
      rates_.push_back(static_cast<double>(replica->ledger.prefill_left()));
  if (rates_.empty()) return;
  const double held_by_peers = median_of(rates_);
  for (const auto& replica : replicas_)
    if (starts(replica) && replica->health.allowance() > 0 &&
        static_cast<double>(replica->health.allowance()) >= held_by_peers)
      replica->health.started(latest_);
}

void Pool::report(const ReplicaKey& key, Sign sign, Moment now, std::optional<std::chrono::duration<double>> full_for) {
  free_room(now, [&](Moment latest_now) {
    Replica* const replica = find(key);
    if (replica == nullptr) return;
    const bool may_be_ejected = replica->spec.health.eject && may_eject();
    replica->health.advance(latest_now);
    replica->health.showed(sign, may_be_ejected, latest_now);
    if (sign == Sign::full) {
      const auto wait = std::chrono::duration_cast<Moment::duration>(full_for.value_or(std::chrono::seconds(1)));
      replica->health.full(latest_now + wait);
    }
    if (sign == Sign::answered || sign == Sign::client_error) {
      replica->answers.add(sign == Sign::client_error);
      if (replica->spec.health.eject) eject_the_odd_one(*replica);
    }
  });
}

void Pool::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  const std::lock_guard lock(mutex_);
  if (Replica* const replica = find(key)) replica->told = limits;
}

ReplicaHealth Pool::health(const ReplicaKey& key, Moment now) {
  const std::lock_guard lock(mutex_);
  Replica* const replica = find(key);
  if (replica == nullptr) return {};
  replica->health.advance(latest(now));
  const Health& health = replica->health;
  return {replica->removed ? ReplicaState::draining : health.state(), health.since(), health.reason(),
          health.probe_after()};
}

std::vector<ReplicaChange> Pool::take_changes(Moment now) {
  const std::lock_guard lock(mutex_);
  now = latest(now);
  std::vector<ReplicaChange> changes;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed) continue;
    replica->health.advance(now);
    for (auto& change : replica->health.take_changes()) changes.push_back({replica->spec.name, std::move(change)});
  }
  return changes;
}

ReplicaLoad Pool::load(ReplicaIndex index, Moment now) {
  const std::lock_guard lock(mutex_);
  if (!replicas_.at(index)) return {};
  Replica& replica = *replicas_[index];
  TokenLedger& ledger = replica.ledger;
  ledger.advance(latest(now));
  ReplicaLoad load;
  load.name = replica.spec.name;
  load.prefill_left = ledger.prefill_left();
  load.decode_left = ledger.decode_left();
  load.resident = ledger.resident();
  load.in_flight = ledger.in_flight();
  load.oldest_unanswered_seconds = ledger.oldest_unanswered_seconds();
  load.busy_seconds = ledger.busy_seconds();
  load.prefill_seconds = ledger.prefill_seconds();
  load.decode_seconds = ledger.decode_seconds();
  load.speed = replica.speed;
  load.fallbacks = {{"kv_full", replica.kv_full}, {"unknown_prompt", replica.unknown_prompt}, {"panic", replica.panic}};
  return load;
}

std::uint32_t Pool::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

}  // namespace weir::balancer
