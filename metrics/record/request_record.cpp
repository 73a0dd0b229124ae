#include "metrics/record/request_record.hpp"

#include <cmath>

namespace weir::metrics::record {
namespace {

/// Returns nothing where a moment is missing or the order is impossible. A kernel stamp and a clock read may disagree
/// by microseconds, and no number is better than a wrong one.
std::optional<double> between(const std::optional<Moment>& from, const std::optional<Moment>& to) {
  if (!from || !to || *to < *from) return std::nullopt;
  return seconds(*to - *from);
}

/// Returns n1. An unknown n1 is taken as 1 if tokens came in more than one read, so that tL - t1 is a time of
/// generation.
std::optional<std::uint64_t> tokens_at_first_event(const Answer& answer) {
  if (answer.first_output_tokens) return answer.first_output_tokens;
  if (answer.token_events_in_different_reads) return 1;
  return std::nullopt;
}

std::optional<Decode> decode_between(const std::optional<Moment>& first, const std::optional<Moment>& last,
                                     std::uint64_t n, std::uint64_t n1) {
  const auto time = between(first, last);
  if (n <= n1 || !time || *time <= 0) return std::nullopt;
  const auto generated = static_cast<double>(n - n1);
  return Decode{*time / generated, generated / *time};
}

}  // namespace

Figures figures_of(const RequestRecord& record) {
  const Answer& answer = record.answer;
  Figures figures;
  figures.queue = between(record.received, record.sent);
  figures.ttfb = between(record.sent, record.head);
  if (!record.facts.stream) {
    figures.e2e = between(record.received, answer.end);
    return figures;
  }
  figures.ttfc = between(record.sent, answer.first_choice);
  figures.ttft = between(record.sent, answer.first_token);
  figures.ttft_client = between(record.received, answer.first_token);
  figures.ttfot = between(record.sent, answer.first_output);
  // A client may ask for a stream and get one document, which has an end but no events before it.
  figures.e2e = between(record.received, answer.events == 0 ? answer.end : answer.last_choice);

  // usage sums over choices, so with several of them no time per token follows from it. decode_of gives each choice's.
  if (record.facts.n > 1 || !answer.output_tokens) return figures;
  const std::uint64_t n = *answer.output_tokens;
  if (figures.e2e && answer.last_choice && n > 0) figures.ntpot = *figures.e2e / static_cast<double>(n);

  const auto n1 = tokens_at_first_event(answer);
  if (!n1) return figures;
  if (const auto decode = decode_between(answer.first_token, answer.last_choice, n, *n1)) {
    figures.tpot = decode->tpot;
    figures.decode_speed = decode->speed;
  }
  return figures;
}

std::optional<Decode> decode_of(const ChoiceTimes& choice) {
  return decode_between(choice.first_token, choice.last, choice.tokens, choice.first_tokens);
}

bool served(const RequestRecord& record) {
  switch (record.outcome) {
    case Outcome::ok:
    case Outcome::ok_empty:
      return true;
    case Outcome::client_abort:
      // A request is served if its client left after the end, but not if the answer was an error.
      return record.answer.complete != Completeness::none && !record.answer.in_band_error &&
             (!record.status || *record.status < 400);
    default:
      return false;
  }
}

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
