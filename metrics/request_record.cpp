#include "metrics/request_record.hpp"

namespace weir::metrics {
namespace {

/// Absent where a moment is missing, and where the order cannot be (a kernel stamp and a clock read may disagree by
/// microseconds): no number is better than a wrong one.
std::optional<double> between(const std::optional<Moment>& from, const std::optional<Moment>& to) {
  if (!from || !to || *to < *from) return std::nullopt;
  return seconds(*to - *from);
}

/// n1, taken as 1 where unknown, provided that tL - t1 spans reads and so is a time of generation.
std::optional<std::uint64_t> tokens_at_first_event(const Answer& answer) {
  if (answer.first_output_tokens) return answer.first_output_tokens;
  if (answer.token_events_in_different_reads) return 1;
  return std::nullopt;
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
  figures.e2e = between(record.received, answer.last_choice);

  // usage sums over choices: with several of them no time per token follows from it.
  if (record.facts.n > 1 || !answer.output_tokens) return figures;
  const std::uint64_t n = *answer.output_tokens;
  if (figures.e2e && n > 0) figures.ntpot = *figures.e2e / static_cast<double>(n);

  const auto n1 = tokens_at_first_event(answer);
  const auto decode = between(answer.first_token, answer.last_choice);
  if (n1 && n > *n1 && decode && *decode > 0) {
    const auto generated = static_cast<double>(n - *n1);
    figures.tpot = *decode / generated;
    figures.decode_speed = generated / *decode;
  }
  return figures;
}

}  // namespace weir::metrics
