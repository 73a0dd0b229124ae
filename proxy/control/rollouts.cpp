#include "proxy/control/rollouts.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include "metrics/wire/json/writer.hpp"
#include "proxy/control/rollout_api.hpp"
#include "proxy/control/shadow_api.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control {
namespace {

namespace ro = balancer::rollout;
using metrics::Moment;

bool is_of_candidate(const fleet::PoolRuntime& pool, const fleet::Replica& replica) {
  return replica.settings.config == pool.rollout->candidate;
}

/// The replicas of the candidate that are known.
std::vector<balancer::ReplicaKey> candidates_of(const fleet::PoolRuntime& pool) {
  std::vector<balancer::ReplicaKey> keys;
  for (const auto& replica : pool.replicas)
    if (is_of_candidate(pool, *replica)) keys.push_back(replica->key);
  return keys;
}

/// True if the move gives the candidate more, or lets it go on.
bool gives_more(ro::Reason reason) {
  using enum ro::Reason;
  return reason == start || reason == pass || reason == promote || reason == resume;
}

bool is_under_way(ro::State state) {
  return state == ro::State::shadow || state == ro::State::live || state == ro::State::paused;
}

}  // namespace

Rollouts::Rollouts(boost::asio::io_context& context, fleet::Fleet& fleet, History& history, SlowAnswers& slow,
                   KeptRollouts kept)
    : fleet_(fleet),
      history_(history),
      slow_(slow),
      conversation_key_(kept.conversation_key),
      left_(kept),
      writer_(context, std::move(kept), [this](const auto& what) { written(what); }) {}

const fleet::PoolRuntime* Rollouts::pool_of(const Running& one, const fleet::Snapshot& snapshot) {
  const auto& name = one.machine().settings().pool;
  const auto found =
      std::ranges::find_if(snapshot.pools, [&](const auto& pool) { return pool->settings.name == name; });
  return found == snapshot.pools.end() ? nullptr : found->get();
}

void Rollouts::adopt(Moment now) {
  now_ = now;
  const auto snapshot = fleet_.snapshot();
  const auto& wanted = snapshot->settings.rollouts;
  const bool had_any = !running_.empty() || !left_.rollouts.empty();
  for (auto& [name, one] : running_) give_up(one, not_now("the settings were reloaded meanwhile; ask again"));
  drop_all_but(wanted);
  const auto left = std::exchange(left_, {});
  for (const auto& settings : wanted) {
    const auto [place, is_new] = running_.try_emplace(settings.name, settings);
    Running& one = place->second;
    if (const auto move = is_new ? restore(one, left, now) : follow(one, settings, now))
      moved(one, *move, *snapshot, now);
    else
      apply(one, *snapshot, now);
  }
  const auto before = std::exchange(directory_, snapshot->settings.admin.state);
  if (wanted.empty() && !had_any) return;
  keep();
  // Until then a restart finds nothing in another directory.
  if (!before.empty() && before != directory_) writer_.wait();
}

void Rollouts::drop_all_but(const std::vector<config::Rollout>& wanted) {
  std::erase_if(running_, [&](const auto& one) {
    const bool gone = std::ranges::find(wanted, one.first, &config::Rollout::name) == wanted.end();
    if (gone)
      events::info(events::What::rollout, one.first,
                   "rollout '{}' is no longer in the settings: its pool is not split any more", one.first);
    return gone;
  });
}

/// Gives a rollout other settings.
std::optional<ro::Move> Rollouts::follow(Running& one, const config::Rollout& settings, Moment now) {
  auto move = one.machine().adopt(settings);
  one.follower.ask_anew(now);
  return move;
}

/// Gives a rollout the standing in which an earlier weir left it, if that was of the same candidate.
std::optional<ro::Move> Rollouts::restore(Running& one, const KeptRollouts& left, Moment now) {
  const auto& settings = one.machine().settings();
  const auto before = left.rollouts.find(settings.name);
  if (before == left.rollouts.end() || before->second.pool != settings.pool ||
      before->second.candidate != settings.candidate)
    return std::nullopt;
  auto move = one.machine().restore(before->second.standing);
  one.follower.restored(now);
  const auto& standing = one.machine().standing();
  const auto step = one.machine().step_text();
  if (standing.state == ro::State::idle && standing.why.empty()) {
    events::info(events::What::rollout, settings.name,
                 "rollout '{}' has not been started: its candidate gets no requests", settings.name);
  } else {
    events::info(events::What::rollout, settings.name,
                 "rollout '{}' stands where it stood when weir last ended: {}{}{}", settings.name,
                 ro::name_of(standing.state), step.empty() ? "" : " at step \"" + step + '"',
                 standing.why.empty() ? "" : ": " + standing.why);
  }
  return move;
}

/// Carries out what the machine wants. Nothing happens where that is so already.
void Rollouts::apply(Running& one, const fleet::Snapshot& snapshot, Moment now) {
  const auto* const pool = pool_of(one, snapshot);
  if (pool == nullptr) return;
  pool->balancer->set_split(one.machine().share(), now);
  if (const auto mirrors = one.machine().shadow()) switch_shadows(one, *mirrors, snapshot);
}

/// Switches the rollout's shadow, and with it on the control beside it.
void Rollouts::switch_shadows(Running& one, bool mirrors, const fleet::Snapshot& snapshot) {
  const auto wall = std::chrono::system_clock::now();
  for (const auto& shadow : snapshot.shadows) {
    if (shadow->settings.name != one.machine().settings().shadow) continue;
    // Once a rollout has ended, its shadow is the operator's, also where a reload began it anew as it was.
    const auto before = std::exchange(one.switched, shadow->state);
    if (!is_under_way(one.machine().standing().state) && before && before->on == shadow->state->on) continue;
    switch_shadow(*shadow, mirrors, history_, wall);
    if (!mirrors) continue;
    for (const auto& control : snapshot.shadows) {
      const auto& settings = control->settings;
      if (settings.control && settings.of == shadow->settings.of && settings.twin == shadow->settings.twin)
        switch_shadow(*control, true, history_, wall);
    }
  }
}

void Rollouts::moved(Running& one, const ro::Move& move, const fleet::Snapshot& snapshot, Moment now) {
  using Reason = ro::Reason;
  const bool bad = move.reason == Reason::unknown || one.machine().standing().state == ro::State::returned;
  events::tell(events::What::rollout, one.machine().settings().name, bad ? events::Level::warn : events::Level::info,
               "{}", move.line);
  ++one.moves[static_cast<std::size_t>(move.reason)];
  // A step of a shadow that was on before begins with it, so that the window of the gate is the step.
  if (move.reason == Reason::start && one.machine().shadow().value_or(false))
    for (const auto& shadow : snapshot.shadows)
      if (shadow->settings.name == one.machine().settings().shadow) shadow->state->on = false;
  one.switched.reset();
  apply(one, snapshot, now);
  const auto* const pool = pool_of(one, snapshot);
  one.follower.moved(move.reason, pool == nullptr ? balancer::SplitFigures() : pool->balancer->split(), now);
}

/// Lets the machine move. One that gives the candidate more has to be on the disk first; any other is carried out at
/// once, whatever the disk does. `completion` may be empty.
void Rollouts::propose(Running& one, Push push, Completion completion) {
  const auto tell = [&](const ApiAnswer& answer) {
    if (completion) completion.tell(answer);
  };
  auto after = one.machine();
  const auto answer = push(after, now_);
  if (const auto* const sentence = std::get_if<std::string>(&answer)) return tell(not_now(*sentence));
  const auto& move = std::get<ro::Move>(answer);
  if (gives_more(move.reason)) {
    // Until its write has a number, no write is the one that it waits for.
    one.pending = Pending{std::move(after), std::move(push), ~std::uint64_t{0}, std::move(completion)};
    one.pending->write = keep();
    return;
  }
  one.machine() = std::move(after);
  give_up(one, not_now("it moved otherwise meanwhile: " + move.line));
  moved(one, move, *fleet_.snapshot(), now_);
  keep();
  tell(answer_of(one.machine().settings().name, move));
}

/// The move that waits for the disk is not made.
void Rollouts::give_up(Running& one, const ApiAnswer& answer) {
  if (!one.pending) return;
  auto completion = std::move(one.pending->completion);
  one.pending.reset();
  if (completion) completion.tell(answer);
}

void Rollouts::end() {
  for (auto& [name, one] : running_) give_up(one, not_now("weir is draining, and ends then"));
  if (!running_.empty()) keep();
  ended_ = true;
}

void Rollouts::tick(Moment now) {
  now_ = now;
  if (ended_ || running_.empty() || now < next_tick_) return;
  next_tick_ = now + every;
  const auto snapshot = fleet_.snapshot();
  bool under_way = false;
  for (auto& [name, one] : running_) {
    tick(name, one, *snapshot, now);
    under_way = under_way || !one.machine().step_text().empty();
  }
  if ((under_way || !state_error_.empty()) && now >= next_keep_ && !writer_.is_busy()) keep();
}

void Rollouts::tick(const std::string& name, Running& one, const fleet::Snapshot& snapshot, Moment now) {
  const auto* const pool = pool_of(one, snapshot);
  if (pool == nullptr || !pool->rollout) return;
  const auto slo = std::ranges::find(snapshot.settings.slos, one.machine().settings().slo, &config::Slo::name);
  const ro::Ended ended{history_.names(), [this](Moment since) { return history_.samples_since(since); }};
  auto tick = one.follower.look(*pool->balancer, candidates_of(*pool), ended,
                                slo == snapshot.settings.slos.end() ? nullptr : &*slo, now);
  tick.holds = one.pending.has_value();
  if (!state_error_.empty() && tick.gate != ro::Word::worse) {
    tick.gate.reset();
    tick.why = state_error_;
  }
  auto after = one.machine();
  const auto wanted = after.tick(tick);
  if (wanted && gives_more(wanted->reason)) {
    tick.holds = true;
    one.machine().tick(tick);
    // The facts by which it moves, once more. What was counted is in the machine already.
    tick.holds = false;
    tick.failures = tick.misses = {};
    tick.refusals = tick.hangs = {};
    propose(
        one,
        [again = std::move(tick)](ro::Machine& machine, Moment then) -> ro::Answer {
          auto facts = again;
          facts.now = then;
          auto move = machine.tick(facts);
          return move ? ro::Answer(*std::move(move)) : ro::Answer(std::string());
        },
        {});
  } else {
    one.machine() = std::move(after);
    if (wanted) {
      give_up(one, not_now("it moved otherwise meanwhile: " + wanted->line));
      moved(one, *wanted, snapshot, now);
      keep();
    }
  }
  ask_gate(name, one, snapshot, now);
}

void Rollouts::ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, Moment now) {
  if (!one.follower.gate_is_due(now) || slow_.is_full()) return;
  const auto question = one.follower.gate_asked(now);
  const auto* const pool = pool_of(one, snapshot);
  std::function<Judged()> judge_it;
  if (one.machine().share() > 0) {
    judge_it = gate_of_split(*pool, snapshot, history_, one.follower.step_began());
  } else {
    const auto& shadow = one.machine().settings().shadow;
    const auto found =
        std::ranges::find_if(snapshot.shadows, [&](const auto& s) { return s->settings.name == shadow; });
    if (found == snapshot.shadows.end()) return;
    judge_it = gate_of_shadow(**found, snapshot, history_, one.machine().settings().slo);
  }
  slow_.make(std::move(judge_it), [this, name, question](const std::shared_ptr<Judged>& judged) {
    const auto found = running_.find(name);
    if (judged && found != running_.end()) found->second.follower.gate_said(question, judged->gate);
  });
}

/// Has the file written with what is given, and with what is to be given once that is on the disk. Returns the number
/// of the write.
std::uint64_t Rollouts::keep() {
  KeptRollouts wanted{conversation_key_, {}};
  for (const auto& [name, one] : running_) {
    const auto& settings = one.machine().settings();
    const auto& machine = one.pending ? one.pending->after : one.machine();
    wanted.rollouts[name] = {settings.pool, settings.candidate, machine.standing()};
  }
  next_keep_ = next_tick_ + keep_every;
  return writer_.write(directory_, std::move(wanted));
}

void Rollouts::written(const RolloutWriter::Written& written) {
  if (!written.error.empty()) next_keep_ = next_tick_ + every;
  if (written.error != state_error_) {
    if (!written.error.empty())
      events::error(events::What::rollout, "", "{}", written.error);
    else
      events::info(events::What::rollout, "", "the state of rollouts is kept again");
  }
  state_error_ = written.error;
  const auto snapshot = fleet_.snapshot();
  bool is_behind = false;
  for (auto& [name, one] : running_) {
    if (!one.pending || one.pending->write > written.number) continue;
    if (!state_error_.empty()) {
      // A share that was taken before may have been left to this write.
      is_behind = true;
      give_up(one, api_error(503, "state_not_kept", state_error_));
      continue;
    }
    auto pending = std::move(*std::exchange(one.pending, std::nullopt));
    const auto answer = pending.push(one.machine(), now_);
    const auto* const move = std::get_if<ro::Move>(&answer);
    if (move != nullptr)
      moved(one, *move, *snapshot, now_);
    else
      is_behind = true;
    if (pending.completion)
      pending.completion.tell(move != nullptr ? answer_of(name, *move) : not_now(std::get<std::string>(answer)));
  }
  if (is_behind) keep();
}

/// Returns an answer, or takes the completion to give it later.
std::optional<ApiAnswer> Rollouts::begin(std::string_view name, Wish wish, Moment now, std::string_view body,
                                         Completion& completion) {
  now_ = now;
  const auto found = running_.find(name);
  if (found == running_.end())
    return api_error(404, "unknown_rollout",
                     "no rollout is named '" + std::string(name) + "'; GET /api/rollout lists them");
  if (ended_) return not_now("weir is draining, and ends then");
  Running& one = found->second;
  const auto promotion = wish == Wish::promote ? promotion_in(body) : Promotion();
  if (!promotion)
    return api_error(400, "bad_body",
                     R"(the body must be empty, or a JSON object with nothing but "from" and "to", which name steps, )"
                     R"(such as {"from": "5%", "to": "25%"})");
  if (one.pending && (wish == Wish::start || wish == Wish::promote))
    return not_now("the rollout '" + one.machine().settings().name +
                   "' is about to move, once that is on the disk; ask again when it is");
  if (one.pending) {
    // A pause or an abort that the machine refuses where it still stands takes back what waits for the disk.
    auto as_it_is = one.machine();
    const auto answer = wish == Wish::pause ? as_it_is.pause() : as_it_is.abort();
    if (std::holds_alternative<std::string>(answer)) {
      give_up(one, not_now("it was taken back meanwhile"));
      keep();
      return answer_of(std::string(name), {wish == Wish::pause ? ro::Reason::pause : ro::Reason::abort,
                                           "rollout '" + std::string(name) + "': its next move was taken back"});
    }
  }
  propose(
      one,
      [wish, promotion = *promotion](ro::Machine& machine, Moment) {
        switch (wish) {
          case Wish::start:
            return machine.start();
          case Wish::pause:
            return machine.pause();
          case Wish::promote:
            return machine.promote(promotion.from, promotion.to);
          case Wish::abort:
            break;
        }
        return machine.abort();
      },
      std::move(completion));
  return std::nullopt;
}

ApiAnswer Rollouts::list() const {
  const auto snapshot = fleet_.snapshot();
  metrics::wire::JsonWriter json;
  json.open('{').key("rollouts").open('[');
  for (const auto& [name, one] : running_) {
    const auto* const pool = pool_of(one, *snapshot);
    write_rollout(json, one.follower, pool != nullptr ? pool->balancer->split().crossed : 0);
  }
  json.close(']').key("state_error").known_text(state_error_).close('}');
  return {200, std::move(json).written() + "\n"};
}

std::vector<metrics::series::RolloutGauges> Rollouts::gauges() const {
  const auto snapshot = fleet_.snapshot();
  std::vector<metrics::series::RolloutGauges> all;
  for (const auto& [name, one] : running_) {
    auto& gauges = all.emplace_back();
    gauges.rollout = name;
    gauges.share = one.machine().share();
    for (std::size_t i = 0; i < ro::state_names.size(); ++i)
      gauges.states.emplace_back(ro::state_names[i], static_cast<ro::State>(i) == one.machine().standing().state);
    for (std::size_t i = 0; i < one.moves.size(); ++i) gauges.moves.emplace_back(ro::reason_names[i], one.moves[i]);
    if (const auto* const pool = pool_of(one, *snapshot)) gauges.crossed = pool->balancer->split().crossed;
  }
  return all;
}

std::vector<live::RolloutNow> Rollouts::rows() const {
  std::vector<live::RolloutNow> all;
  for (const auto& [name, one] : running_)
    all.push_back({name, ro::name_of(one.machine().standing().state), one.machine().share()});
  return all;
}

}  // namespace weir::proxy::control
