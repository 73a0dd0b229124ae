// The measurements of one answer: the moments and counts of docs/reference/metrics.md before any formula.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/rare.hpp"
#include "metrics/record/fingerprint.hpp"
#include "metrics/record/gap_sketch.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::record {

/// A choice of an answer with several choices, recorded where the choice's own token count is known.
struct ChoiceTimes {
  Moment first_token{}, last{};    ///< The choice's t1 and tL.
  std::uint64_t tokens = 0;        ///< The choice's n.
  std::uint64_t first_tokens = 1;  ///< The choice's n1.
};

struct Answer {
  // Members that every event touches come first, so that they share few cache lines.
  std::optional<Moment> first_choice;  ///< tC: the first event that carries a choice came then.
  std::optional<Moment> first_token;   ///< t1: the first token event came then.
  std::optional<Moment> first_output;  ///< tO: the first token event that is output, not reasoning, came then.
  std::optional<Moment> last_choice;   ///< tL: the last event that carries a choice came then.

  std::uint32_t events = 0;        ///< Counts dispatched events, [DONE] included, comments excluded.
  std::uint32_t reads = 0;         ///< Counts reads that brought body bytes.
  std::uint32_t token_events = 0;  ///< Counts one for each choice to which an event brings tokens. In JSON it counts
                                   ///< choices with output.
  /// Counts the reads that brought token events, the reads that brought several of one choice, and the token events in
  /// those reads.
  std::uint32_t token_reads = 0, coalesced_reads = 0, coalesced_token_events = 0;
  /// True if token events came in more than one read, so that tL - t1 is a duration of generation.
  bool token_events_in_different_reads = false;
  TokenSource token_source = TokenSource::none;
  TokensPerEvent tokens_per_event = TokensPerEvent::unknown;
  Completeness complete = Completeness::none;
  bool in_band_error = false;
  /// The status that the error stands for (EventFacts::error_status), where the replica refused before any output; else
  /// 0.
  std::uint16_t in_band_status = 0;
  bool timed = false;     ///< The engine reports its counts unasked (llama.cpp's timings).
  bool unparsed = false;  ///< Part of it could not be read (an event over the limit, broken JSON, a coded body).

  std::uint64_t counted_tokens = 0;            ///< The tokens that were added to weir_output_tokens_total while the
                                               ///< answer flowed.
  std::uint64_t output_chars = 0;              ///< Counts the code points of generated text.
  std::optional<std::uint64_t> output_tokens;  ///< n, as the engine counts (EOS included).
  GapSketch gaps;  ///< The gaps between token events, all choices together. They are ITL if tokens_per_event is
                   ///< settled.

  std::optional<Moment> end;  ///< tE: the body ended then.
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> reasoning_tokens;  ///< Some of n.
  /// n1: the completion count up to and including the first token event.
  std::optional<std::uint64_t> first_output_tokens;
  std::vector<ChoiceTimes> choices;  ///< Filled at the end, and only with n > 1 and every choice's own count
                                     ///< known.
  Rare<wire::EngineFigures> engine;
  /// Set if a fingerprint was asked for, and the answer has one choice, came whole and could be read.
  Rare<Fingerprint> fingerprint;
  std::uint64_t id = 0;  ///< Hash of the id that the replica gave it (metrics/names.hpp); 0 if it has none.
  std::string finish_reason;  ///< "" if there is none. It is cut at 32 bytes.

  /// True if nobody told n, and weir counted what came.
  bool only_counted() const { return !output_tokens && counted_tokens > 0; }
};

}  // namespace weir::metrics::record
