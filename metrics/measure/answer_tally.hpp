// Adds up the events of one answer: moments, counts, gaps, and what follows from them (docs/reference/metrics.md).
//
// Each attempt has one tally, on the stream's thread. The tally knows nothing of bytes. It writes to the replica's
// shard what is known at once; the rest is in the Answer. It keeps one small record a choice, and the gap sketch.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>

#include "metrics/record/answer.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/answer/json_answer.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::measure {

class AnswerTally {
 public:
  /// Tells the ledger what the events of one call brought.
  struct ReadCounts {
    std::uint32_t events = 0;
    std::uint32_t token_events = 0;
    std::uint32_t tokens = 0;
    bool first_token = false;
    bool unread = false;  ///< Some event may hold tokens that could not be read.
  };

  AnswerTally(series::ReplicaShard& shard, std::uint32_t choices, std::uint32_t prompts, Moment received, Moment sent);

  /// Says that body bytes came. Calls with the same moment count as one read.
  void read(Moment at);
  void event(const wire::EventFacts& facts, Moment at, ReadCounts& counts);
  void unparsed(series::Unparsed why);
  /// Takes the engine's own figures.
  void engine(const wire::EngineFigures& said) {
    if (said != wire::EngineFigures{}) answer_.engine.make().update(said);
  }
  /// Takes the hash of the answer's id: see record::Answer.
  void id(std::uint64_t hash) { answer_.id = hash; }
  /// Takes what the content was, once it has ended.
  void fingerprint(const record::Fingerprint& of_content) { answer_.fingerprint = of_content; }
  /// Says that the next read brings bytes that gathered while nobody read. Gaps that end in that read are not observed.
  void paused() { backlog_next_ = true; }
  /// Takes the facts of a JSON answer that has ended.
  void json(const wire::JsonAnswerFacts& facts);
  /// Says that the body has ended. `by_framing`: a whole framing completes this answer, because its format has no end
  /// marker.
  void end(bool whole, bool framed, bool by_framing, Moment at);

  /// Prefetches what an event will touch beside the tally itself.
  void prefetch() const;
  /// Returns the address behind which few events touch anything.
  const void* rarely_used() const { return &answer_.end; }

  /// How far the answer has come.
  struct Progress {
    std::optional<Moment> last_read;
    bool begun = false;    ///< An event said more than that a choice opens.
    bool refused = false;  ///< An error came before that.
  };
  const Progress& progress() const { return progress_; }
  /// True if every choice that the event names had finished before it.
  bool finished_before(const wire::EventFacts& facts) const;
  const record::Answer& answer() const { return answer_; }

 private:
  static constexpr std::size_t most_choices = 128;

  /// The state of a choice while it flows. An event's k is known where the counts before and after it are.
  struct Choice {
    Moment first_event{};   // The choice's first token event came then.
    Moment last_event{};    // Its last token event came then.
    Moment last_counted{};  // Its last token event with k > 0 came then; an event with k = 0 adds its gap to the next.
    Moment last{};          // Its last event of any kind came then.
    std::uint64_t count = 0;
    std::uint64_t first_count = 1;  // The first token event had so many tokens; 1 where unknown.
    std::uint32_t token_events = 0;
    std::uint32_t pauses_at_event = 0;
    std::uint32_t pauses_at_counted = 0;
    bool count_known = true;  // It starts true: before the first event there are no tokens.
    bool begun = false;       // The choice has had a token event.
    bool coalesced = false;   // Its last token event shared its read with the one before.
    bool apart = false;       // The choice's token events came in more than one read.
    bool finished = false;
    bool closed_empty = false;
  };

  void prompt(const wire::EventFacts& facts);
  void drop_impossible_cache();
  Choice* choice(std::uint32_t index);
  void choice_event(const wire::EventFacts& facts, const wire::ChoiceFacts& said, Moment at, ReadCounts& counts);
  std::optional<std::uint64_t> count_tokens(const wire::EventFacts& facts, const wire::ChoiceFacts& said,
                                            Choice& of) const;
  void token_event(const wire::ChoiceFacts& said, Choice* of, std::optional<std::uint64_t> k, Moment at,
                   ReadCounts& counts);
  void coalesce(Choice& of, Moment at);
  void observe_gaps(Choice& of, std::optional<std::uint64_t> k, Moment at);
  void usage(const wire::EventFacts& facts);
  void reasoning(const wire::EventFacts& facts);
  void usage_of_one_choice(std::uint64_t tokens);
  void sum_counts(bool by_events);
  void finish_reason(std::string_view reason);
  bool every_choice_finished() const;
  void drop_total_of_one_choice();
  bool one_token_each() const;
  void settle_choices();

  series::ReplicaShard& shard_;
  std::uint32_t expected_choices_;
  bool one_prompt_;
  Moment received_;
  Moment sent_;
  boost::container::small_vector<Choice, 1> choices_;  // Most answers have one choice.
  Progress progress_;
  Moment last_token_read_{};
  Moment last_coalesced_read_{};
  std::uint32_t pauses_ = 0;
  std::uint32_t last_finished_ = most_choices;  // The index of the choice that finished last; most_choices until one
                                                // does.
  bool backlog_next_ = false;                   // The next read brings bytes that gathered during a pause;
  bool backlog_ = false;                        // The current read brought such bytes.
  bool total_known_ = false;                    // A usage event told n for all choices.
  bool k_known_ = false;                        // k of at least one token event is known.
  bool k_unknown_ = false;
  bool too_many_choices_ = false;
  bool reasoned_ = false;  // A token event brought reasoning alone.
  Rare<wire::PromptParts> prompt_parts_;
  record::Answer answer_;
};

}  // namespace weir::metrics::measure
