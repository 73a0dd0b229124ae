#include "balancer/rollout/machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/rollouts.hpp"
#include "config/values.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/moment.hpp"

namespace weir::balancer::rollout {
namespace {

using Step = config::Rollout::Step;

/// A single event says nothing, however small the candidate's share.
constexpr std::uint64_t least_events = 2;

/// Failures that follow each other within so long a time have one cause.
constexpr std::chrono::seconds one_cause{30};

bool is_last(const Step& step) { return step.share >= 1; }

std::string of(std::uint64_t bad, std::uint64_t all) { return std::to_string(bad) + " of " + std::to_string(all); }

/// "3 of 20 of the candidate's requests failed, 1 of 180 of the others".
std::string told(const Counts& counts, const std::string& what, const char* unit = "requests") {
  return of(counts.candidate_bad, counts.candidate) + " of the candidate's " + unit + ' ' + what + ", " +
         of(counts.stable_bad, counts.stable) + " of the others";
}

/// "3 conversations of the candidate's were refused, 1 of the others'"
std::string told(const Drawn& drawn, const std::string& what) {
  return std::to_string(drawn.candidate) + (drawn.candidate == 1 ? " conversation" : " conversations") +
         " of the candidate's " + what + ", " + std::to_string(drawn.stable) + " of the others'";
}

std::uint64_t bad_of(const Counts& counts) { return counts.candidate_bad; }
std::uint64_t bad_of(const Drawn& drawn) { return drawn.candidate; }

constexpr auto refused = "had a request refused", hung = "waited too long for a token";

/// "shadow", or the share: the name of a step.
std::string text_of(const Step& step) { return config::to_text(Step{step.shadow, step.share, {}}); }

std::string seconds(double time) { return config::format_duration(config::Seconds(std::round(time))); }

}  // namespace

bool Machine::is_under_way() const {
  return standing_.state == State::shadow || standing_.state == State::live || standing_.state == State::paused;
}

std::optional<bool> Machine::shadow() const {
  if (settings_.shadow.empty() || standing_.state == State::idle) return std::nullopt;
  return is_under_way() && step().shadow;
}

double Machine::evidence_limit() const {
  constexpr double kinds = 4;  // Failures, misses, refusals and hangs.
  const auto live =
      std::ranges::count_if(settings_.steps, [](const Step& one) { return !one.shadow && !is_last(one); });
  return kinds * static_cast<double>(std::max<std::ptrdiff_t>(1, live)) / false_return;
}

std::string Machine::step_text() const {
  return is_under_way() || standing_.state == State::done ? config::to_text(step()) : "";
}

/// The name of where the rollout stands: "shadow", "5%", "paused at 5%", "returned".
std::string Machine::place() const {
  if (!is_under_way() && standing_.state != State::done) return std::string(name_of(standing_.state));
  return standing_.state == State::paused ? "paused at " + step_name() : step_name();
}

/// The name of the step, also where it is no longer among the steps.
std::string Machine::step_name() const { return text_of(Step{standing_.share <= 0, standing_.share, {}}); }

std::string Machine::missed_objective() const { return "missed the objective '" + settings_.slo + "'"; }

std::string Machine::figures() const {
  if (!is_live()) return "";
  auto text = told(standing_.failures, "failed");
  if (!settings_.slo.empty()) text += "; " + told(standing_.misses, missed_objective(), "conversations");
  if (standing_.refusals != Drawn()) text += "; " + told(standing_.refusals, refused);
  if (standing_.hangs != Drawn()) text += "; " + told(standing_.hangs, hung);
  return text;
}

Move Machine::moved(Reason reason, const std::string& from, const std::string& why, const std::string& figures) {
  standing_.why = why;
  const auto to = place();
  auto line = "rollout '" + settings_.name + "': " + (from == to ? from : from + " -> " + to) + ": " + why;
  if (!figures.empty()) line += " (" + figures + ")";
  return {reason, std::move(line)};
}

Move Machine::enter(std::size_t step, Reason reason, const std::string& why) {
  const auto from = place(), figures_before = figures();
  failures_began_.reset();
  const bool passed = standing_.shadow_passed;
  standing_ = Standing();
  standing_.step = step;
  standing_.shadow_passed = passed;
  const auto& next = settings_.steps[step];
  standing_.share = next.share;
  standing_.state = next.shadow ? State::shadow : is_last(next) ? State::done : State::live;
  return moved(reason, from, why, figures_before);
}

Move Machine::leave(State state, Reason reason, const std::string& why) {
  const auto from = place(), figures_before = figures();
  standing_ = Standing();
  standing_.state = state;
  return moved(reason, from, why, figures_before);
}

Move Machine::hold(Reason reason, const std::string& why) {
  const auto from = place();
  standing_.state = State::paused;
  standing_.unknown = 0;
  return moved(reason, from, why, figures());
}

Word Machine::word_of(const Tick& tick) const {
  if (tick.gate != Word::unknown) return tick.gate.value_or(Word::unknown);
  if (settings_.answers == config::OtherAnswers::any && tick.passes_but_for_answers) return Word::pass;
  const bool enough = standing_.shadow_passed && standing_.failures.candidate >= least_requests;
  return is_live() && enough ? Word::pass : Word::unknown;
}

std::optional<Reason> Machine::why_return(const Tick& tick, std::string& why) const {
  if (is_live() && tick.candidate_is_out) {
    why = "none of the candidate's replicas takes requests";
    return Reason::out;
  }
  const auto is_sure = [&](const auto& counts, const std::string& what, auto... unit) {
    const double found = evidence(counts, standing_.share);
    if (bad_of(counts) < least_events || found < evidence_limit()) return false;
    why = told(counts, what, unit...) + " (evidence " + config::format_number(std::round(std::min(found, 1e9))) +
          ", limit " + config::format_number(evidence_limit()) + ")";
    return true;
  };
  if (is_live() && is_sure(standing_.failures, "failed")) {
    // Failures of one cause come together: a crash is no rate of failures.
    if (failures_began_ && tick.now - *failures_began_ <= one_cause && failures_before_ < least_events)
      why = "the candidate crashed: within " + seconds(metrics::seconds(tick.now - *failures_began_) + 1) + ' ' + why;
    return Reason::failures;
  }
  if (is_live() && is_sure(standing_.misses, missed_objective(), "conversations")) return Reason::misses;
  if (is_live() && is_sure(standing_.refusals, refused)) return Reason::refusals;
  if (is_live() && is_sure(standing_.hangs, hung)) return Reason::hangs;
  if (tick.gate == Word::worse) {
    why = "the candidate is worse: " + tick.why;
    return Reason::worse;
  }
  if (settings_.answers != config::OtherAnswers::same || tick.answers.empty()) return std::nullopt;
  why = "the candidate has to answer the same; " + tick.answers;
  return Reason::answers;
}

std::optional<Move> Machine::tick(const Tick& tick) {
  const double passed = last_tick_ ? std::max(0.0, metrics::seconds(tick.now - *last_tick_)) : 0;
  last_tick_ = tick.now;
  if (!is_under_way()) return std::nullopt;
  if (is_live()) {
    if (tick.failures.candidate_bad > 0 && (!failures_began_ || tick.now - *failures_began_ > one_cause)) {
      failures_before_ = standing_.failures.candidate_bad;
      failures_began_ = tick.now;
    }
    standing_.failures += tick.failures;
    standing_.misses += tick.misses;
    standing_.refusals += tick.refusals;
    standing_.hangs += tick.hangs;
  }
  std::string why;
  if (const auto reason = why_return(tick, why)) return leave(State::returned, *reason, why);
  if (standing_.state == State::paused) return std::nullopt;
  const auto word = word_of(tick);
  standing_.in_step += passed;
  standing_.unknown = word == Word::unknown ? standing_.unknown + passed : 0;
  if (word == Word::pass && standing_.in_step >= step().least.count()) {
    const auto why_passed = tick.gate == Word::pass ? "the gate passed after "
                            : tick.passes_but_for_answers
                                ? "the gate passed but for the answers, which may differ, after "
                                : "nothing is worse than in the shadow step, after ";
    if (step().shadow) standing_.shadow_passed = true;
    return enter(standing_.step + 1, Reason::pass, why_passed + seconds(standing_.in_step));
  }
  const auto because = tick.why.empty() ? "" : ": " + tick.why;
  if (standing_.unknown >= settings_.unknown_limit.count())
    return hold(Reason::unknown, "the gate was unknown for " + seconds(standing_.unknown) + because);
  const bool stays_unknown = !tick.answers.empty() && settings_.answers == config::OtherAnswers::look;
  if (tick.gate && word == Word::unknown && stays_unknown && standing_.in_step >= step().least.count())
    return hold(Reason::unknown, "the gate stays unknown however long the step lasts: " + tick.answers);
  return std::nullopt;
}

std::string Machine::refusal(std::string_view what) const {
  auto text =
      "the rollout '" + settings_.name + "' is " + std::string(name_of(standing_.state)) + "; " + std::string(what);
  return text;
}

Answer Machine::start() {
  switch (standing_.state) {
    case State::idle:
    case State::returned:
    case State::aborted:
      standing_.shadow_passed = false;
      return enter(0, Reason::start, "it was started");
    case State::paused: {
      const auto from = place();
      standing_.state = step().shadow ? State::shadow : State::live;
      return moved(Reason::resume, from, "it goes on", figures());
    }
    case State::done:
      return refusal("abort it before it starts again, or take the replicas of the old version out of the settings");
    case State::shadow:
    case State::live:
      break;
  }
  return refusal("it has started");
}

Answer Machine::pause() {
  if (standing_.state != State::shadow && standing_.state != State::live)
    return refusal("only one that is under way can pause");
  return hold(Reason::pause, "it was paused");
}

Answer Machine::promote(std::string_view from, std::string_view to) {
  if (!is_under_way()) return refusal("only one that is under way can be promoted; start begins one");
  if (!from.empty() && from != step_name() && from != step_text())
    return "the rollout '" + settings_.name + "' stands at " + step_name() + ", and not at " + std::string(from) +
           "; it was promoted, or moved by itself, meanwhile";
  std::size_t next = standing_.step + 1;
  if (!to.empty()) {
    const auto is_it = [&](const Step& one) { return to == text_of(one) || to == config::to_text(one); };
    const auto found = std::ranges::find_if(settings_.steps, is_it);
    if (found == settings_.steps.end()) {
      std::string steps;
      for (const auto& one : settings_.steps) steps += (steps.empty() ? "" : ", ") + text_of(one);
      return "the rollout '" + settings_.name + "' has no step " + std::string(to) + "; its steps are " + steps;
    }
    next = static_cast<std::size_t>(found - settings_.steps.begin());
    if (next <= standing_.step)
      return "the rollout '" + settings_.name + "' stands at " + step_name() + "; " + std::string(to) +
             " is no step after that";
  }
  return enter(next, Reason::promote, "it was promoted");
}

Answer Machine::abort() {
  if (!is_under_way() && standing_.state != State::done) return refusal("there is nothing to abort");
  return leave(State::aborted, Reason::abort, "it was aborted");
}

std::optional<Move> Machine::adopt(config::Rollout settings) {
  const bool same = settings.pool == settings_.pool && settings.candidate == settings_.candidate;
  if (same) {
    settings_ = std::move(settings);
    return find_step();
  }
  if (standing_.state == State::idle) {
    settings_ = std::move(settings);
    return std::nullopt;
  }
  auto move = leave(State::idle, Reason::settings, "its pool or candidate is another one");
  settings_ = std::move(settings);
  return move;
}

std::optional<Move> Machine::restore(Standing standing) {
  standing_ = std::move(standing);
  last_tick_.reset();
  if (!is_under_way() && standing_.state != State::done) standing_.share = 0;
  return find_step();
}

/// Finds the step of the share among steps that may be others than before.
std::optional<Move> Machine::find_step() {
  const auto& steps = settings_.steps;
  if (standing_.state == State::done) {
    standing_.step = steps.size() - 1;
    standing_.share = 1;
    return std::nullopt;
  }
  if (!is_under_way()) return std::nullopt;
  const double share = standing_.share;
  const bool is_shadow = standing_.state == State::shadow || (standing_.state == State::paused && share <= 0);
  const auto is_it = [&](const Step& one) { return one.shadow == is_shadow && one.share == share; };
  if (const auto found = std::ranges::find_if(steps, is_it); found != steps.end()) {
    standing_.step = static_cast<std::size_t>(found - steps.begin());
    return std::nullopt;
  }
  const auto above = std::ranges::find_if(steps, [&](const Step& one) { return one.share > share; });
  const auto why = "its step " + step_name() + " is no longer in the settings";
  if (above == steps.begin() || is_shadow) return leave(State::idle, Reason::settings, why);
  const auto from = place();
  enter(static_cast<std::size_t>(above - steps.begin()) - 1, Reason::settings, "");
  standing_.state = State::paused;
  return moved(Reason::settings, from, why, "");
}

namespace {

/// Returns the evidence of k events of the candidate beside c others, where each is the candidate's with probability p.
double evidence_of(double k, double c, double p) {
  if (p <= 0 || p >= 1) return 1;
  return std::exp(
      metrics::compare::statistics::log_evidence_of_more(metrics::compare::statistics::drawn_events(c, k, k + c, p)));
}

}  // namespace

Counts& Counts::operator+=(const Counts& more) {
  candidate += more.candidate;
  candidate_bad += more.candidate_bad;
  stable += more.stable;
  stable_bad += more.stable_bad;
  candidate = std::max(candidate, candidate_bad);
  stable = std::max(stable, stable_bad);
  return *this;
}

Drawn& Drawn::operator+=(const Drawn& more) {
  candidate += more.candidate;
  stable += more.stable;
  return *this;
}

double evidence(const Counts& counts, double intended) {
  const auto requests = static_cast<double>(counts.candidate + counts.stable);
  const double p = (static_cast<double>(counts.candidate) + requests_of_intended_share * intended) /
                   (requests + requests_of_intended_share);
  return evidence_of(static_cast<double>(counts.candidate_bad), static_cast<double>(counts.stable_bad), p);
}

double evidence(const Drawn& drawn, double share) {
  return evidence_of(static_cast<double>(drawn.candidate), static_cast<double>(drawn.stable), share);
}

namespace {

using simdjson::dom::element;

void write_counts(metrics::wire::JsonWriter& json, const Counts& counts, double share) {
  json.open('{').key("candidate").count(counts.candidate).key("candidate_bad").count(counts.candidate_bad);
  json.key("stable").count(counts.stable).key("stable_bad").count(counts.stable_bad);
  json.key("evidence").decimal(evidence(counts, share)).close('}');
}

void write_drawn(metrics::wire::JsonWriter& json, const Drawn& drawn, double share) {
  json.open('{').key("candidate").count(drawn.candidate).key("stable").count(drawn.stable);
  json.key("evidence").decimal(evidence(drawn, share)).close('}');
}

// The readers below throw simdjson::simdjson_error or Damaged where the text is not as weir writes it.
struct Damaged {};

double amount_in(element value) {
  const double amount = value.get_double();
  if (!std::isfinite(amount) || amount < 0) throw Damaged();
  return amount;
}

/// No weir counts as many as 1e15; evidence of so many would take for ever.
std::uint64_t count_in(element value) {
  const std::uint64_t count = value.get_uint64();
  if (count >= std::uint64_t{1'000'000'000'000'000}) throw Damaged();
  return count;
}

Counts counts_in(element value) {
  const Counts counts{count_in(value["candidate"]), count_in(value["candidate_bad"]), count_in(value["stable"]),
                      count_in(value["stable_bad"])};
  if (counts.candidate_bad > counts.candidate || counts.stable_bad > counts.stable) throw Damaged();
  return counts;
}

/// A file of an earlier weir has none.
Drawn drawn_in(element standing, std::string_view key) {
  const auto value = standing[key];
  if (value.error() == simdjson::NO_SUCH_FIELD) return {};
  return {count_in(value["candidate"]), count_in(value["stable"])};
}

/// Only a state with this share is written.
bool is_share_of(State state, double share) {
  switch (state) {
    case State::live:
      return share > 0 && share < 1;
    case State::paused:
      return share < 1;
    case State::done:
      return share == 1;
    case State::idle:
    case State::shadow:
    case State::returned:
    case State::aborted:
      break;
  }
  return share == 0;
}

Standing read(element object) {
  Standing standing;
  const auto* const state = std::ranges::find(state_names, object["state"].get_string().value());
  if (state == state_names.end()) throw Damaged();
  standing.state = static_cast<State>(state - state_names.begin());
  standing.share = amount_in(object["share"]);
  if (!is_share_of(standing.state, standing.share)) throw Damaged();
  standing.in_step = amount_in(object["in_step_seconds"]);
  standing.unknown = amount_in(object["unknown_seconds"]);
  standing.shadow_passed = object["shadow_passed"].get_bool();
  standing.failures = counts_in(object["failures"]);
  standing.misses = counts_in(object["misses"]);
  standing.refusals = drawn_in(object, "refusals");
  standing.hangs = drawn_in(object, "hangs");
  standing.why = object["why"].get_string().value();
  return standing;
}

}  // namespace

void write_standing(metrics::wire::JsonWriter& json, const Standing& standing) {
  json.key("state").text(name_of(standing.state)).key("share").exact(standing.share).key("why").text(standing.why);
  json.key("in_step_seconds").exact(standing.in_step).key("unknown_seconds").exact(standing.unknown);
  json.key("shadow_passed").boolean(standing.shadow_passed);
  json.key("failures");
  write_counts(json, standing.failures, standing.share);
  json.key("misses");
  write_counts(json, standing.misses, standing.share);
  json.key("refusals");
  write_drawn(json, standing.refusals, standing.share);
  json.key("hangs");
  write_drawn(json, standing.hangs, standing.share);
}

std::optional<Standing> standing_in(element object) {
  try {
    return read(object);
  } catch (const simdjson::simdjson_error&) {
    return std::nullopt;
  } catch (const Damaged&) {
    return std::nullopt;
  }
}

}  // namespace weir::balancer::rollout
