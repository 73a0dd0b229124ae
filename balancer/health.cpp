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
      state_(known ? ReplicaState::up : ReplicaState::starting),
      since_(now),
      reason_(known ? "it was there from the start" : "it is new"),
      in_since_(now) {
  if (!known) back_since_ = now;
}

void Health::change(ReplicaState to, std::string_view reason, Moment now) {
  if (to == state_) {
    if (to == ReplicaState::down) reason_ = reason;  // Why it is down may change: its name has no address, it refuses.
    return;
  }
  if (changes_.size() < most_changes)
    changes_.push_back({state_, to, std::string(reason), now});
  state_ = to;
  since_ = now;
  reason_ = reason;
}

void Health::advance(Moment now) {
  if (state_ == ReplicaState::ejected && now >= ejected_until_ && (!hung_ || proved_))
    come_back(hung_ ? "its time out is over, and a probe has passed" : "its time out is over", now);
  if (state_ == ReplicaState::starting && now - since_ >= longest_start) started(now);
}

void Health::come_back(std::string_view reason, Moment now) {
  ill_probes_ = 0;
  if ((hung_ || !crash_loop_.empty()) && now < ejected_until_) {
    proved_ = true;
    refuses_ = false;
    refused_probes_ = 0;
    return change(ReplicaState::ejected,
                  hung_ ? "it lives, and its time out for hanging is not over" : "it lives again, but " + crash_loop_,
                  now);
  }
  hung_ = proved_ = false;
  crash_loop_.clear();
  refuses_ = false;
  refused_probes_ = failures_ = connect_timeouts_ = failed_probes_ = 0;
  finished_ = 0;
  ejected_until_ = in_since_ = now;
  back_since_ = now;
  change(ReplicaState::starting, reason, now);
}

void Health::drained(Moment now) {
  if (!out()) come_back("it drains no more", now);
}

bool Health::pardon(Moment now) {
  advance(now);
  if (state_ != ReplicaState::ejected) return false;
  hung_ = proved_ = false;
  crash_loop_.clear();
  crashes_ = 0;
  next_ejection_ = first_ejection;
  come_back("an operator took it back before its time", now);
  return true;
}

void Health::started(Moment now) {
  if (state_ == ReplicaState::starting) change(ReplicaState::up, "it keeps up with its peers", now);
}

void Health::eject(std::string_view reason, Moment now, std::string_view until) {
  forgive(now);
  change(ReplicaState::ejected, begin_time_out(std::string(reason), now) + std::string(until), now);
}

/// The minutes in which it was in make its next time out shorter.
void Health::forgive(Moment now) {
  const auto minutes = (now - in_since_) / healthy;
  for (auto i = minutes; i > 0 && next_ejection_ > first_ejection; --i) next_ejection_ /= 2;
  next_ejection_ = std::max(next_ejection_, first_ejection);
}

/// Returns the reason with the length of the time out.
std::string Health::begin_time_out(std::string reason, Moment now) {
  const auto length = std::exchange(next_ejection_, std::min(2 * next_ejection_, longest_ejection));
  ejected_until_ = std::max(ejected_until_, now + length);
  return std::move(reason) + ", so it is out for " + std::to_string(length.count()) + " s";
}

void Health::lives(Moment now) {
  if (!out() && !lives_since_) lives_since_ = now;
}

/// The replica refuses connections from now on. One that has not lived since the last time has not crashed: it was not
/// started yet, or its time out is not over.
void Health::crashed(Moment now) {
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
  crash_loop_ = begin_time_out("it crashed " + std::to_string(crashes_) + " times in " +
                                   std::to_string(within.count()) + " s", now);
}

void Health::odd_one_out(std::string_view reason, Moment now) {
  if (!out()) eject(reason, now);
}

void Health::hung(std::string_view reason, Moment now) {
  if (state_ != ReplicaState::down) {
    hung_ = true;
    proved_ = false;
  }
  if (!out()) {
    eject(reason, now, " and until a probe passes");
    if (!changes_.empty() && changes_.back().at == now) changes_.back().hung = true;
  } else if (changes_.size() < most_changes) {
    changes_.push_back({state_, state_, std::string(reason), now, true});
  }
}

void Health::showed(Sign sign, bool may_eject, Moment now) {
  switch (sign) {
    case Sign::answered:
    case Sign::empty:
    case Sign::meagre:
      failures_ = 0;
      [[fallthrough]];
    case Sign::client_error:  // Engines whose work fails still refuse what is wrong.
      connect_timeouts_ = failed_probes_ = 0;
      // A replica that refuses connections may still finish what it had begun: no sign that it takes more.
      if (state_ == ReplicaState::down && !refuses_ && !is_ill()) come_back("it answers requests", now);
      return lives(now);
    case Sign::failed:
      connect_timeouts_ = 0;
      if (now - std::exchange(failed_at_, now) >= Evidence::age) failures_ = 0;
      if (++failures_ >= Evidence::failures_in_a_row && may_eject && !out())
        eject(std::to_string(failures_) + " requests in a row failed", now);
      return;
    case Sign::connect_timed_out:
      if (++connect_timeouts_ >= connect_timeouts_in_a_row && may_eject && !out())
        eject("it did not take " + std::to_string(connect_timeouts_) + " connections in a row", now);
      return;
    case Sign::probe_refused:
      if (refuses_) ++refused_probes_;
      [[fallthrough]];
    case Sign::refused:
      passed_probes_ = ill_probes_ = 0;
      if (!std::exchange(refuses_, true)) crashed(now);
      return change(ReplicaState::down, crash_loop_.empty() ? "it refuses connections" : crash_loop_, now);
    case Sign::full:
      connect_timeouts_ = 0;
      return;
    case Sign::probe_excused:
      connect_timeouts_ = failed_probes_ = 0;
      return;
    case Sign::outdone:
    case Sign::absolved:
    case Sign::failed_alone:
      return;
    case Sign::probe_passed:
      failed_probes_ = 0;
      if (state_ != ReplicaState::down) ill_probes_ = 0;
      if (state_ == ReplicaState::ejected) proved_ = true;
      if (state_ == ReplicaState::down && ++passed_probes_ >= settings_.up_after) {
        passed_probes_ = 0;
        come_back("its probes pass", now);
      }
      return lives(now);
    case Sign::probe_failed:
      return probe_failed(now);
  }
}

void Health::unresolved(std::string_view reason, Moment now) {
  passed_probes_ = 0;
  refuses_ = true;
  change(ReplicaState::down, reason, now);
}

void Health::ill(unsigned status, Moment now) {
  ++ill_probes_;
  if (is_ill()) change(ReplicaState::down, "its health path answers " + std::to_string(status), now);
  probe_failed(now);
}

void Health::probe_failed(Moment now) {
  passed_probes_ = 0;
  proved_ = false;
  if (refuses_) {  // It takes connections again, and no more than that.
    refuses_ = false;
    refused_probes_ = 0;
  }
  if (++failed_probes_ < settings_.down_after || state_ == ReplicaState::down) return;
  change(ReplicaState::down, std::to_string(failed_probes_) + " probes in a row failed", now);
}

std::chrono::duration<double> Health::probe_after() const {
  if (!refuses_) return settings_.interval;
  const std::chrono::duration<double> first = first_probe_after_refusal;
  return std::min<std::chrono::duration<double>>(first * std::exp2(std::min(refused_probes_, 30U)), settings_.interval);
}

std::vector<Health::Change> Health::take_changes() { return std::exchange(changes_, {}); }

}  // namespace weir::balancer
