#include "proxy/rollout/rollouts.hpp"

#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "balancer/rollout/machine.hpp"
#include "config/rollouts.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::rollout {
namespace {

namespace ro = balancer::rollout;
using http::api_error;
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

/// The steps that a promotion names; "" where it names none.
struct Promotion {
  std::string from, to;
};

/// Returns nothing if the body is no object with these texts alone. An empty body names no step.
std::optional<Promotion> promotion_in(std::string_view body) {
  Promotion promotion;
  if (body.find_first_not_of(" \t\r\n") == body.npos) return promotion;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(body.data(), body.size()).get(object)) return std::nullopt;
  for (const auto& [name, value] : object) {
    std::string_view text;
    if ((name != "from" && name != "to") || value.get(text)) return std::nullopt;
    (name == "from" ? promotion.from : promotion.to) = text;
  }
  return promotion;
}

ApiAnswer answer_of(const std::string& name, const ro::Move& move) {
  metrics::wire::JsonWriter json;
  json.open('{').key("name").text(name).key("reason").text(ro::name_of(move.reason)).key("move").text(move.line);
  json.close('}');
  return {200, std::move(json).written() + "\n"};
}

ApiAnswer not_now(const std::string& sentence) { return api_error(409, "not_now", sentence); }

ro::Answer asked(ro::Machine& machine, Rollouts::Wish wish, const Promotion& promotion) {
  switch (wish) {
    case Rollouts::Wish::start:
      return machine.start();
    case Rollouts::Wish::pause:
      return machine.pause();
    case Rollouts::Wish::promote:
      return machine.promote(promotion.from, promotion.to);
    case Rollouts::Wish::abort:
      break;
  }
  return machine.abort();
}

/// Writes one object: a rollout, where it stands, and why. `crossed` requests went to the other side than their own.
void write_rollout(metrics::wire::JsonWriter& json, const ro::Follower& follower, std::uint64_t crossed) {
  const auto& machine = follower.machine;
  const auto& settings = machine.settings();
  const auto& standing = machine.standing();
  json.open('{').key("name").text(settings.name).key("pool").text(settings.pool);
  json.key("candidate").text(settings.candidate);
  json.key("shadow").known_text(settings.shadow).key("slo").known_text(settings.slo);
  ro::write_standing(json, standing);
  json.key("step").known_text(machine.step_text());
  json.key("steps").open('[');
  for (const auto& step : settings.steps) json.text(config::to_text(step));
  json.close(']');
  const bool in_step = !machine.step_text().empty();
  const auto least = in_step ? std::optional(settings.steps[standing.step].least.count()) : std::nullopt;
  json.key("least_seconds").exact(least);
  json.key("unknown_limit_seconds").exact(settings.unknown_limit.count());
  json.key("gate").open('{').key("word").text(ro::name_of(follower.gate().value_or(ro::Word::unknown)));
  const bool in_question = in_step && standing.state != ro::State::done;
  json.key("why").text(in_question ? follower.gate_why() : "").close('}');
  const auto wait = follower.wait();
  json.key("longest_wait_seconds").exact(wait ? std::optional(wait->count()) : std::nullopt);
  json.key("evidence_limit").exact(machine.evidence_limit());
  json.key("crossed").count(crossed).close('}');
}

}  // namespace

Rollouts::Rollouts(boost::asio::io_context& context, fleet::Fleet& fleet, History& history, SlowAnswers& slow,
                   KeptRollouts kept)
    : fleet_(fleet),
      history_(history),
      slow_(slow),
      conversation_key_(kept.conversation_key),
      left_(kept),
      writer_(context, std::move(kept), [this](const auto& error) { written(error); }) {}

const fleet::PoolRuntime* Rollouts::pool_of(const Running& one, const fleet::Snapshot& snapshot) {
  const auto& name = one.machine().settings().pool;
  const auto found =
      std::ranges::find_if(snapshot.pools, [&](const auto& pool) { return pool->settings.name == name; });
  return found == snapshot.pools.end() ? nullptr : found->get();
}

void Rollouts::adopt(Moment now) {
  const auto snapshot = fleet_.snapshot();
  const auto& wanted = snapshot->settings.rollouts;
  const bool had_any = !running_.empty() || !left_.rollouts.empty();
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
  if (const auto mirrors = one.machine().shadow()) switch_shadows(one, *mirrors, snapshot, now);
}

/// Switches the rollout's shadow, and with it on the control beside it.
void Rollouts::switch_shadows(Running& one, bool mirrors, const fleet::Snapshot& snapshot, Moment now) {
  for (const auto& shadow : snapshot.shadows) {
    if (shadow->settings.name != one.machine().settings().shadow) continue;
    // Once a rollout has ended, its shadow is the operator's, also where a reload began it anew as it was.
    const auto before = std::exchange(one.switched, shadow->state);
    if (!is_under_way(one.machine().standing().state) && before && before->on == shadow->state->on) continue;
    shadows::switch_shadow(*shadow, mirrors, history_, now);
    if (!mirrors) continue;
    for (const auto& control : snapshot.shadows) {
      const auto& settings = control->settings;
      if (settings.control && settings.of == shadow->settings.of && settings.twin == shadow->settings.twin)
        shadows::switch_shadow(*control, true, history_, now);
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

void Rollouts::end() {
  if (!running_.empty()) keep();
  ended_ = true;
}

void Rollouts::tick(Moment now) {
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
  if (!state_error_.empty() && tick.gate != ro::Word::worse) {
    tick.gate.reset();
    tick.why = state_error_;
  }
  if (const auto move = one.machine().tick(tick)) {
    moved(one, *move, snapshot, now);
    keep();
  }
  ask_gate(name, one, snapshot, now);
}

void Rollouts::ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, Moment now) {
  if (!one.follower.gate_is_due(now) || slow_.is_full()) return;
  const auto question = one.follower.gate_asked(now);
  const auto* const pool = pool_of(one, snapshot);
  std::function<ro::Judged()> judge_it;
  if (one.machine().share() > 0) {
    judge_it = shadows::gate_of_split(*pool, snapshot, history_, one.follower.step_began());
  } else {
    const auto* const shadow = shadows::shadow_of(snapshot, one.machine().settings().shadow);
    if (shadow == nullptr) return;
    judge_it = shadows::gate_of_shadow(*shadow, snapshot, history_, one.machine().settings().slo);
  }
  slow_.make(std::move(judge_it), [this, name, question](const std::shared_ptr<ro::Judged>& judged) {
    const auto found = running_.find(name);
    if (judged && found != running_.end()) found->second.follower.gate_said(question, judged->gate);
  });
}

void Rollouts::keep() {
  KeptRollouts latest{conversation_key_, {}};
  for (const auto& [name, one] : running_) {
    const auto& settings = one.machine().settings();
    latest.rollouts[name] = {settings.pool, settings.candidate, one.machine().standing()};
  }
  next_keep_ = next_tick_ + keep_every;
  writer_.write(directory_, std::move(latest));
}

void Rollouts::written(const std::string& error) {
  if (!error.empty()) next_keep_ = next_tick_ + every;
  if (error == state_error_) return;
  state_error_ = error;
  if (!error.empty())
    events::error(events::What::rollout, "", "{}", error);
  else
    events::info(events::What::rollout, "", "the state of rollouts is kept again");
}

ApiAnswer Rollouts::carry_out(std::string_view name, Wish wish, Moment now, std::string_view body) {
  const auto found = running_.find(name);
  if (found == running_.end())
    return api_error(404, "unknown_rollout",
                     "no rollout is named '" + std::string(name) + "'; GET /api/rollout lists them");
  if (ended_) return not_now("weir is draining, and ends then");
  const auto promotion = wish == Wish::promote ? promotion_in(body) : Promotion();
  if (!promotion)
    return api_error(400, "bad_body",
                     R"(the body must be empty, or a JSON object with nothing but "from" and "to", which name steps, )"
                     R"(such as {"from": "5%", "to": "25%"})");
  Running& one = found->second;
  auto after = one.machine();
  const auto answer = asked(after, wish, *promotion);
  if (const auto* const sentence = std::get_if<std::string>(&answer)) return not_now(*sentence);
  const auto& move = std::get<ro::Move>(answer);
  if (gives_more(move.reason) && !state_error_.empty()) return api_error(503, "state_not_kept", state_error_);
  one.machine() = std::move(after);
  moved(one, move, *fleet_.snapshot(), now);
  keep();
  return answer_of(found->first, move);
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

}  // namespace weir::proxy::rollout
