// A machine of rollouts does what a naive one does that is written as a list of rules, whatever happens in whatever
// order.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "balancer/rollout/machine.hpp"

namespace weir::balancer::rollout::model {
namespace {

using config::Seconds;

Moment at(double seconds) {
  return Moment{} + std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(10'000 + seconds));
}

config::Rollout settings_of(std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<double> values) {
    return Seconds(values.begin()[random() % values.size()]);
  };
  config::Rollout settings;
  settings.name = "fp8";
  settings.pool = "chat";
  settings.candidate = "new";
  if (random() % 2 == 0) {
    settings.shadow = "mirror";
    settings.steps.push_back({true, 0, one_of({20, 60, 400})});
  }
  for (const double share : {0.05, 0.5})
    if (random() % 3 > 0) settings.steps.push_back({false, share, one_of({20, 60, 400})});
  settings.steps.push_back({false, 1, Seconds(0)});
  settings.unknown_limit = one_of({5, 100, 300});
  settings.answers = static_cast<config::OtherAnswers>(random() % 3);
  return settings;
}

/// The rules of docs/guides/rollout.md, on plain values.
struct Model {
  config::Rollout settings;
  State state = State::idle;
  std::size_t step = 0;
  double in_step = 0, unknown = 0;
  bool shadow_passed = false;
  Counts failures{}, misses{};
  Drawn refusals{}, hangs{};

  bool under_way() const { return state == State::shadow || state == State::live || state == State::paused; }
  double share() const { return under_way() || state == State::done ? settings.steps[step].share : 0; }
  bool is_split() const { return under_way() && !settings.steps[step].shadow; }

  std::optional<Reason> ends(State end, Reason reason) {
    *this = Model{settings, end};
    return reason;
  }
  std::optional<Reason> goes_to(std::size_t next, Reason reason) {
    const bool passed = shadow_passed;
    const auto& to = settings.steps[next];
    *this = Model{settings, to.shadow ? State::shadow : to.share == 1 ? State::done : State::live, next};
    shadow_passed = passed;
    return reason;
  }
  std::optional<Reason> pauses(Reason reason) {
    state = State::paused;
    unknown = 0;
    return reason;
  }

  template <class Bad>
  bool is_sure(const Bad& counted, std::uint64_t bad, double limit) const {
    return bad >= 2 && evidence(counted, share()) >= limit;
  }

  std::optional<Reason> tick(const Tick& tick, double seconds, double limit) {
    if (!under_way()) return std::nullopt;
    if (is_split()) {
      failures += tick.failures, misses += tick.misses, refusals += tick.refusals, hangs += tick.hangs;
      if (tick.candidate_is_out) return ends(State::returned, Reason::out);
      if (is_sure(failures, failures.candidate_bad, limit)) return ends(State::returned, Reason::failures);
      if (is_sure(misses, misses.candidate_bad, limit)) return ends(State::returned, Reason::misses);
      if (is_sure(refusals, refusals.candidate, limit)) return ends(State::returned, Reason::refusals);
      if (is_sure(hangs, hangs.candidate, limit)) return ends(State::returned, Reason::hangs);
    }
    using config::OtherAnswers;
    const bool differ = !tick.answers.empty();
    if (tick.gate == Word::worse) return ends(State::returned, Reason::worse);
    if (differ && settings.answers == OtherAnswers::same) return ends(State::returned, Reason::answers);
    if (state == State::paused) return std::nullopt;
    in_step += seconds;
    const bool few_will_do = is_split() && shadow_passed && failures.candidate >= 30;
    const bool answers_may_differ = settings.answers == OtherAnswers::any && tick.passes_but_for_answers;
    const bool passes =
        tick.gate == Word::pass || (tick.gate == Word::unknown && (few_will_do || answers_may_differ));
    unknown = passes ? 0 : unknown + seconds;
    const bool has_lasted = in_step >= settings.steps[step].least.count();
    if (passes && has_lasted) {
      shadow_passed = shadow_passed || settings.steps[step].shadow;
      return goes_to(step + 1, Reason::pass);
    }
    if (unknown >= settings.unknown_limit.count()) return pauses(Reason::unknown);
    if (!passes && tick.gate && differ && settings.answers == OtherAnswers::look && has_lasted)
      return pauses(Reason::unknown);
    return std::nullopt;
  }
  std::optional<Reason> start() {
    if (state == State::paused) {
      state = settings.steps[step].shadow ? State::shadow : State::live;
      return Reason::resume;
    }
    if (under_way() || state == State::done) return std::nullopt;
    shadow_passed = false;
    return goes_to(0, Reason::start);
  }
  std::optional<Reason> pause() {
    return state == State::shadow || state == State::live ? pauses(Reason::pause) : std::nullopt;
  }
  std::optional<Reason> promote() { return under_way() ? goes_to(step + 1, Reason::promote) : std::nullopt; }
  std::optional<Reason> abort() {
    return under_way() || state == State::done ? ends(State::aborted, Reason::abort) : std::nullopt;
  }
};

void expect_alike(const Machine& machine, const Model& model) {
  const auto& standing = machine.standing();
  ASSERT_EQ(name_of(standing.state), name_of(model.state));
  ASSERT_EQ(machine.share(), model.share());
  ASSERT_EQ(standing.in_step, model.in_step);
  ASSERT_EQ(standing.unknown, model.unknown);
  ASSERT_EQ(standing.failures, model.failures);
  ASSERT_EQ(standing.misses, model.misses);
  ASSERT_EQ(standing.refusals, model.refusals);
  ASSERT_EQ(standing.hangs, model.hangs);
  if (model.under_way()) {
    ASSERT_EQ(standing.step, model.step);
    ASSERT_EQ(standing.shadow_passed, model.shadow_passed);
  }
}

TEST(RolloutMachineModel, DoesWhatTheRulesSay) {
  std::mt19937_64 random(17);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::array<int, reason_names.size()> seen{};
  int stayed_unknown = 0;
  for (int run = 0; run < 400; ++run) {
    SCOPED_TRACE(run);
    Machine machine(settings_of(random));
    Model model{machine.settings()};
    double now = 0, last = 0;
    bool ticked = false;
    Word gate = Word::unknown;
    bool differ = false, passes_but_for_answers = false;
    for (int i = 0; i < 300; ++i) {
      std::optional<Reason> wanted, found;
      const auto take = [&](const Answer& answer) {
        if (const auto* one = std::get_if<Move>(&answer)) found = one->reason;
      };
      switch (below(30)) {
        case 0:
        case 1:
          take(machine.start());
          wanted = model.start();
          break;
        case 2:
          take(machine.pause());
          wanted = model.pause();
          break;
        case 3:
          take(machine.promote());
          wanted = model.promote();
          break;
        case 4:
          if (below(3) > 0) break;
          take(machine.abort());
          wanted = model.abort();
          break;
        case 5: {
          Machine next(machine.settings());
          ASSERT_FALSE(next.restore(machine.standing()));
          machine = next;
          ticked = false;
          break;
        }
        default: {
          now += static_cast<double>(below(30));
          if (below(10) == 0) {
            gate = static_cast<Word>(below(20) == 0 ? 1 : 2 * below(2));
            differ = gate != Word::pass && below(3) == 0;
            passes_but_for_answers = gate == Word::pass || (differ && gate == Word::unknown && below(2) == 0);
          }
          const auto counts = [&] {
            const auto n = below(8);
            return Counts{n, below(60) == 0 ? n : 0, 50, below(2)};
          };
          const auto drawn = [&] { return Drawn{below(100) == 0 ? below(20) : 0, below(2)}; };
          Tick tick;
          tick.now = at(now);
          // Without a word, as where nothing can be kept, the follower's last answer may still say that answers differ.
          tick.gate = below(10) == 0 ? std::nullopt : std::optional(gate);
          tick.answers = differ ? "answers: they differ" : "";
          tick.passes_but_for_answers = passes_but_for_answers;
          tick.failures = counts(), tick.misses = counts();
          tick.refusals = drawn(), tick.hangs = drawn();
          tick.candidate_is_out = below(200) == 0;
          const auto move = machine.tick(tick);
          if (move) found = move->reason;
          wanted = model.tick(tick, ticked ? now - last : 0, machine.evidence_limit());
          if (move && move->line.find("stays unknown") != std::string::npos) ++stayed_unknown;
          last = now;
          ticked = true;
        }
      }
      ASSERT_EQ(found.has_value(), wanted.has_value());
      if (found) {
        ASSERT_EQ(name_of(*found), name_of(*wanted));
        ++seen[static_cast<std::size_t>(*found)];
      }
      ASSERT_NO_FATAL_FAILURE(expect_alike(machine, model));
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (static_cast<Reason>(i) != Reason::settings) EXPECT_GT(seen[i], 0) << reason_names[i];
  EXPECT_GT(stayed_unknown, 10);
}

}  // namespace
}  // namespace weir::balancer::rollout::model
