// Health tells whether a replica is fit to take requests, by its probes and its requests.
//
// A replica is out for a hard reason (it refuses connections, its name has no address) or for soft ones (probes that
// fail, a health path that answers errors, failures in a row, answers unlike its peers', streams without a token). Soft
// reasons can be wrong: the pool tries such a replica where there is no other, and decides how many it ejects. A
// replica that is new to a pool, or that comes back, starts slowly: what it may hold grows with what it has finished.
//
// A process that was started anew is taken back at once. One that dies again within a minute of its return is out as
// long as if it were ejected, though it takes connections.
//
// A Pool owns it and calls it under its mutex. It reads no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "balancer/evidence.hpp"
#include "balancer/tokens.hpp"
#include "config/settings.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer {

using metrics::ReplicaState;

class Health {
 public:
  static constexpr std::uint32_t connect_timeouts_in_a_row = 2;
  static constexpr std::chrono::seconds first_ejection{10}, longest_ejection{300};
  /// An ejection is half as long for each such time that the replica was in before it. A crash within that time of the
  /// return from another one is one too many.
  static constexpr std::chrono::seconds healthy{60};
  static constexpr std::chrono::milliseconds first_probe_after_refusal{200};
  static constexpr std::chrono::seconds longest_start{60};

  struct Change {
    ReplicaState from, to;
    std::string reason;  ///< A clause: "it refuses connections".
    Moment at;
    bool hung = false;  ///< The replica hangs: requests without any answer are to go elsewhere.
  };

  /// `known`: the pool begins with it. A replica that is added later starts slowly.
  Health(const config::Health& settings, bool known, Moment now);

  void set(const config::Health& settings) { settings_ = settings; }
  /// Time passes: an ejection ends, a start does.
  void advance(Moment now);

  /// `may_eject`: the pool can spare it, and it is to blame. The rest of the pool goes by PoolHealth::report.
  void showed(Sign sign, bool may_eject, Moment now);
  /// The host's name has no address: nothing can be sent there. The replica returns as after refused connections.
  void unresolved(std::string_view reason, Moment now);
  /// Its health path has answered with an error. Tokens do not excuse that, as they excuse a probe without an answer.
  void ill(unsigned status, Moment now);
  /// Its answers are not like its peers'. `reason` is a clause.
  void odd_one_out(std::string_view reason, Moment now) { eject(reason, now); }
  /// The replica hangs, for this reason. It comes back when its time out is over and a probe has passed. One that is
  /// out already stays so.
  void hung(std::string_view reason, Moment now);
  void prompt_finished(Tokens prompt) {
    if (auto* const starting = std::get_if<Starting>(&state_)) starting->finished += prompt;
  }
  /// The replica takes requests again after a drain, in which it may have been restarted: if it was in, it starts
  /// slowly.
  void drained(Moment now);
  /// An operator takes the replica back before its time out is over, and its ejections are forgotten. Returns whether
  /// it was ejected. An ejection is an inference, and the operator may know better; a refused connection is none.
  bool pardon(Moment now);
  /// The replica has finished enough to hold as much as its peers do.
  void started(Moment now);

  bool out() const { return std::holds_alternative<Ejected>(state_) || std::holds_alternative<Down>(state_); }
  /// The health as decisions and operators see it.
  struct View {
    ReplicaState state;
    Moment since;
    std::string_view reason;           ///< A clause.
    bool refuses;                      ///< It refuses connections, or its name has no address.
    bool is_mute;                      ///< Down, for its probes get no answer. An ill one may serve what it has.
    std::uint32_t failures;            ///< Requests in a row.
    Tokens finished;                   ///< Prompt tokens since it began to start.
    std::optional<Moment> back_since;  ///< It came, or came back.
  };
  View view() const {
    const auto* const starting = std::get_if<Starting>(&state_);
    return {state(),    since_, reason_, refuses(), is_mute(), failures_, starting != nullptr ? starting->finished : 0,
            back_since_};
  }
  /// Returns when to probe it again after a probe, or after it has refused a connection.
  std::chrono::duration<double> probe_after() const;
  /// Returns the changes since the last call, in order.
  std::vector<Change> take_changes();

 private:
  /// The time for which a replica is out. A restart ends it, unless the replica hung, or crashes again and again.
  struct TimeOut {
    Moment until{};
    std::string crash_loop{};  ///< A clause, if the replica crashes again and again.
    bool hangs = false;        ///< The replica hung: a probe has to pass, too.
    bool proved = false;       ///< One has passed since.

    bool outlasts_a_restart() const { return hangs || !crash_loop.empty(); }
  };
  struct Up {};
  struct Starting {
    Tokens finished = 0;
  };
  struct Ejected {
    TimeOut time_out;
  };
  struct Down {
    TimeOut time_out{};  ///< May run since before.
    bool refuses = false;
    std::uint32_t refused_probes = 0, passed_probes = 0;  ///< In a row; the former since it refuses.
  };
  using State = std::variant<Up, Starting, Ejected, Down>;

  ReplicaState state() const {
    constexpr ReplicaState of[] = {ReplicaState::up, ReplicaState::starting, ReplicaState::ejected, ReplicaState::down};
    return of[state_.index()];
  }
  bool refuses() const {
    const auto* const down = std::get_if<Down>(&state_);
    return down != nullptr && down->refuses;
  }
  bool is_mute() const { return std::holds_alternative<Down>(state_) && !refuses() && !is_ill(); }
  void enter(State next, std::string_view reason, Moment now);
  Down gone_down() const;
  void eject(std::string_view reason, Moment now, std::string_view until = "", bool hangs = false);
  void forgive(Moment now);
  std::string begin(TimeOut& time_out, std::string reason, Moment now);
  void lives(Moment now);
  void crashed(TimeOut& time_out, Moment now);
  void refused(bool by_probe, Moment now);
  void probe_failed(Moment now);
  void come_back(std::string_view reason, Moment now);
  bool is_ill() const { return ill_probes_ >= settings_.down_after; }

  config::Health settings_;
  State state_;
  Moment since_;
  std::string reason_;
  std::vector<Change> changes_;

  std::uint32_t failures_ = 0, connect_timeouts_ = 0, failed_probes_ = 0;  ///< In a row.
  std::uint32_t ill_probes_ = 0;  ///< In a row of those that were answered: errors.
  Moment failed_at_{};            ///< A request last failed.
  // The history that says how long the replica is out the next time.
  std::chrono::seconds next_ejection_ = first_ejection;
  Moment in_since_;  ///< Since when no ejection has been running.
  std::optional<Moment> back_since_;
  std::optional<Moment> lives_since_;  ///< The first sign of life, while it is in, since it last refused.
  std::uint32_t crashes_ = 0;          ///< In a row, each within `healthy` of the return from the one before.
  Moment first_crash_;                 ///< Of these.
};

// The testimony of witnesses about a replica that has been silent for so long that it may hang. Silence alone is no
// proof: engines compile, prefill long prompts and buffer tool calls. So its listener and its counters are asked.
// A test request of weir's own would be no witness: an engine that works on one request at a time keeps it waiting.
//
// A Pool owns one for each replica and calls it under its mutex. No clock is read.

enum class Testimony : std::uint8_t {
  answered,  ///< The replica answered a probe well.
  told,      ///< The replica gave its metrics page.
  still,     ///< The counters stood still between two readings that began after the suspicion.
  works,     ///< The counters moved between two readings that began after the suspicion.
  mute,      ///< The replica did not answer a probe.
  ill,       ///< The probe was answered with an error: it says itself that it is not well.
  untold,    ///< The replica took the question for its metrics page and did not answer.
};

class Suspicion {
 public:
  bool is_on() const { return since_.has_value(); }
  /// A witness that was asked since the suspicion stands says that the process does not answer, or is not well.
  bool is_confirmed() const { return stands_ && (ill_ >= stands_ || mute_ >= stands_); }
  /// The door did not answer, whenever it was asked.
  bool is_mute() const { return mute_.has_value(); }
  /// Neither its door nor its metrics page answers.
  bool is_deaf() const { return mute_ && untold_; }
  /// The replica's own counters say that it makes nothing.
  bool stands_still() const { return still_; }
  void begin(Moment now) {
    if (!since_) since_ = now;
  }
  /// The books explain the silence no more, and `grave`: by far.
  void stand(bool unexplained, bool grave, Moment now) {
    grave_ = grave;
    if (!unexplained)
      stands_.reset();
    else if (!stands_)
      stands_ = now;
  }
  /// Others are to be preferred.
  bool is_grave() const { return grave_; }
  void end() { *this = {}; }
  /// Since when, as the suspicion begins and again as it begins to stand: the witnesses are to be asked.
  std::optional<Moment> take_new() {
    const auto news = stands_ ? stands_ : since_;
    if (news <= asked_) return std::nullopt;  // A suspicion of no moment is earlier than any.
    return asked_ = news;
  }
  /// `asked`: when the witness began to look. One that got no answer says nothing of a replica that has answered
  /// another one since.
  void hear(Testimony what, Moment asked, Moment now) {
    if (!since_) return;
    const bool lately = !answered_ || *answered_ < asked;
    if (what == Testimony::ill) ill_ = asked;
    if (what == Testimony::mute && lately) mute_ = asked;
    if (what == Testimony::untold && lately) untold_ = true;
    if (what == Testimony::still) still_ = true;
    if (what != Testimony::answered && what != Testimony::told) return;
    answered_ = now;
    mute_.reset();
    untold_ = false;
    if (what == Testimony::answered) ill_.reset();  // A page says nothing of how well its engine is.
  }

 private:
  std::optional<Moment> since_, stands_, answered_;
  std::optional<Moment> asked_;       ///< The witnesses were last asked about the suspicion of then.
  std::optional<Moment> ill_, mute_;  ///< The witness that said so was asked then.
  bool untold_ = false, still_ = false, grave_ = false;
};

// Whose fault the end of a request was. The end of each attempt says it once, and whatever counts against anybody
// derives from it: only a replica's own fault lets it rest, ejects it, or keeps a prompt in its books.

enum class Blame : std::uint8_t {
  nobody,   ///< The request was answered, or its client left.
  client,   ///< The replica works, and does not take such a request.
  replica,  ///< The replica failed, or had no room.
  weir,     ///< weir lacked something of its own, or ended the request.
};

}  // namespace weir::balancer
