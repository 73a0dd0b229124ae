#include "balancer/replica_rates.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

void ReplicaRates::prompt_finished(Tokens prompt, double pending_seconds) {
  const double elapsed = pending_seconds - pending_seconds_;
  pending_seconds_ = pending_seconds;
  const double kept = std::exp(-elapsed / memory_seconds);
  tokens_ = tokens_ * kept + static_cast<double>(prompt);
  seconds_ = seconds_ * kept + elapsed;
  if (prompts_ < requests_needed) ++prompts_;
}

void ReplicaRates::forget_prefill(double pending_seconds) {
  tokens_ = seconds_ = 0;
  pending_seconds_ = pending_seconds;
  prompts_ = 0;
}

void ReplicaRates::prompt_settled(Tokens taken_for, Tokens uncached) {
  tokens_ = std::max(0.0, tokens_ + static_cast<double>(uncached) - static_cast<double>(taken_for));
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
