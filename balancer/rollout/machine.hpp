// A rollout as a machine without a clock: the candidate's share, step by step.
//
// Told what an operator wants, and each second what is known of the candidate, it says which share of its pool's
// requests the candidate gets and whether it is mirrored to. Its owner carries that out, keeps the standing on disk and
// logs the moves.
//
//   idle -> [shadow] -> live (1 %, 5 %, ...) -> done (100 %)
//
// A step ends when it has lasted its least time and the gate passes, or by promote. Whatever is known to be worse sends
// the rollout back at once, in a paused one, too: a verdict of the gate; failures, misses, refusals or hangs by their
// evidence; other answers, where they have to be the same; or a candidate without a replica that takes requests. Then,
// and after abort, the share is 0. A step whose gate is unknown for unknown_limit pauses, and after its least time if
// that is because answers differ. A pause keeps the share.
#pragma once

#include <simdjson.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::balancer::rollout {

/// Requests and events of both sides.
struct Counts {
  std::uint64_t candidate = 0, candidate_bad = 0;
  std::uint64_t stable = 0, stable_bad = 0;

  /// A request of before may turn out to be an event only now. It then counts among these requests.
  Counts& operator+=(const Counts& more);
  bool operator==(const Counts&) const = default;
};

/// Events of conversations, each counted once, and for the side that was drawn for it. So its side has the intended
/// share as its probability, however many requests it has and wherever these went.
struct Drawn {
  std::uint64_t candidate = 0, stable = 0;

  Drawn& operator+=(const Drawn& more);
  bool operator==(const Drawn&) const = default;
};

/// So many requests' worth of the intended share are added to what was counted: the first few requests say little of p.
inline constexpr double requests_of_intended_share = 20;

/// Returns the evidence, above 0. `intended` is the share that the candidate is to get.
double evidence(const Counts& counts, double intended);
double evidence(const Drawn& drawn, double share);

using metrics::Moment;

enum class State : std::uint8_t { idle, shadow, live, paused, returned, aborted, done };
inline constexpr std::array<std::string_view, 7> state_names{"idle",     "shadow",  "live", "paused",
                                                             "returned", "aborted", "done"};
constexpr std::string_view name_of(State state) { return state_names[static_cast<std::size_t>(state)]; }

/// The reason of a move.
enum class Reason : std::uint8_t {
  start,
  pass,
  promote,
  pause,
  unknown,  ///< The gate was unknown for unknown_limit, or stays unknown because answers differ.
  resume,
  worse,     ///< The gate says that the candidate is worse.
  answers,   ///< It answers otherwise, and has to answer the same.
  failures,  ///< Too many requests failed on the candidate.
  misses,    ///< Too many of its answers missed the objective.
  refusals,  ///< It refuses what the others take.
  hangs,     ///< Too many of its streams got no first token in time, or stood still later.
  out,       ///< None of its replicas takes requests.
  abort,
  settings,  ///< A reload changed the steps or the candidate.
};
inline constexpr std::array<std::string_view, 15> reason_names{"start",    "pass",  "promote", "pause",    "unknown",
                                                               "resume",   "worse", "answers", "failures", "misses",
                                                               "refusals", "hangs", "out",     "abort",    "settings"};
static_assert(reason_names.size() == static_cast<std::size_t>(Reason::settings) + 1);
constexpr std::string_view name_of(Reason reason) { return reason_names[static_cast<std::size_t>(reason)]; }

/// The gate's word, with the sentences that give its reasons.
enum class Word : std::uint8_t { pass, worse, unknown };
inline constexpr std::array<std::string_view, 3> word_names{"pass", "worse", "unknown"};
constexpr std::string_view name_of(Word word) { return word_names[static_cast<std::size_t>(word)]; }

/// The facts of one tick.
struct Tick {
  Moment now{};
  /// Nothing: the gate was not asked since the step or the settings changed, or no move can be kept on disk. Then no
  /// step ends.
  std::optional<Word> gate = Word::unknown;
  std::string why;                ///< The gate's sentences.
  Counts failures{};              ///< Requests that ended since the last tick; a conversation fails once.
  Counts misses{};                ///< Conversations since the last tick; each counts once, and misses once.
  bool candidate_is_out = false;  ///< None of the candidate's replicas takes requests.
  /// Conversations since the last tick whose content was refused; and whose stream had no first token in time.
  Drawn refusals{}, hangs{};
  /// The gate's sentence about answers that differ; "" if they do not, or that is not known. More requests do not make
  /// them alike.
  std::string answers{};
  bool passes_but_for_answers = false;  ///< The gate passes if answers do not count.
};

/// The part of a rollout that outlasts weir.
struct Standing {
  State state = State::idle;
  std::size_t step = 0;         ///< The place among the steps; without a meaning in idle, returned and aborted.
  double share = 0;             ///< The candidate's. Above 0 in live, in done, and in a pause of a live step.
  double in_step = 0;           ///< Seconds. Time in which weir did not run, or the rollout was paused, does not count.
  double unknown = 0;           ///< Seconds since the gate was last known, as in_step.
  bool shadow_passed = false;   ///< The gate passed in the shadow step.
  Counts failures{}, misses{};  ///< Since the step began.
  Drawn refusals{}, hangs{};    ///< As above.
  std::string why;              ///< Why the rollout is in this state: a sentence.
  bool operator==(const Standing&) const = default;
};

/// A change of state or step, and the line that tells it.
struct Move {
  Reason reason;
  std::string line;
};
/// A move, or a sentence that says why there is none.
using Answer = std::variant<Move, std::string>;

class Machine {
 public:
  /// A live step needs so many of the candidate's requests where its gate is unknown and the shadow step has passed:
  /// the pairs of the shadow step have shown the latencies, and few live requests show no more.
  static constexpr std::uint64_t least_requests = 30;
  /// The chance that a rollout of an equal candidate is rolled back by failures, misses, refusals or hangs.
  static constexpr double false_return = 0.05;

  explicit Machine(config::Rollout settings) : settings_(std::move(settings)) {}

  const config::Rollout& settings() const { return settings_; }
  const Standing& standing() const { return standing_; }
  double share() const { return standing_.share; }
  /// Whether the shadow is to mirror; nothing where the rollout does not care.
  std::optional<bool> shadow() const;
  /// Returns the evidence that sends a rollout back. Each kind of event in each live step has an equal part of
  /// false_return, and each step begins with evidence of 1. A limit of 20 for each sent 3 to 8 % of equal candidates
  /// back by failures alone, in 400 simulated rollouts of four live steps; 160 sent 0.5 % at most.
  double evidence_limit() const;
  /// Returns the step as the settings write it; "" where the rollout is in none.
  std::string step_text() const;

  std::optional<Move> tick(const Tick& tick);
  Answer start();
  Answer pause();
  /// Goes on to the next step, or to the step named `to` ("25%"). With `from`, which names a step too, only a rollout
  /// that stands there does: of several that ask at once, one is heard.
  Answer promote(std::string_view from = "", std::string_view to = "");
  Answer abort();
  /// Takes settings of the same name. A rollout of another pool or candidate is idle. Where the step under way is no
  /// longer there, the rollout pauses at the last step whose share is not above its own.
  std::optional<Move> adopt(config::Rollout settings);
  /// Goes on where an earlier process stopped, as adopt() does where the steps are others now.
  std::optional<Move> restore(Standing standing);

 private:
  bool is_under_way() const;
  bool is_live() const { return standing_.share > 0 && standing_.state != State::done; }
  const config::Rollout::Step& step() const { return settings_.steps[standing_.step]; }
  Word word_of(const Tick& tick) const;
  std::optional<Reason> why_return(const Tick& tick, std::string& why) const;
  Move enter(std::size_t step, Reason reason, const std::string& why);
  Move leave(State state, Reason reason, const std::string& why);
  Move hold(Reason reason, const std::string& why);
  std::optional<Move> find_step();
  Move moved(Reason reason, const std::string& from, const std::string& why, const std::string& figures);
  std::string place() const;
  std::string step_name() const;
  std::string missed_objective() const;
  std::string figures() const;
  std::string refusal(std::string_view what) const;

  config::Rollout settings_;
  Standing standing_;
  /// The candidate's failures before, and the moment of, the first of those that came close together.
  std::uint64_t failures_before_ = 0;
  std::optional<Moment> failures_began_;
  std::optional<Moment> last_tick_;
};

// A rollout's standing as JSON: in the file that outlasts a restart, and in /api/rollout, from which `weir rollout
// status` reads it.

/// Writes the members of a standing into the object that is open. The step has no member: the share tells it, also
/// among steps that a reload has changed. The evidence is for readers; standing_in() passes over it.
void write_standing(metrics::wire::JsonWriter& json, const Standing& standing);

/// Reads a standing from an object that may have other members too. Returns nothing if it is not as write_standing()
/// writes it.
std::optional<Standing> standing_in(simdjson::dom::element object);

}  // namespace weir::balancer::rollout
