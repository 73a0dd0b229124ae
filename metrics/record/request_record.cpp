#include "metrics/record/request_record.hpp"

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

}  // namespace weir::metrics::record
