// What was seen of one answer: the moments and counts of MEASUREMENT.md, section 1, before any formula.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/rare.hpp"
#include "metrics/record/gap_sketch.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::record {

/// One choice of an answer with several, where the count of its own tokens is known.
struct ChoiceTimes {
  Moment first_token{}, last{};    ///< Its t1 and tL.
  std::uint64_t tokens = 0;        ///< Its n.
  std::uint64_t first_tokens = 1;  ///< Its n1.
};

struct Answer {
  // What every event touches comes first, so that it lies in few cache lines.
  std::optional<Moment> first_choice;  ///< tC: first event that carries a choice.
  std::optional<Moment> first_token;   ///< t1: first token event.
  std::optional<Moment> first_output;  ///< tO: first token event that is output, not reasoning.
  std::optional<Moment> last_choice;   ///< tL: last event that carries a choice.

  std::uint32_t events = 0;        ///< Dispatched events, [DONE] included, comments not.
  std::uint32_t reads = 0;         ///< Reads that brought body bytes.
  std::uint32_t token_events = 0;  ///< One a choice that an event brings tokens of. JSON: choices with output.
  /// Reads that brought token events, those of them that brought several of one choice, and the token events in these.
  std::uint32_t token_reads = 0, coalesced_reads = 0, coalesced_token_events = 0;
  /// Token events fell into more than one read, so that tL - t1 is a duration of generation.
  bool token_events_in_different_reads = false;
  TokenSource token_source = TokenSource::none;
  TokensPerEvent tokens_per_event = TokensPerEvent::unknown;
  Completeness complete = Completeness::none;
  bool in_band_error = false;
  bool timed = false;     ///< The engine tells its counts unasked (llama.cpp's timings).
  bool unparsed = false;  ///< Some of it could not be read (event over the limit, broken JSON, coded body).

  std::uint64_t counted_tokens = 0;            ///< Put into weir_output_tokens_total while the answer flowed.
  std::uint64_t output_chars = 0;              ///< Code points of generated text.
  std::optional<std::uint64_t> output_tokens;  ///< n, as the engine counts (EOS included).
  GapSketch gaps;  ///< Between token events, all choices together; ITL if tokens_per_event is settled.

  std::optional<Moment> end;  ///< tE: end of the body.
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  /// n1, completion count up to and including the first token event.
  std::optional<std::uint64_t> first_output_tokens;
  std::vector<ChoiceTimes> choices;  ///< Filled at the end, only with n > 1 and every choice's own count known.
  Rare<wire::EngineFigures> engine;
  std::string finish_reason;  ///< "" = none; at most 32 bytes, the rest cut.
};

}  // namespace weir::metrics::record
