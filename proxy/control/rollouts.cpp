#include "proxy/control/rollouts.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>

#include "config/rollouts.hpp"
#include "metrics/compare/samples/attainment.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/shadow_api.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control {
namespace {

namespace ro = balancer::rollout;
using metrics::Moment;

/// Returns the growth of a count, which begins at 0 again when its pool is split anew.
std::uint64_t more(std::uint64_t now, std::uint64_t before) { return now >= before ? now - before : now; }

ro::Counts since(const balancer::SplitFigures& before, const balancer::SplitFigures& now) {
  return {more(now.candidate.ended, before.candidate.ended), more(now.candidate.failed, before.candidate.failed),
          more(now.stable.ended, before.stable.ended), more(now.stable.failed, before.stable.failed)};
}

void add_drawn(ro::Tick& tick, const balancer::SplitFigures& before, const balancer::SplitFigures& now) {
  tick.refusals = {more(now.candidate.refused, before.candidate.refused),
                   more(now.stable.refused, before.stable.refused)};
  tick.hangs = {more(now.candidate.overdue, before.candidate.overdue), more(now.stable.overdue, before.stable.overdue)};
}

bool is_of_candidate(const fleet::PoolRuntime& pool, const fleet::Replica& replica) {
  return replica.settings.config == pool.rollout->candidate;
}

bool takes_requests(const fleet::PoolRuntime& pool, const fleet::Replica& replica, Moment now) {
  const auto state = pool.balancer->health().of(replica.key, now).state;
  return state == metrics::ReplicaState::up || state == metrics::ReplicaState::starting;
}

/// False while no replica of the candidate is known: their names may not have been looked up yet.
bool candidate_is_out(const fleet::PoolRuntime& pool, Moment now) {
  bool any = false;
  for (const auto& replica : pool.replicas) {
    if (!is_of_candidate(pool, *replica)) continue;
    if (takes_requests(pool, *replica, now)) return false;
    any = true;
  }
  return any;
}

std::string sentences_of(const std::vector<std::string>& sentences) {
  std::string all;
  for (const auto& one : sentences) all += (all.empty() ? "" : "; ") + one;
  return all;
}

ro::Word word_of(metrics::compare::comparison::Gate gate) {
  using metrics::compare::comparison::Gate;
  switch (gate) {
    case Gate::pass:
      return ro::Word::pass;
    case Gate::worse:
      return ro::Word::worse;
    case Gate::unknown:
      break;
  }
  return ro::Word::unknown;
}

/// True if the move gives the candidate more, or lets it go on.
bool gives_more(ro::Reason reason) {
  using enum ro::Reason;
  return reason == start || reason == pass || reason == promote || reason == resume;
}

bool is_under_way(ro::State state) {
  return state == ro::State::shadow || state == ro::State::live || state == ro::State::paused;
}

/// The share of a rollout; 0 if it is not there.
double share_of(const KeptRollouts& kept, const std::string& name) {
  const auto found = kept.rollouts.find(name);
  return found == kept.rollouts.end() ? 0 : found->second.standing.share;
}

struct Promotion {
  std::string from, to;
};
/// Returns nothing if the body is no object with these texts alone.
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

constexpr auto no_comparison_yet = "no comparison of this step has been made yet";

void write_counts(metrics::wire::JsonWriter& json, const ro::Counts& counts, double share) {
  json.open('{').key("candidate").count(counts.candidate).key("candidate_bad").count(counts.candidate_bad);
  json.key("stable").count(counts.stable).key("stable_bad").count(counts.stable_bad);
  json.key("evidence").decimal(ro::evidence(counts, share)).close('}');
}

void write_drawn(metrics::wire::JsonWriter& json, const ro::Drawn& drawn, double share) {
  json.open('{').key("candidate").count(drawn.candidate).key("stable").count(drawn.stable);
  json.key("evidence").decimal(ro::evidence(drawn, share)).close('}');
}

}  // namespace

Rollouts::Rollouts(fleet::Fleet& fleet, History& history, SlowAnswers& slow, KeptRollouts kept)
    : fleet_(fleet), history_(history), slow_(slow), kept_(std::move(kept)) {}

const fleet::PoolRuntime* Rollouts::pool_of(const Running& one, const fleet::Snapshot& snapshot) {
  const auto& name = one.machine.settings().pool;
  const auto found =
      std::ranges::find_if(snapshot.pools, [&](const auto& pool) { return pool->settings.name == name; });
  return found == snapshot.pools.end() ? nullptr : found->get();
}

void Rollouts::adopt(Moment now) {
  const auto snapshot = fleet_.snapshot();
  const auto& wanted = snapshot->settings.rollouts;
  std::erase_if(running_, [&](const auto& one) {
    const bool gone = std::ranges::find(wanted, one.first, &config::Rollout::name) == wanted.end();
    if (gone)
      events::info(events::What::rollout, one.first,
                   "rollout '{}' is no longer in the settings: its pool is not split any more", one.first);
    return gone;
  });
  for (const auto& settings : wanted) {
    const auto [place, is_new] = running_.try_emplace(settings.name, settings);
    Running& one = place->second;
    std::optional<ro::Move> move;
    if (!is_new) {
      move = one.machine.adopt(settings);
      ask_anew(one, now);
    } else if (const auto before = kept_.rollouts.find(settings.name); before != kept_.rollouts.end() &&
                                                                       before->second.pool == settings.pool &&
                                                                       before->second.candidate == settings.candidate) {
      move = one.machine.restore(before->second.standing);
      one.judged = one.step_began = now;
      events::info(events::What::rollout, settings.name, "rollout '{}' is as an earlier weir left it: {}{}{}: {}",
                   settings.name, ro::name_of(one.machine.standing().state),
                   one.machine.step_text().empty() ? "" : ", ", one.machine.step_text(), one.machine.standing().why);
    }
    if (move)
      moved(one, *move, *snapshot, now);
    else
      apply(one, *snapshot, now);
  }
  if (!wanted.empty() || !kept_.rollouts.empty()) keep_and_tell();
}

/// Carries out what the machine wants. Nothing happens where that is so already.
void Rollouts::apply(Running& one, const fleet::Snapshot& snapshot, Moment now) {
  const auto* const pool = pool_of(one, snapshot);
  if (pool == nullptr) return;
  pool->balancer->set_split(one.machine.share(), now);
  const auto mirrors = one.machine.shadow();
  if (!mirrors) return;
  const auto wall = std::chrono::system_clock::now();
  for (const auto& shadow : snapshot.shadows) {
    if (shadow->settings.name != one.machine.settings().shadow) continue;
    // Once a rollout has ended, its shadow is the operator's.
    if (!is_under_way(one.machine.standing().state) && one.switched == shadow->state) continue;
    one.switched = shadow->state;
    switch_shadow(*shadow, *mirrors, history_, wall);
    if (!*mirrors) continue;
    for (const auto& control : snapshot.shadows) {
      const auto& settings = control->settings;
      if (settings.control && settings.of == shadow->settings.of && settings.twin == shadow->settings.twin)
        switch_shadow(*control, true, history_, wall);
    }
  }
}

void Rollouts::moved(Running& one, const ro::Move& move, const fleet::Snapshot& snapshot, Moment now) {
  using Reason = ro::Reason;
  const bool bad = move.reason == Reason::unknown || one.machine.standing().state == ro::State::returned;
  events::tell(events::What::rollout, one.machine.settings().name, bad ? events::Level::warn : events::Level::info,
               "{}", move.line);
  ++one.moves[static_cast<std::size_t>(move.reason)];
  const bool same_step =
      move.reason == Reason::pause || move.reason == Reason::resume || move.reason == Reason::unknown;
  // A step of a shadow that was on before begins with it, so that the window of the gate is the step.
  if (move.reason == Reason::start && one.machine.shadow().value_or(false))
    for (const auto& shadow : snapshot.shadows)
      if (shadow->settings.name == one.machine.settings().shadow) shadow->state->on = false;
  one.switched.reset();
  apply(one, snapshot, now);
  if (same_step) return;
  one.step_began = one.judged = now;
  ask_anew(one, now + gate_every);
  if (const auto* const pool = pool_of(one, snapshot)) one.counted = pool->balancer->split();
}

/// The gate's last word is about another step, or other settings.
void Rollouts::ask_anew(Running& one, Moment next) {
  ++one.step;
  one.gate.reset();
  one.gate_why = no_comparison_yet;
  one.next_gate = next;
}

/// Carries a move of the machine out. One that gives the candidate more has to be on the disk first: else the machine
/// is again as it was before, and the call returns false. Any other is carried out whatever the disk does.
bool Rollouts::move(Running& one, const ro::Machine& before, const ro::Move& move, const fleet::Snapshot& snapshot,
                    Moment now) {
  const bool first = gives_more(move.reason);
  if (first && !keep_and_tell()) {
    one.machine = before;
    return false;
  }
  moved(one, move, snapshot, now);
  if (!first) keep_and_tell();
  return true;
}

void Rollouts::end() {
  if (!running_.empty()) keep_and_tell();
  ended_ = true;
}

void Rollouts::tick(Moment now) {
  if (ended_ || running_.empty() || now < next_tick_) return;
  next_tick_ = now + every;
  const auto snapshot = fleet_.snapshot();
  bool under_way = false;
  for (auto& [name, one] : running_) {
    tick(name, one, *snapshot, now);
    under_way = under_way || !one.machine.step_text().empty();
  }
  if ((!under_way && state_error_.empty()) || now < next_keep_) return;
  keep_and_tell();
}

void Rollouts::tick(const std::string& name, Running& one, const fleet::Snapshot& snapshot, Moment now) {
  const auto* const pool = pool_of(one, snapshot);
  if (pool == nullptr || !pool->rollout) return;
  if (const auto wait = longest_wait(one, now))
    pool->balancer->note_overdue(now - std::chrono::duration_cast<Moment::duration>(*wait));
  const auto figures = pool->balancer->split();
  ro::Tick tick;
  tick.now = now;
  tick.gate = one.gate;
  tick.why = one.gate_why;
  const auto no_step_ends = [&] {
    if (tick.gate == ro::Word::worse) return;
    tick.gate.reset();
    tick.why = state_error_;
  };
  if (!state_error_.empty()) no_step_ends();
  tick.failures = since(one.counted, figures);
  add_drawn(tick, one.counted, figures);
  one.counted = figures;
  tick.misses = judge(one, snapshot, now);
  tick.candidate_is_out = candidate_is_out(*pool, now);
  const auto before = one.machine;
  auto wanted = one.machine.tick(tick);
  if (wanted && !move(one, before, *wanted, snapshot, now)) {
    no_step_ends();
    wanted = one.machine.tick(tick);
    if (wanted) move(one, before, *wanted, snapshot, now);
  }
  ask_gate(name, one, snapshot, now);
}

/// Returns how long a stream may wait for its first token before it counts as one that hangs: ten times the p99 of the
/// stable side's last streams, and 10 s at least. Nothing where that is not known, or there is no live step. The
/// evidence holds for any time that is looked up from the past.
std::optional<config::Seconds> Rollouts::longest_wait(Running& one, Moment now) {
  if (one.machine.share() <= 0 || one.machine.share() >= 1) return std::nullopt;
  if (now < one.next_wait) return one.wait;
  one.next_wait = now + gate_every;
  const auto& settings = one.machine.settings();
  const auto& names = history_.names();
  std::vector<double> waits;
  for (const auto* const sample : history_.samples_since(now - wait_window)) {
    if (sample->role != metrics::Role::primary || names.text(sample->pool) != settings.pool) continue;
    if (!sample->stream || std::isnan(sample->ttft) || sample->config == 0) continue;
    if (names.text(sample->config) != settings.candidate) waits.push_back(sample->ttft);
  }
  if (waits.size() < least_waits) return one.wait = std::nullopt;
  const auto p99 = waits.begin() + static_cast<std::ptrdiff_t>((waits.size() - 1) * 99 / 100);
  std::ranges::nth_element(waits, p99);
  return one.wait = config::Seconds(std::max(least_wait.count(), 10 * *p99));
}

/// Judges the clients' requests that ended since the last call by the rollout's objective.
ro::Counts Rollouts::judge(Running& one, const fleet::Snapshot& snapshot, Moment now) {
  const auto& settings = one.machine.settings();
  const auto slo = std::ranges::find(snapshot.settings.slos, settings.slo, &config::Slo::name);
  ro::Counts counts;
  if (slo == snapshot.settings.slos.end() || one.machine.share() <= 0) return counts;
  const auto& names = history_.names();
  // The samples that came at the moment of the last call were counted then.
  for (const auto* const sample : history_.samples_since(one.judged + Moment::duration(1))) {
    if (sample->role != metrics::Role::primary || names.text(sample->pool) != settings.pool || sample->config == 0)
      continue;
    using metrics::compare::samples::Attainment, metrics::compare::samples::Since;
    const auto attainment = metrics::compare::samples::judge(*slo, *sample, Since::arrival);
    if (attainment != Attainment::met && attainment != Attainment::missed) continue;
    const bool of_candidate = names.text(sample->config) == settings.candidate;
    ++(of_candidate ? counts.candidate : counts.stable);
    if (attainment == Attainment::missed) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
  }
  one.judged = now;
  return counts;
}

void Rollouts::ask_gate(const std::string& name, Running& one, const fleet::Snapshot& snapshot, Moment now) {
  if (!is_under_way(one.machine.standing().state) || now < one.next_gate || slow_.is_full()) return;
  one.next_gate = now + gate_every;
  const auto* const pool = pool_of(one, snapshot);
  std::function<Judged()> judge_it;
  if (one.machine.share() > 0) {
    judge_it = gate_of_split(*pool, snapshot, history_, one.step_began);
  } else {
    const auto& shadow = one.machine.settings().shadow;
    const auto found =
        std::ranges::find_if(snapshot.shadows, [&](const auto& s) { return s->settings.name == shadow; });
    if (found == snapshot.shadows.end()) return;
    judge_it = gate_of_shadow(**found, snapshot, history_, one.machine.settings().slo);
  }
  slow_.make(std::move(judge_it), [this, name, step = one.step](const std::shared_ptr<Judged>& judged) {
    const auto found = running_.find(name);
    if (found == running_.end() || found->second.step != step) return;
    const auto& gate = judged->gate;
    found->second.gate = word_of(gate.word);
    found->second.gate_why =
        sentences_of(gate.word == metrics::compare::comparison::Gate::worse ? gate.worse : gate.unknown);
  });
}

std::optional<std::string> Rollouts::keep() {
  const auto snapshot = fleet_.snapshot();
  auto wanted = KeptRollouts{kept_.conversation_key, {}};
  for (const auto& [name, one] : running_) {
    const auto& settings = one.machine.settings();
    wanted.rollouts[name] = {settings.pool, settings.candidate, one.machine.standing()};
  }
  const auto& directory = snapshot->settings.admin.state;
  // Without a directory the last rollout has left the settings.
  auto error = directory.empty() ? std::nullopt : write_rollouts(directory, wanted);
  if (!error) {
    kept_ = std::move(wanted);
    return std::nullopt;
  }
  // A restart must not give a candidate back what was taken from it.
  const bool has_more = std::ranges::any_of(kept_.rollouts, [&](const auto& one) {
    return one.second.standing.share > share_of(wanted, one.first);
  });
  if (!has_more) return error;
  for (auto& [name, one] : wanted.rollouts) {
    if (one.standing.share <= share_of(kept_, name)) continue;
    const auto before = kept_.rollouts.find(name);
    one.standing = before == kept_.rollouts.end() ? ro::Standing() : before->second.standing;
  }
  if (replace_rollouts(directory, wanted)) {
    kept_ = std::move(wanted);
    return error;
  }
  kept_.rollouts.clear();
  return *error + "; a restart would find all rollouts idle";
}

/// Returns whether a restart would find all as it is.
bool Rollouts::keep_and_tell() {
  const auto error = keep().value_or("");
  next_keep_ = next_tick_ + (error.empty() ? keep_every : every);
  if (error != state_error_) {
    if (!error.empty())
      events::error(events::What::rollout, "", "{}", error);
    else
      events::info(events::What::rollout, "", "the state of rollouts is kept again");
  }
  state_error_ = error;
  return error.empty();
}

ApiAnswer Rollouts::carry_out(std::string_view name, Wish wish, Moment now, std::string_view body) {
  const auto found = running_.find(name);
  if (found == running_.end())
    return api_error(404, "unknown_rollout",
                     "no rollout is named '" + std::string(name) + "'; GET /api/rollout lists them");
  if (ended_) return api_error(409, "not_now", "weir is draining, and ends then");
  Running& one = found->second;
  const auto promotion = wish == Wish::promote ? promotion_in(body) : Promotion();
  if (!promotion)
    return api_error(400, "bad_body",
                     R"(the body must be empty, or a JSON object with nothing but "from" and "to", which name steps, )"
                     R"(such as {"from": "5%", "to": "25%"})");
  const auto snapshot = fleet_.snapshot();
  const auto before = one.machine;
  ro::Answer answer;
  switch (wish) {
    case Wish::start:
      answer = one.machine.start();
      break;
    case Wish::pause:
      answer = one.machine.pause();
      break;
    case Wish::promote:
      answer = one.machine.promote(promotion->from, promotion->to);
      break;
    case Wish::abort:
      answer = one.machine.abort();
      break;
  }
  if (const auto* const sentence = std::get_if<std::string>(&answer)) return api_error(409, "not_now", *sentence);
  const auto& move = std::get<ro::Move>(answer);
  if (!this->move(one, before, move, *snapshot, now)) return api_error(503, "state_not_kept", state_error_);
  metrics::wire::JsonWriter json;
  json.open('{').key("name").text(name).key("reason").text(ro::name_of(move.reason)).key("move").text(move.line);
  json.close('}');
  return {200, std::move(json).written() + "\n"};
}

ApiAnswer Rollouts::list() const {
  const auto snapshot = fleet_.snapshot();
  metrics::wire::JsonWriter json;
  json.open('{').key("rollouts").open('[');
  for (const auto& [name, one] : running_) {
    const auto& settings = one.machine.settings();
    const auto& standing = one.machine.standing();
    json.open('{').key("name").text(name).key("pool").text(settings.pool).key("candidate").text(settings.candidate);
    json.key("shadow").known_text(settings.shadow).key("slo").known_text(settings.slo);
    json.key("state").text(ro::name_of(standing.state)).key("step").known_text(one.machine.step_text());
    json.key("share").exact(standing.share).key("why").text(standing.why);
    json.key("steps").open('[');
    for (const auto& step : settings.steps) json.text(config::to_text(step));
    json.close(']');
    const bool in_step = !one.machine.step_text().empty();
    const auto least = in_step ? std::optional(settings.steps[standing.step].least.count()) : std::nullopt;
    json.key("in_step_seconds").exact(standing.in_step).key("least_seconds").exact(least);
    json.key("unknown_seconds").exact(standing.unknown);
    json.key("unknown_limit_seconds").exact(settings.unknown_limit.count());
    json.key("gate").open('{').key("word").text(ro::name_of(one.gate.value_or(ro::Word::unknown)));
    json.key("why").text(one.gate_why).close('}');
    json.key("failures");
    write_counts(json, standing.failures, standing.share);
    json.key("misses");
    write_counts(json, standing.misses, standing.share);
    json.key("refusals");
    write_drawn(json, standing.refusals, standing.share);
    json.key("hangs");
    write_drawn(json, standing.hangs, standing.share);
    json.key("longest_wait_seconds").exact(one.wait ? std::optional(one.wait->count()) : std::nullopt);
    json.key("evidence_limit").exact(one.machine.evidence_limit());
    const auto* const pool = pool_of(one, *snapshot);
    json.key("crossed").count(pool != nullptr ? pool->balancer->split().crossed : 0).close('}');
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
    gauges.share = one.machine.share();
    for (std::size_t i = 0; i < ro::state_names.size(); ++i)
      gauges.states.emplace_back(ro::state_names[i], static_cast<ro::State>(i) == one.machine.standing().state);
    for (std::size_t i = 0; i < one.moves.size(); ++i) gauges.moves.emplace_back(ro::reason_names[i], one.moves[i]);
    if (const auto* const pool = pool_of(one, *snapshot)) gauges.crossed = pool->balancer->split().crossed;
  }
  return all;
}

std::vector<live::RolloutNow> Rollouts::rows() const {
  std::vector<live::RolloutNow> all;
  for (const auto& [name, one] : running_)
    all.push_back({name, ro::name_of(one.machine.standing().state), one.machine.share()});
  return all;
}

}  // namespace weir::proxy::control
