#include "balancer/lease_book.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::balancer {
namespace {

using metrics::wire::RequestFacts;

/// The queue gives so many turns for a request's output at most, whatever a client asks for.
constexpr Tokens most_output_cost = 16 * WaitingQueue::quantum;

/// True if token events will come. A stream whose API is not read shows none.
bool shows_tokens(const RequestFacts& facts) { return facts.stream && metrics::generates(facts.api); }

/// True if the replica is taken to have computed the prompt. A client may leave an answer that shows no token long
/// after that. One that leaves at once would have others' cache taken for empty, by prompts that are not in it.
bool was_computed(const TokenLedger::Closed& closed, const LeaseEnd& end) {
  return closed.first_token || end.cause == EndCause::answered ||
         (end.cause == EndCause::client_left && closed.computed_unseen);
}

/// Returns the prompt that one sequence of the request has for sure. An unknown one may be empty. A list of prompts
/// comes as one sum, and its longest prompt has at least an equal share. Each choice repeats its whole prompt.
Tokens prompt_of_sequence(const RequestFacts& facts, const TokenEstimator::Estimate& prompt) {
  return prompt.known ? prompt.tokens / std::max<Tokens>(1, facts.prompts) : 0;
}

Tokens sum_of(Tokens a, Tokens b) {
  return b > std::numeric_limits<Tokens>::max() - a ? std::numeric_limits<Tokens>::max() : a + b;
}

/// Returns the most output that an answer can have, whose engine may hold so much. Whoever sets no limit may get all of
/// that, and of what weir does not read nothing is known.
Tokens longest_output(const RequestFacts& facts, bool prompt_known, std::optional<Tokens> context) {
  if (!prompt_known || facts.stored_context || facts.api == metrics::Api::other) return TokenLedger::unbounded;
  if (!metrics::generates(facts.api)) return facts.max_tokens.value_or(0);
  const Tokens choice =
      std::min(facts.max_tokens.value_or(TokenLedger::unbounded), context.value_or(TokenLedger::unbounded));
  const Tokens choices = std::max<Tokens>(1, facts.n);
  return choice > TokenLedger::unbounded / choices ? TokenLedger::unbounded : choice * choices;
}

}  // namespace

void LeaseBook::set_policy(config::Policy policy) {
  policy_ = policy::make(policy);
}

void LeaseBook::estimate(WaitingRequest& request) const {
  const TokenEstimator::Estimate prompt = estimator_.estimate(*request.facts);
  request.prompt = prompt.tokens;
  request.prompt_known = prompt.known;
  request.sequence = prompt_of_sequence(*request.facts, prompt);
  if (prompt.known) note_cached(request);
  request.context = sum_of(request.sequence, request.facts->max_tokens.value_or(0));
}

/// Where the end of a beginning of the prompt is known, so are its tokens; and what some replica holds of it is not to
/// be computed.
void LeaseBook::note_cached(WaitingRequest& request) const {
  if (request.prefix) request.prompt = pool_.prefixes.refine(*request.prefix, request.prompt);
  if (!pool_.look_up(request)) return;
  for (const PoolReplica& replica : pool_.replicas.named()) {
    const Tokens cached = replica.is_in() ? pool_.cached(request, replica.key.index) : 0;
    if (cached <= request.cached) continue;
    request.cached = cached;
    request.home = replica.key.index;
  }
}

Tokens LeaseBook::output_cost(const RequestFacts& facts) const {
  constexpr double token = 0.05;  // Steps give tokens to many sequences at a time.
  const double output = token * static_cast<double>(expected_output_.of(facts));
  return static_cast<Tokens>(std::min(output, static_cast<double>(most_output_cost)));
}

Lease LeaseBook::take(const WaitingRequest& request, const Narrowed& narrowed,
                      std::span<const ReplicaView> candidates) {
  const Tokens output = expected_output_.of(*request.facts);
  const policy::Job job{request.prompt, output, pool_.prompt_load()};
  const ReplicaView& chosen = candidates[policy_->choose(job, candidates, random_)];
  PoolReplica& replica = pool_.replicas[chosen.index];
  const bool shows = shows_tokens(*request.facts);
  const Tokens longest = longest_output(*request.facts, request.prompt_known, replica.context());
  const std::uint64_t number = Split::number_of(*request.facts, request.lot);
  LedgerEntry entry;
  replica.ledger.open(++tickets_, {request.prompt, output, shows, longest, chosen.cached}, pool_.latest);
  try {
    if (shows) pool_.split.begin_wait(tickets_, number, pool_.latest);
    entry.prefix = note_sent(request, chosen, candidates);
  } catch (...) {
    replica.ledger.close(tickets_, true, shows ? output : 0, 0, pool_.latest);
    pool_.split.end_wait(tickets_);
    throw;
  }
  // Nothing fails from here on.
  ++pool_.in_flight;
  if (chosen.other_side) ++pool_.split.crossed;
  if (narrowed.eligibility == Eligibility::kv_full) ++replica.kv_full;
  if (!request.prompt_known) ++replica.unknown_prompt;
  if (narrowed.panic) ++replica.panic;

  entry.facts = request.facts;
  entry.streamed_tokens = &replica.ledger.streamed();
  entry.subject = replica.spec.subject;
  entry.ticket = tickets_;
  entry.key = replica.key;
  entry.identity = replica.identity;
  entry.prompt = request.prompt;
  entry.number = number;
  entry.since = pool_.latest;
  entry.waited = request.since < pool_.latest;
  const policy::Forecast forecast = policy::forecast(job, chosen);
  replica.passed_over = {};
  for (const ReplicaView& other : candidates) {
    if (pool_.policy != config::Policy::least_queued_tokens || chosen.in_flight == 0 || other.in_flight > 0) continue;
    pool_.replicas[other.index].passed_over = {pool_.latest, replica.key, policy::forecast(job, other).first_token,
                                               forecast.first_token, other.time.token * (other.waste - chosen.waste),
                                               other.weight < chosen.weight};
  }
  entry.began.own_believed = static_cast<double>(chosen.uncached(request.prompt));
  entry.began.ahead = forecast.prompt_tokens - entry.began.own_believed;
  entry.began.sequences = chosen.streaming;
  entry.began.context = static_cast<double>(chosen.context);
  if (shows && replica.time.knows_prompts())
    entry.predicted =
        PredictedTimes{forecast.first_token, forecast.first_token + forecast.decode, forecast.output_token};
  entry.for_slot = forecast.for_slot;
  if (request.facts->gives_work) note_model(entry, request, replica, chosen);
  entry.output_left = shows ? output : 0;
  entry.caller = request.caller;
  constexpr std::uint32_t enough_for_a_doubt = 20;
  entry.doubted = replica.spec.health.eject &&
                  (pool_.replicas.is_odd(replica, request.caller.topic, enough_for_a_doubt, pool_.latest) ||
                   pool_.replicas.is_odd(replica, 0, enough_for_a_doubt, pool_.latest));
  return Lease(owner_.shared_from_this(), std::move(entry));
}

void LeaseBook::note_model(LedgerEntry& entry, const WaitingRequest& request, PoolReplica& replica,
                           const ReplicaView& chosen) {
  if (request.model == 0) return;
  RecentModels& models = replica.recent_models;
  entry.model = request.model;
  entry.model_distance = models.distance(request.model);
  if (const std::size_t place = models.before(request.model); models.is_there(place))
    entry.model_idle = metrics::seconds(pool_.latest - models[place].used);
  entry.load_predicted = chosen.load_seconds;
  pool_.switches.note_sent(entry.model_distance);
  entry.behind_loads = chosen.loading_seconds;
  const double share = entry.model_distance == RecentModels::first ? 1 : chosen.load_share;
  models.sent(request.model, share, pool_.latest);
}

/// Enters the prompt where it goes. Returns null if nothing is known of it.
std::unique_ptr<PrefixChoice> LeaseBook::note_sent(const WaitingRequest& request, const ReplicaView& chosen,
                                                   std::span<const ReplicaView> candidates) {
  if (!pool_.counts_cached || (!request.prefix && chosen.cached == 0)) return nullptr;
  auto choice = std::make_unique<PrefixChoice>();
  choice->best = capped(std::ranges::max(candidates, {}, &ReplicaView::cached).cached);
  choice->prompt = request.prefix;
  if (request.prefix) choice->prediction = pool_.prefixes.sent(*request.prefix, chosen.index, request.prompt);
  choice->prediction.cached = capped(chosen.cached);
  choice->prediction.client = request.key;
  if (choice->prediction.tail != 0)
    pool_.prefixes.count(choice->prediction, chosen.index, request.prompt, choice->best);
  return choice;
}

/// Sees whether the engine keeps prompts waiting though it has nothing else to compute: its batch is full. One that
/// computes what it was believed to have in its cache looks the same once, but not twice with as many that run.
void LeaseBook::note_slots(PoolReplica& replica) {
  TokenLedger& ledger = replica.ledger;
  ledger.advance(pool_.latest);
  const std::uint32_t running = ledger.in_flight() - ledger.pending() + 1;
  if (replica.slots && running > *replica.slots) replica.slots.reset();
  if (ledger.pending() == 0 || ledger.streaming() < 4) return;
  const TimeModel time = replica.time.model(pool_.latest);
  const double step = time.step_of(ledger.streaming(), static_cast<double>(ledger.context()));
  const double prompt = time.token * static_cast<double>(ledger.prefill_left()) / ledger.pending();
  const double since_end = ledger.seconds_since_end();
  if (ledger.worked_seconds() > 3 * prompt + 4 * step && since_end < 2 * prompt + 4 * step &&
      ledger.worked_seconds() - since_end > 2 * prompt + 3 * step) {
    if (std::exchange(replica.slots_suspected, running) != running) return;
    replica.slots = running;
    replica.slots_seen = pool_.latest;
  }
}

Tokens LeaseBook::first_token(const LedgerEntry& entry) noexcept {
  PoolReplica& replica = pool_.replicas[entry.key.index];
  note_slots(replica);
  const std::optional<Tokens> output = replica.ledger.first_token(entry.ticket, pool_.latest);
  pool_.split.end_wait(entry.ticket);
  if (!output) return 0;
  replica.recent_models.first_token(entry.model);
  if (entry.model != 0 && !entry.for_slot && (entry.model_distance != 0 || entry.behind_loads == 0)) {
    const double token = replica.time.knows_prompts() ? replica.time.model(pool_.latest).token : 0;
    const double waited = replica.first_tokens.seconds_for(entry.ticket, entry.since, pool_.latest);
    const double own = token * entry.began.own_believed;
    pool_.switches.learn(entry.model_distance, waited - own, entry.model_idle, pool_.latest);
  }
  replica.first_tokens.came(entry.ticket, pool_.latest);
  if (entry.prefix && entry.prefix->prompt)
    pool_.prefixes.computed(*entry.prefix->prompt, entry.prefix->prediction, entry.key.index);
  if_memory_allows([&] {
    prompt_finished(replica, entry, entry.prompt - entry.cached());
    const auto uncached = static_cast<double>(entry.prompt - entry.cached());
    pool_.prompt_seconds.add(uncached * replica.time.model(pool_.latest).token, pool_.latest);
  });
  return *output;
}

void LeaseBook::leave_unread(const LedgerEntry& entry, bool unread) noexcept {
  pool_.replicas[entry.key.index].ledger.leave_unread(entry.ticket, unread, pool_.latest);
}

Concurrency LeaseBook::end(const LedgerEntry& entry, const LeaseEnd& reported) noexcept {
  LeaseEnd end = reported;
  if (end.prompt_tokens)
    end.cached_tokens = pool_.prefixes.told_cached(entry.key.index, entry.facts->api, end.cached_tokens);
  PoolReplica& replica = pool_.replicas[entry.key.index];
  // A replica that failed may have worked on the prompt in vain, which leaves later (TokenLedger::failure_memory).
  const bool failed = end.cause == EndCause::replica_failed;
  const TokenLedger::Closed closed =
      replica.ledger.close(entry.ticket, !failed, entry.output_left, entry.streamed, pool_.latest);
  --pool_.in_flight;
  pool_.split.end_wait(entry.ticket);
  if (failed) replica.evidence.begin_rest(entry.caller, pool_.latest);
  if (entry.prefix) {
    const PrefixChoice& choice = *entry.prefix;
    if (choice.prompt && was_computed(closed, end))
      pool_.prefixes.computed(*choice.prompt, choice.prediction, entry.key.index);
    else if (choice.prompt)
      pool_.prefixes.failed(*choice.prompt, choice.prediction, entry.key.index);
    if (end.cause == EndCause::answered)
      pool_.prefixes.answered(choice.prediction, entry.key.index, entry.prompt,
                              {end.prompt_tokens, end.cached_tokens, end.output_tokens, pool_.latest});
  }
  if (end.cause == EndCause::answered && entry.facts->empties_cache)
    pool_.prefixes.wipe(entry.key.index, PrefixWipe::flushed);
  if (entry.model != 0) {
    const bool streamed = closed.first_token.has_value(), answered = streamed || end.cause == EndCause::answered;
    replica.recent_models.ended(entry.model, {streamed, answered}, pool_.latest);
  }
  // Clients give up where nothing comes. Else a replica that has become slow would teach nothing, and look idle.
  const double waited = metrics::seconds(pool_.latest - entry.since);
  if (end.cause != EndCause::answered && !closed.first_token && shows_pace(entry, waited) && entry.predicted &&
      waited > 2 * entry.predicted->ttft) {
    ReplicaTime::Began began = entry.began;
    began.seconds = waited;
    began.own = began.own_believed;
    replica.time.gave_up(began, pool_.latest);
  }
  if (end.cause == EndCause::answered && entry.facts->gives_work) {
    replica.ledger.lives(pool_.latest);
    replica.models.answered(model_id(entry.facts->model));
    if_memory_allows([&] { learn(replica, entry, end, closed); });
  }
  pool_.replicas.drop_if_gone(entry.key.index);
  return closed.concurrency;
}

/// True if the time to the first token tells how fast the replica computes: the request neither waited for a place in
/// its engine's batch, nor, as far as that is known, for its model.
bool LeaseBook::shows_pace(const LedgerEntry& entry, double seconds) const {
  if (entry.for_slot) return false;
  const bool switches = entry.model_distance != 0 && entry.model_distance != RecentModels::first;
  constexpr double large = 0.25;
  if (!pool_.switches.known()) return !switches;
  return entry.load_predicted + entry.behind_loads <= large * seconds;
}

void LeaseBook::learn(PoolReplica& replica, const LedgerEntry& entry, const LeaseEnd& end,
                      const TokenLedger::Closed& closed) {
  const RequestFacts& facts = *entry.facts;
  estimator_.learn(facts, end.prompt_tokens);
  // An answer without a token is no work, and as fast as none.
  if (end.output_tokens == Tokens{0} && metrics::generates(facts.api)) return;
  if (end.output_tokens) expected_output_.learn(facts, *end.output_tokens);
  if (!closed.first_token) return prompt_finished(replica, entry, closed.uncached);
  if (!shows_tokens(facts)) return;
  const Tokens prompt = end.prompt_tokens.value_or(closed.prompt);
  const Tokens cached = std::min(end.cached_tokens.value_or(entry.cached()), prompt);
  ReplicaTime::Began began = entry.began;
  began.seconds = metrics::seconds(*closed.first_token - entry.since);
  began.own = static_cast<double>(prompt - cached);
  if (shows_pace(entry, began.seconds)) replica.time.began(began, pool_.latest);
  // Usage counts the tokens of all choices together.
  if (end.output_tokens > Tokens{1} && facts.n <= 1 && !entry.was_unread) {
    const double seconds = metrics::seconds(pool_.latest - *closed.first_token);
    replica.time.decoded({*end.output_tokens - 1, seconds, closed.sequences, closed.context, closed.computed},
                         pool_.latest);
  }
  const TimeModel time = replica.time.model(pool_.latest);
  const double step = time.step_of(replica.ledger.streaming() + 1, static_cast<double>(replica.ledger.context()));
  replica.ledger.set_drain_rates({replica.time.prompt_rate().value_or(0), replica.time.knows_steps() ? 1 / step : 0});
}

void LeaseBook::prompt_finished(PoolReplica& replica, const LedgerEntry& entry, Tokens uncached) {
  pool_.prompt_finished(uncached, entry.waited);
  replica.health.prompt_finished(uncached);
  starts_.end_finished();
}

}  // namespace weir::balancer
