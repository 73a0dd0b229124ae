#include "balancer/replica_rates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace weir::balancer {

void ReplicaRates::prompt_finished(Ticket ticket, double pending_seconds, Moment now) {
  // An older prompt that waits keeps the stretch going, but not for ever.
  constexpr std::uint32_t most_requests = 64;
  const bool begins = !stretch_ || pending_seconds > together_until_;
  auto made = begins ? std::make_shared<Stretch>() : nullptr;
  auto own = pending_.extract(ticket);
  const bool older_waits = !pending_.empty() && pending_.begin()->first < ticket;
  if (begins) {
    end_stretch(now);
    stretch_ = std::move(made);
    together_until_ = pending_seconds + together_seconds;
  }
  stretch_->seconds = pending_seconds - pending_seconds_;
  ++stretch_->requests;
  ++stretch_->unsettled;
  own.mapped() = stretch_;
  unsettled_.insert(std::move(own));
  if (older_waits && stretch_->requests < most_requests) {
    together_until_ = std::numeric_limits<double>::infinity();
  } else if (std::isinf(together_until_)) {
    together_until_ = pending_seconds + together_seconds;
  }
}

void ReplicaRates::end_stretch(Moment now) {
  if (!stretch_) return;
  stretch_->over = true;
  if (stretch_->unsettled == 0) learn(*stretch_, now);
  pending_seconds_ += stretch_->seconds;
  stretch_.reset();
}

void ReplicaRates::prompt_settled(Ticket ticket, Tokens prompt, Tokens computed, Moment now) {
  const auto settled = unsettled_.extract(ticket);
  if (settled.empty()) return;
  Stretch& stretch = *settled.mapped();
  stretch.prompts += prompt;
  stretch.computed += computed;
  if (--stretch.unsettled > 0) return;
  if (stretch.over) return learn(stretch, now);
  if (settled.mapped() == stretch_ && !std::isinf(together_until_)) end_stretch(now);
}

void ReplicaRates::prompt_ended(Ticket ticket, Moment now) {
  pending_.erase(ticket);
  if (const auto found = unsettled_.find(ticket); found != unsettled_.end()) {
    found->second->unknown = true;
    prompt_settled(ticket, 0, 0, now);
  }
}

void ReplicaRates::learn(const Stretch& stretch, Moment now) {
  if (stretch.unknown || stretch.computed < least_computed || 2 * stretch.computed < stretch.prompts) return;
  const double passed = metrics::seconds(now - learned_);
  double kept = std::exp(-stretch.seconds / memory_seconds);
  if (seconds_ > least_seconds) kept *= std::max(std::exp(-passed / doubt_seconds), least_seconds / seconds_);
  learned_ = now;
  tokens_ = tokens_ * kept + static_cast<double>(stretch.computed);
  seconds_ = seconds_ * kept + stretch.seconds;
  prompts_ = std::min(prompts_ + stretch.requests, requests_needed);
  for (std::uint32_t i = 0; i < std::min(stretch.requests, requests_needed_again); ++i) {
    lessons_[next_lesson_] = now;
    next_lesson_ = (next_lesson_ + 1) % lessons_.size();
  }
}

void ReplicaRates::leave_out_until(double pending_seconds) {
  if (stretch_) {
    stretch_->over = true;
    stretch_.reset();
  }
  pending_seconds_ = pending_seconds;
}

void ReplicaRates::forget_prefill(double pending_seconds) {
  tokens_ = seconds_ = 0;
  prompts_ = std::min(prompts_, requests_needed - requests_needed_again);
  unsettled_.clear();
  leave_out_until(pending_seconds);
}

void ReplicaRates::answer_finished(Tokens output, double decode_seconds) {
  if (output < 2 || decode_seconds <= 0) return;
  if (answers_ < requests_needed) ++answers_;
  const double rate = static_cast<double>(output - 1) / decode_seconds;
  decode_ += (rate - decode_) / answers_;
}

std::optional<double> ReplicaRates::prefill() const {
  if (prompts_ < requests_needed || seconds_ <= 0) return std::nullopt;
  return tokens_ / seconds_;
}

std::optional<double> ReplicaRates::decode() const {
  if (answers_ < requests_needed) return std::nullopt;
  return decode_;
}

double median_of(std::span<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double relative_speed(std::optional<double> rate, double median) {
  if (!rate || median <= 0) return 1;
  const double speed = *rate / median;
  return std::abs(speed - 1) < 0.1 ? 1 : std::clamp(speed, 0.25, 4.0);
}

}  // namespace weir::balancer
