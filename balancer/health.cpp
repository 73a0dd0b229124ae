#include "balancer/health.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::balancer {

namespace {

/// A replica that flaps for hours without a reader of its changes must not fill the memory.
constexpr std::size_t most_changes = 64;

}  // namespace

Health::Health(const config::Health& settings, bool known, Moment now)
    : settings_(settings),
      state_(known ? State(Up{}) : State(Starting{})),
      since_(now),
      reason_(known ? "it was there from the start" : "it is new"),
      in_since_(now) {
  if (!known) back_since_ = now;
}

void Health::enter(State next, std::string_view reason, Moment now) {
  const ReplicaState before = state();
  state_ = std::move(next);
  if (state() != before) {
    if (changes_.size() < most_changes) changes_.push_back({before, state(), std::string(reason), now});
    since_ = now;
  } else if (before != ReplicaState::down) {
    return;
  }
  reason_ = reason;  // Why it is down may change: its name has no address, it refuses.
}

/// Returns the state of being down in which the replica is, or to which it goes from its own one.
Health::Down Health::gone_down() const {
  if (const auto* const down = std::get_if<Down>(&state_)) return *down;
  const auto* const ejected = std::get_if<Ejected>(&state_);
  return ejected != nullptr ? Down{.time_out = ejected->time_out} : Down{};
}

void Health::advance(Moment now) {
  if (const auto* const ejected = std::get_if<Ejected>(&state_)) {
    const TimeOut& time_out = ejected->time_out;
    if (now >= time_out.until && (!time_out.hangs || time_out.proved))
      come_back(time_out.hangs ? "its time out is over, and a probe has passed" : "its time out is over", now);
  }
  if (std::holds_alternative<Starting>(state_) && now - since_ >= longest_start) started(now);
}

void Health::come_back(std::string_view reason, Moment now) {
  ill_probes_ = 0;
  if (const auto* const down = std::get_if<Down>(&state_);
      down != nullptr && down->time_out.outlasts_a_restart() && now < down->time_out.until) {
    TimeOut time_out = down->time_out;
    time_out.proved = true;
    const std::string why = time_out.hangs ? "it lives, and its time out for hanging is not over"
                                           : "it lives again, but " + time_out.crash_loop;
    return enter(Ejected{std::move(time_out)}, why, now);
  }
  failures_ = connect_timeouts_ = failed_probes_ = 0;
  in_since_ = now;
  back_since_ = now;
  enter(Starting{}, reason, now);
}

void Health::drained(Moment now) {
  if (!out()) come_back("it drains no more", now);
}

bool Health::pardon(Moment now) {
  advance(now);
  if (!std::holds_alternative<Ejected>(state_)) return false;
  crashes_ = 0;
  next_ejection_ = first_ejection;
  come_back("an operator took it back before its time", now);
  return true;
}

void Health::started(Moment now) {
  if (std::holds_alternative<Starting>(state_)) enter(Up{}, "it keeps up with its peers", now);
}

/// `until`: a clause that follows the length of the time out.
void Health::eject(std::string_view reason, Moment now, std::string_view until, bool hangs) {
  if (out()) return;
  forgive(now);
  Ejected ejected{{.hangs = hangs}};
  const auto why = begin(ejected.time_out, std::string(reason), now) + std::string(until);
  enter(std::move(ejected), why, now);
}

/// The minutes in which it was in make its next time out shorter.
void Health::forgive(Moment now) {
  const auto minutes = (now - in_since_) / healthy;
  for (auto i = minutes; i > 0 && next_ejection_ > first_ejection; --i) next_ejection_ /= 2;
  next_ejection_ = std::max(next_ejection_, first_ejection);
}

/// Returns the reason with the length of the time out.
std::string Health::begin(TimeOut& time_out, std::string reason, Moment now) {
  const auto length = std::exchange(next_ejection_, std::min(2 * next_ejection_, longest_ejection));
  time_out.until = std::max(time_out.until, now + length);
  return std::move(reason) + ", so it is out for " + std::to_string(length.count()) + " s";
}

void Health::lives(Moment now) {
  if (!out() && !lives_since_) lives_since_ = now;
}

/// The replica refuses connections from now on. One that has not lived since the last time has not crashed: it was not
/// started yet, or its time out is not over.
void Health::crashed(TimeOut& time_out, Moment now) {
  if (!lives_since_) return;
  const bool again = crashes_ > 0 && now - *lives_since_ < healthy;
  lives_since_.reset();
  if (!out()) forgive(now);
  if (!again) {
    crashes_ = 0;
    first_crash_ = now;
  }
  if (++crashes_ == 1) return;
  const auto within = std::chrono::ceil<std::chrono::seconds>(now - first_crash_);
  time_out.crash_loop = begin(
      time_out, "it crashed " + std::to_string(crashes_) + " times in " + std::to_string(within.count()) + " s", now);
}

void Health::hung(std::string_view reason, Moment now) {
  const bool was_out = out();
  if (auto* const ejected = std::get_if<Ejected>(&state_)) {
    ejected->time_out.hangs = true;
    ejected->time_out.proved = false;
  }
  eject(reason, now, " and until a probe passes", true);
  if (!was_out && !changes_.empty() && changes_.back().at == now) changes_.back().hung = true;
  if (was_out && changes_.size() < most_changes) changes_.push_back({state(), state(), std::string(reason), now, true});
}

void Health::showed(Sign sign, bool may_eject, Moment now) {
  switch (sign) {
    case Sign::answered:
    case Sign::empty:
      failures_ = 0;
      [[fallthrough]];
    case Sign::client_error:  // Engines whose work fails still refuse what is wrong.
      connect_timeouts_ = failed_probes_ = 0;
      // A replica that refuses connections may still finish what it had begun: no sign that it takes more.
      if (is_mute()) come_back("it answers requests", now);
      return lives(now);
    case Sign::failed:
      connect_timeouts_ = 0;
      if (now - std::exchange(failed_at_, now) >= Evidence::age) failures_ = 0;
      if (++failures_ >= Evidence::failures_in_a_row && may_eject)
        eject(std::to_string(failures_) + " requests in a row failed", now);
      return;
    case Sign::connect_timed_out:
      if (++connect_timeouts_ >= connect_timeouts_in_a_row && may_eject)
        eject("it did not take " + std::to_string(connect_timeouts_) + " connections in a row", now);
      return;
    case Sign::probe_refused:
    case Sign::refused:
      return refused(sign == Sign::probe_refused, now);
    case Sign::full:
      connect_timeouts_ = 0;
      return;
    case Sign::probe_excused:
      connect_timeouts_ = failed_probes_ = 0;
      return;
    case Sign::outdone:
      return;
    case Sign::probe_passed:
      failed_probes_ = 0;
      if (auto* const down = std::get_if<Down>(&state_)) {
        if (++down->passed_probes >= settings_.up_after) come_back("its probes pass", now);
      } else {
        ill_probes_ = 0;
        if (auto* const ejected = std::get_if<Ejected>(&state_)) ejected->time_out.proved = true;
      }
      return lives(now);
    case Sign::probe_failed:
      return probe_failed(now);
  }
}

void Health::refused(bool by_probe, Moment now) {
  ill_probes_ = 0;
  Down next = gone_down();
  next.passed_probes = 0;
  if (next.refuses && by_probe) ++next.refused_probes;
  if (!std::exchange(next.refuses, true)) crashed(next.time_out, now);
  const std::string reason = next.time_out.crash_loop.empty() ? "it refuses connections" : next.time_out.crash_loop;
  enter(std::move(next), reason, now);
}

void Health::unresolved(std::string_view reason, Moment now) {
  Down next = gone_down();
  next.passed_probes = 0;
  next.refuses = true;
  enter(std::move(next), reason, now);
}

void Health::ill(unsigned status, Moment now) {
  ++ill_probes_;
  if (is_ill()) enter(gone_down(), "its health path answers " + std::to_string(status), now);
  probe_failed(now);
}

void Health::probe_failed(Moment now) {
  ++failed_probes_;
  if (auto* const ejected = std::get_if<Ejected>(&state_)) ejected->time_out.proved = false;
  if (auto* const down = std::get_if<Down>(&state_)) {
    down->passed_probes = 0;
    if (std::exchange(down->refuses, false)) down->refused_probes = 0;  // It takes connections again, and no more.
  } else if (failed_probes_ >= settings_.down_after) {
    enter(gone_down(), std::to_string(failed_probes_) + " probes in a row failed", now);
  }
}

std::chrono::duration<double> Health::probe_after() const {
  const auto* const down = std::get_if<Down>(&state_);
  if (down == nullptr || !down->refuses) return settings_.interval;
  const std::chrono::duration<double> first = first_probe_after_refusal;
  const double times = std::exp2(std::min(down->refused_probes, 30U));
  return std::min<std::chrono::duration<double>>(first * times, settings_.interval);
}

std::vector<Health::Change> Health::take_changes() { return std::exchange(changes_, {}); }

}  // namespace weir::balancer
