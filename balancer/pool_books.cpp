// The books of a pool's leases, and what their first tokens and their ends teach.
#include <algorithm>
#include <limits>
#include <utility>

#include "balancer/policy/policies.hpp"
#include "balancer/pool.hpp"

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

/// Returns the middle value, or the mean of the two middle ones; 0 if there are none. Reorders `values`.
double median_of(std::span<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

void PoolState::set_policy(config::Policy policy) {
  kind_ = policy;
  policy_ = policy::make(policy);
  set_prefix_aware(prefix_aware_);
}

void PoolState::set_prefix_aware(bool aware) {
  prefix_aware_ = aware;
  // Prompts that are not entered take the room of those that are.
  if (!counts_cached()) prefixes.forget_prompts();
}

void PoolState::set_split(std::optional<double> share) {
  split.set(share);
  for (PoolReplica& replica : replicas.all()) replica.closed = split.closes_candidate() && replica.spec.candidate;
}

std::vector<ReplicaIndex> PoolState::set_replicas(std::span<const ReplicaSpec> specs) {
  auto indices = replicas.set(specs, latest);
  set_split(split.share);
  for (PoolReplica& replica : replicas.named()) {
    prefixes.place(replica.key, replica.kv_tokens().value_or(0), replicas.places());
    auto& shared = steps_[replica.spec.config];
    if (!shared) shared = std::make_shared<StepTimes>(steps_of_all_);
    replica.time.set_steps(shared);
  }
  std::erase_if(steps_, [](const auto& one) { return one.second.use_count() == 1; });
  return indices;
}

/// Sets the prompt of a request, and what it may come to, as estimated from its facts. Where the end of a beginning of
/// the prompt is known, so are its tokens; and what some replica holds of it is not to be computed.
void PoolState::estimate(WaitingRequest& request) {
  const RequestFacts& facts = *request.facts;
  const TokenEstimator::Estimate prompt = estimator_.estimate(facts);
  request.prompt = prompt.tokens;
  request.prompt_known = prompt.known;
  request.sequence = prompt_of_sequence(facts, prompt);
  request.context = sum_of(request.sequence, facts.max_tokens.value_or(0));
  if (!prompt.known) return;
  if (request.prefix) request.prompt = prefixes.refine(*request.prefix, request.prompt);
  if (!look_up(request)) return;
  for (const PoolReplica& replica : replicas.named())
    if (replica.is_in()) request.cached = std::max(request.cached, prefixes.cached(replica.key.index, request.prompt));
}

/// Returns what the expected output of a request costs beside its prompt.
Tokens PoolState::output_cost(const RequestFacts& facts) const {
  constexpr double token = 0.05;  // Steps give tokens to many sequences at a time.
  const double output = token * static_cast<double>(expected_output_.of(facts));
  return static_cast<Tokens>(std::min(output, static_cast<double>(most_output_cost)));
}

Lease PoolState::take(const WaitingRequest& request, const Narrowed& narrowed) {
  const RequestFacts& facts = *request.facts;
  const policy::Job job{request.prompt, expected_output_.of(facts), prompt_load()};
  const ReplicaView& chosen = found_[policy_->choose(job, found_, random_)];
  const policy::Forecast forecast = policy::forecast(job, chosen);
  PoolReplica& replica = replicas[chosen.index];
  const bool shows = shows_tokens(facts);

  LedgerEntry entry;
  entry.facts = request.facts;
  entry.streamed_tokens = &replica.ledger.streamed();
  entry.subject = replica.spec.subject;
  entry.ticket = ++tickets_;
  entry.key = replica.key;
  entry.identity = replica.identity;
  entry.prompt = request.prompt;
  entry.number = Split::number_of(facts, request.lot);
  entry.since = latest;
  entry.waited = request.since < latest;
  entry.began.own_believed = static_cast<double>(chosen.uncached(request.prompt));
  entry.began.ahead = forecast.prompt_tokens - entry.began.own_believed;
  entry.began.sequences = chosen.streaming;
  entry.began.context = static_cast<double>(chosen.context);
  if (shows && replica.time.knows_prompts())
    entry.predicted =
        PredictedTimes{forecast.first_token, forecast.first_token + forecast.decode, forecast.output_token};
  entry.for_slot = forecast.for_slot;
  entry.output_left = shows ? job.output : 0;
  entry.caller = request.caller;
  constexpr std::uint32_t enough_for_a_doubt = 20;
  entry.doubted =
      replica.spec.health.eject && (replicas.is_odd(replica, request.caller.topic, enough_for_a_doubt, latest) ||
                                    replicas.is_odd(replica, 0, enough_for_a_doubt, latest));

  const Tokens longest = longest_output(facts, request.prompt_known, replica.context());
  replica.ledger.open(entry.ticket, {request.prompt, job.output, shows, longest, chosen.cached}, latest);
  if (shows) split.begin_wait(entry.ticket, entry.number, latest);
  entry.prefix = note_sent(request, chosen);
  ++in_flight;
  if (chosen.other_side) ++split.crossed;
  if (narrowed.eligibility == Eligibility::kv_full) ++replica.fallbacks.kv_full;
  if (!request.prompt_known) ++replica.fallbacks.unknown_prompt;
  if (narrowed.panic) ++replica.fallbacks.panic;
  note_passed_over(job, chosen, forecast.first_token);
  if (facts.gives_work) note_model(entry, request, chosen);
  return Lease(owner_.shared_from_this(), std::move(entry));
}

/// Notes at each idle replica that the request went to a busy one.
void PoolState::note_passed_over(const policy::Job& job, const ReplicaView& chosen, double first_token_there) {
  replicas[chosen.index].passed_over = {};
  if (kind_ != config::Policy::least_queued_tokens || chosen.in_flight == 0) return;
  const ReplicaKey key = replicas[chosen.index].key;
  for (const ReplicaView& other : found_)
    if (other.in_flight == 0)
      replicas[other.index].passed_over = {latest,
                                           key,
                                           policy::forecast(job, other).first_token,
                                           first_token_there,
                                           other.time.token * (other.waste - chosen.waste),
                                           other.weight < chosen.weight};
}

void PoolState::note_model(LedgerEntry& entry, const WaitingRequest& request, const ReplicaView& chosen) {
  if (request.model == 0) return;
  RecentModels& models = replicas[chosen.index].recent_models;
  entry.model = {.id = request.model,
                 .distance = models.distance(request.model),
                 .load_predicted = chosen.load_seconds,
                 .behind_loads = chosen.loading_seconds};
  if (const std::size_t place = models.before(request.model); models.is_there(place))
    entry.model.idle = metrics::seconds(latest - models[place].used);
  switches_.note_sent(entry.model.distance);
  const double share = entry.model.distance == RecentModels::first ? 1 : chosen.load_share;
  models.sent(request.model, share, latest);
}

/// Enters the prompt where it goes. Returns null if nothing is known of it.
std::unique_ptr<PrefixChoice> PoolState::note_sent(const WaitingRequest& request, const ReplicaView& chosen) {
  if (!counts_cached() || !request.prefix) return nullptr;
  auto choice = std::make_unique<PrefixChoice>();
  choice->best = capped(std::ranges::max(found_, {}, &ReplicaView::cached).cached);
  choice->prompt = request.prefix;
  choice->prediction = prefixes.sent(*request.prefix, chosen.index, request.prompt, choice->best, request.fair_key);
  return choice;
}

Tokens PoolState::first_token(const LedgerEntry& entry) {
  PoolReplica& replica = replicas[entry.key.index];
  replica.ledger.advance(latest);
  replica.slots.look(replica.ledger, replica.time, latest);
  const std::optional<Tokens> output = replica.ledger.first_token(entry.ticket, latest);
  split.end_wait(entry.ticket);
  if (!output) return 0;
  const ModelChoice& model = entry.model;
  replica.recent_models.first_token(model.id);
  if (model.id != 0 && !entry.for_slot && (model.distance != 0 || model.behind_loads == 0)) {
    const double token = replica.time.knows_prompts() ? replica.time.model(latest).token : 0;
    const double waited = replica.first_tokens.seconds_for(entry.ticket, entry.since, latest);
    switches_.learn(model.distance, waited - token * entry.began.own_believed, model.idle, latest);
  }
  replica.first_tokens.came(entry.ticket, latest);
  if (entry.prefix && entry.prefix->prompt)
    prefixes.computed(*entry.prefix->prompt, entry.prefix->prediction, entry.key.index);
  const Tokens uncached = entry.prompt - entry.cached();
  prompt_finished(replica, entry, uncached);
  prompt_seconds_.add(static_cast<double>(uncached) * replica.time.model(latest).token, latest);
  return *output;
}

Concurrency PoolState::end(const LedgerEntry& entry, LeaseEnd end) {
  if (end.prompt_tokens) end.cached_tokens = prefixes.told_cached(entry.key.index, entry.facts->api, end.cached_tokens);
  PoolReplica& replica = replicas[entry.key.index];
  const bool is_answered = end.cause == EndCause::answered;
  // A replica that failed may have worked on the prompt in vain, which leaves later (TokenLedger::failure_memory).
  const bool failed = end.cause == EndCause::replica_failed;
  const TokenLedger::Closed closed =
      replica.ledger.close(entry.ticket, !failed, entry.output_left, entry.streamed, latest);
  --in_flight;
  split.end_wait(entry.ticket);
  if (failed) replica.evidence.begin_rest(entry.caller, latest);
  learn_prefix(entry, end, closed);
  if (entry.model.id != 0) {
    const bool streamed = closed.first_token.has_value();
    replica.recent_models.ended(entry.model.id, {streamed, streamed || is_answered}, latest);
  }
  if (!is_answered && !closed.first_token) learn_give_up(entry);
  if (is_answered && entry.facts->gives_work) {
    replica.ledger.lives(latest);
    replica.models.answered(model_id(entry.facts->model));
    learn(replica, entry, end, closed);
  }
  replicas.drop_if_gone(entry.key.index);
  return closed.concurrency;
}

void PoolState::learn_prefix(const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed) {
  const ReplicaIndex index = entry.key.index;
  const bool is_answered = end.cause == EndCause::answered;
  if (entry.prefix) {
    const PrefixChoice& choice = *entry.prefix;
    if (choice.prompt && was_computed(closed, end))
      prefixes.computed(*choice.prompt, choice.prediction, index);
    else if (choice.prompt)
      prefixes.failed(*choice.prompt, choice.prediction, index);
    if (is_answered)
      prefixes.answered(choice.prediction, index, entry.prompt,
                        {end.prompt_tokens, end.cached_tokens, end.output_tokens, latest});
  }
  if (is_answered && entry.facts->empties_cache) prefixes.wipe(index, PrefixWipe::flushed);
}

/// Clients give up where nothing comes. Else a replica that has become slow would teach nothing, and look idle.
void PoolState::learn_give_up(const LedgerEntry& entry) {
  const double waited = metrics::seconds(latest - entry.since);
  if (!entry.predicted || waited <= 2 * entry.predicted->ttft || !shows_pace(entry, waited)) return;
  ReplicaTime::Began began = entry.began;
  began.seconds = waited;
  began.own = began.own_believed;
  replicas[entry.key.index].time.gave_up(began, latest);
}

/// True if the time to the first token tells how fast the replica computes: the request neither waited for a place in
/// its engine's batch, nor, as far as that is known, for its model.
bool PoolState::shows_pace(const LedgerEntry& entry, double seconds) const {
  if (entry.for_slot) return false;
  const ModelChoice& model = entry.model;
  constexpr double large = 0.25;
  if (!switches_.known()) return model.distance == 0 || model.distance == RecentModels::first;
  return model.load_predicted + model.behind_loads <= large * seconds;
}

void PoolState::learn(PoolReplica& replica, const LedgerEntry& entry, const LeaseEnd& end,
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
  if (shows_pace(entry, began.seconds)) replica.time.began(began, latest);
  // Usage counts the tokens of all choices together.
  if (end.output_tokens > Tokens{1} && facts.n <= 1 && !entry.was_unread) {
    const double seconds = metrics::seconds(latest - *closed.first_token);
    replica.time.decoded({*end.output_tokens - 1, seconds, closed.sequences, closed.context, closed.computed}, latest);
  }
  const TimeModel time = replica.time.model(latest);
  const double step =
      time.step_of(replica.ledger.gauges().streaming + 1, static_cast<double>(replica.ledger.gauges().context));
  replica.ledger.set_drain_rates({replica.time.prompt_rate().value_or(0), replica.time.knows_steps() ? 1 / step : 0});
}

void PoolState::prompt_finished(PoolReplica& replica, const LedgerEntry& entry, Tokens uncached) {
  if (entry.waited || drains()) drain_.tokens.add(static_cast<double>(uncached), latest);
  replica.health.prompt_finished(uncached);
  end_starts();
}

void PoolState::end_starts() {
  const auto starts = [](const PoolReplica& replica) { return replica.health.view().state == ReplicaState::starting; };
  if (std::ranges::none_of(replicas.named(), starts)) return;
  held_.clear();
  held_.reserve(replicas.places());
  for (const PoolReplica& replica : replicas.named())
    if (replica.health.view().state == ReplicaState::up)
      held_.push_back(static_cast<double>(replica.ledger.gauges().prefill_left));
  const bool has_peers = !held_.empty();
  const double held_by_peers = median_of(held_);
  for (PoolReplica& replica : replicas.named()) {
    if (!starts(replica)) continue;
    const Tokens allowance = replica.allowance();
    if (allowance == 0) continue;
    const Tokens wanted = replica.ledger.gauges().prefill_left + waiting.tokens();
    const double needed = has_peers ? held_by_peers : static_cast<double>(wanted);
    if (static_cast<double>(allowance) >= needed) replica.health.started(latest);
  }
}

}  // namespace weir::balancer
