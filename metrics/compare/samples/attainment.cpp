#include "metrics/compare/samples/attainment.hpp"

#include <cmath>

namespace weir::metrics::compare::samples {
namespace {

/// The times of a request, or how long its client had waited when it left. NaN is unknown.
struct Waits {
  float ttft_client, ttft, tpot, e2e;
};

float queue_of(const Sample& sample) {
  return static_cast<float>(static_cast<double>(sample.dispatched_us - sample.received_us) * 1e-6);
}

Waits waits_of(const Sample& sample) {
  Waits waits{sample.ttft_client, sample.ttft, sample.tpot, sample.e2e};
  if (sample.served) return waits;
  const float waited = sample.lasted;
  waits.e2e = waited;
  if (!sample.stream) return waits;
  if (std::isnan(waits.ttft_client)) waits.ttft_client = waited;
  if (std::isnan(waits.ttft) && sample.dispatched_us > sample.received_us) waits.ttft = waited - queue_of(sample);
  // The token that was due when the client left counts as a token.
  if (!std::isnan(sample.ttft_client) && sample.output_tokens != unknown_count) {
    const std::uint32_t behind = sample.output_tokens > 1 ? sample.output_tokens - 1 : 1;
    waits.tpot = (waited - sample.ttft_client) / static_cast<float>(behind);
  }
  return waits;
}

class ThresholdCheck {
 public:
  void compare(const std::optional<config::Seconds>& threshold, float figure) {
    if (!threshold || std::isnan(figure)) return;
    any_ = true;
    missed_ |= figure > static_cast<float>(threshold->count());
  }
  bool any() const { return any_; }
  bool missed() const { return missed_; }

 private:
  bool any_ = false, missed_ = false;
};

ThresholdCheck check(const config::Slo& slo, const Sample& sample, Since since) {
  const Waits waits = waits_of(sample);
  const bool dispatch = since == Since::dispatch;
  ThresholdCheck check;
  check.compare(slo.ttft_client, dispatch ? waits.ttft : waits.ttft_client);
  check.compare(slo.ttft, waits.ttft);
  check.compare(slo.tpot, waits.tpot);
  check.compare(slo.e2e, dispatch ? waits.e2e - queue_of(sample) : waits.e2e);
  return check;
}

bool tells(Attainment attainment) { return attainment == Attainment::met || attainment == Attainment::missed; }

/// Returns whether the answer met the objective, beside another to which it applied.
bool met_beside_other(Attainment attainment, const Sample& sample) {
  if (attainment == Attainment::no_figure) return sample.outcome != Outcome::ok_empty;
  return attainment == Attainment::met;
}

}  // namespace

Attainment judge(const config::Slo& slo, const Sample& sample, Since since) {
  if (sample.drop_reason != 0) return Attainment::missed;
  if (!sample.stream && !slo.e2e) return Attainment::no_figure;
  if (sample.served) {
    const ThresholdCheck thresholds = check(slo, sample, since);
    if (thresholds.missed()) return Attainment::missed;
    return thresholds.any() ? Attainment::met : Attainment::no_figure;
  }
  switch (sample.outcome) {
    case Outcome::bad_request:
    case Outcome::client_error:
      return Attainment::refused;
    case Outcome::client_abort:
      return check(slo, sample, since).missed() ? Attainment::missed : Attainment::left_early;
    default:
      return Attainment::missed;
  }
}

std::optional<PairAttainment> judge_pair(const config::Slo& slo, const Sample& a, const Sample& b) {
  const Attainment of_a = judge(slo, a, Since::dispatch), of_b = judge(slo, b, Since::dispatch);
  if (of_a == Attainment::left_early || of_b == Attainment::left_early) return std::nullopt;
  const bool one_refused = (of_a == Attainment::refused) != (of_b == Attainment::refused);
  if (!tells(of_a) && !tells(of_b) && !one_refused) return std::nullopt;
  return PairAttainment{met_beside_other(of_a, a), met_beside_other(of_b, b)};
}

}  // namespace weir::metrics::compare::samples
