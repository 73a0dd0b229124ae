// The measurements of one answer: the moments and counts of docs/reference/metrics.md before any formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/hash.hpp"
#include "metrics/memory.hpp"
#include "metrics/moment.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::record {

struct Fingerprint {
  static constexpr std::uint64_t checkpoint_every = 64, checkpoints_up_to = 16 * 1024;
  static constexpr std::size_t longest_arguments = 16 * 1024, most_calls = 64;

  struct Text {
    std::uint64_t hash = 0, bytes = 0;
    std::vector<std::uint64_t> checkpoints;  ///< The hashes of its first 64, 128, ... bytes.
    bool operator==(const Text&) const = default;
  };
  struct Call {
    std::uint64_t name = 0;
    std::uint64_t arguments = 0;  ///< The hash of canonical JSON (wire/json/writer.hpp), else of the text.
    bool valid = false;           ///< The arguments are JSON.
    bool operator==(const Call&) const = default;
  };

  bool text_known = false, calls_known = false;  ///< An unknown part can be compared with nothing.
  /// Reasoning that has a member of its own comes first in the comparison, wherever the engine wrote it.
  Text reasoning, text;
  std::vector<Call> calls;
  bool operator==(const Fingerprint&) const = default;
};

/// How far two answers, a and b, agree.
struct Likeness {
  std::optional<bool> same_text;  ///< Absent where one of the two is not known.
  /// The whole length if the texts are equal. Else so many bytes are equal and the next 64 are not, or lie behind the
  /// last checkpoint.
  std::optional<std::uint64_t> common_prefix_bytes;
  /// The same names in the same order, with equal arguments. Absent where one side is not known or neither calls.
  std::optional<bool> same_tools;
  bool calls = false;                     ///< Both are known, and one at least calls.
  bool a_valid = false, b_valid = false;  ///< Calls, and the arguments of each of its calls are JSON.
};

Likeness likeness(const Fingerprint& a, const Fingerprint& b);

/// Makes a fingerprint of what it is told. Any cut into pieces gives the same.
class FingerprintMaker final : public wire::ContentListener {
 public:
  explicit FingerprintMaker(const SipKey& key) : key_(key), reasoning_(key), text_(key), name_(key) {}

  void text(std::string_view piece) override { text_.add(piece); }
  void reasoning(std::string_view piece) override { reasoning_.add(piece); }
  void call_name(std::string_view piece) override { name_.add(piece); }
  void call_arguments(std::string_view piece) override;
  void end_call() override;
  void lost_text() override { made_.text_known = false; }
  void lost_calls() override { made_.calls_known = false; }

  /// Is to be called once, when the answer has ended.
  Fingerprint finish();

 private:
  class TextHash {
   public:
    explicit TextHash(const SipKey& key) : hash_(key) {}
    void add(std::string_view piece);
    Fingerprint::Text finish();

   private:
    SipHash hash_;
    std::vector<std::uint64_t> checkpoints_;
  };

  SipKey key_;
  TextHash reasoning_, text_;
  SipHash name_;           // The open call's.
  std::string arguments_;  // The open call's.
  Fingerprint made_{.text_known = true, .calls_known = true, .reasoning = {}, .text = {}, .calls = {}};
};

// Keeps the gaps of one stream in little memory: sorted log-linear bins with counts, and their exact sum
// (docs/reference/request-log.md).

/// Each bin is 1.6 % wide: there are 64 to every doubling, counted from 1 microsecond. Bin 0 holds all shorter gaps.
/// The sketch serves one stream's gaps and quantiles over records; exported buckets never come from it.
class GapSketch {
 public:
  struct Bin {
    std::uint16_t index;
    std::uint32_t count;
    bool operator==(const Bin&) const = default;
  };

  void add(Nanoseconds gap, std::uint32_t count = 1);
  std::uint64_t count() const;
  /// The exact sum of all gaps. A bin's middle differs from the gaps in it by up to 0.8 %.
  std::uint64_t nanoseconds() const { return nanoseconds_; }
  std::span<const Bin> bins() const { return bins_; }  ///< Sorted by index.

  static std::uint16_t bin_of(Nanoseconds gap);
  static Nanoseconds middle_of(std::uint16_t bin);  ///< Returns the geometric middle of a bin.

 private:
  std::vector<Bin> bins_;
  std::uint64_t nanoseconds_ = 0;
};

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
  std::uint64_t id = 0;       ///< Hash of the id that the replica gave it (metrics/vocabulary.hpp); 0 if it has none.
  std::string finish_reason;  ///< "" if there is none. It is cut at 32 bytes.

  /// True if nobody told n, and weir counted what came.
  bool only_counted() const { return !output_tokens && counted_tokens > 0; }
};

}  // namespace weir::metrics::record
