#include "metrics/record/slo.hpp"

#include <cmath>

namespace weir::metrics::record {
namespace {

using Threshold = std::optional<config::Seconds>;

/// Compares figures with thresholds, one after the other.
class ThresholdCheck {
 public:
  void compare(const Threshold& threshold, const std::optional<double>& figure) {
    if (!threshold || !figure) return;
    any_ = true;
    // The histograms count nanoseconds, so attainment agrees with the bucket at the threshold.
    missed_ |= std::llround(*figure * 1e9) > std::llround(threshold->count() * 1e9);
  }
  bool missed() const { return missed_; }
  std::optional<SloResult> result() const {
    if (!any_) return std::nullopt;
    return missed_ ? SloResult::bad : SloResult::good;
  }

 private:
  bool any_ = false, missed_ = false;
};

ThresholdCheck check_of(const config::Slo& slo, const RequestRecord& record, const Figures& figures) {
  ThresholdCheck check;
  check.compare(slo.ttft_client, figures.ttft_client);
  check.compare(slo.ttft, figures.ttft);
  check.compare(slo.e2e, figures.e2e);
  check.compare(slo.tpot, figures.tpot);
  for (const ChoiceTimes& choice : record.answer.choices) {
    if (const auto decode = decode_of(choice)) check.compare(slo.tpot, decode->tpot);
  }
  return check;
}

/// Returns the TPOT of an answer whose client left before its end. n is the number of tokens counted, and the last
/// token's time ends when the client left, since the next one was due.
std::optional<double> tpot_when_left(const RequestRecord& record) {
  const Answer& answer = record.answer;
  if (record.facts.n > 1 || !answer.first_token) return std::nullopt;
  const std::uint64_t first = answer.first_output_tokens.value_or(1);
  const std::uint64_t behind = answer.counted_tokens > first ? answer.counted_tokens - first : 1;
  return seconds(*record.ended - *answer.first_token) / static_cast<double>(behind);
}

/// Returns what the client had waited when it left, in place of what never came.
Figures figures_when_left(const RequestRecord& record) {
  Figures figures = figures_of(record);
  if (!record.ended) return figures;
  const double waited = seconds(*record.ended - record.received);
  figures.e2e = waited;
  if (!record.facts.stream) return figures;
  if (!figures.ttft_client) figures.ttft_client = waited;
  if (!figures.ttft && record.sent) figures.ttft = seconds(*record.ended - *record.sent);
  figures.tpot = tpot_when_left(record);
  return figures;
}

/// True if the objective covers requests of this kind. Requests that are not streamed have only a duration.
bool is_about(const config::Slo& slo, const RequestRecord& record) { return record.facts.stream || slo.e2e; }

}  // namespace

std::optional<SloResult> judge(const config::Slo& slo, const RequestRecord& record) {
  if (!is_about(slo, record)) return std::nullopt;
  if (served(record)) return check_of(slo, record, figures_of(record)).result();
  switch (record.outcome) {
    case Outcome::bad_request:
    case Outcome::client_error:
      return std::nullopt;
    case Outcome::client_abort:
      if (check_of(slo, record, figures_when_left(record)).missed()) return SloResult::bad;
      return std::nullopt;
    default:
      return SloResult::bad;
  }
}

}  // namespace weir::metrics::record
