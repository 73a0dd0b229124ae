// Adds the events of one answer up: moments, counts, gaps and what they settle (MEASUREMENT.md, sections 1 and 2).
//
// One tally an attempt, on the stream's thread; knows nothing of bytes. What is known at once goes into the replica's
// shard at once; the rest is in the Answer. State: one small record a choice, and the gap sketch.
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
  /// What a call's events brought, for the ledger.
  struct Brought {
    std::uint32_t events = 0;
    std::uint32_t token_events = 0;
    std::uint32_t tokens = 0;
    bool first_token = false;
  };

  AnswerTally(series::ReplicaShard& shard, std::uint32_t choices, std::uint32_t prompts, Moment received, Moment sent);

  /// Body bytes came; calls with the same moment are one read.
  void read(Moment at);
  void event(const wire::EventFacts& facts, Moment at, Brought& brought);
  void unparsed(series::Unparsed why);
  /// What the engine says of itself.
  void engine(const wire::EngineFigures& said) {
    if (said != wire::EngineFigures{}) answer_.engine.make().update(said);
  }
  /// The next read brings what came while nobody read: the gaps that end in it are no observations.
  void paused() { backlog_next_ = true; }
  /// A JSON answer has ended.
  void json(const wire::JsonAnswerFacts& facts);
  /// The body has ended. `by_framing`: whole framing completes this answer, for want of an end marker.
  void end(bool whole, bool framed, bool by_framing, Moment at);

  std::optional<Moment> last_read() const { return last_read_; }
  bool refused() const { return refused_; }
  /// Every choice that the event names has finished before it.
  bool finished_before(const wire::EventFacts& facts) const;
  bool marker() const { return answer_.complete == Completeness::marker; }
  const record::Answer& answer() const { return answer_; }

 private:
  static constexpr std::size_t most_choices = 128;

  /// One choice, as it flows. k of an event is known where the count before it and after it are.
  struct Choice {
    Moment first_event{};   // Its first token event.
    Moment last_event{};    // Its last token event.
    Moment last_counted{};  // Its last token event with k > 0: an event with k = 0 adds its gap to the next.
    Moment last{};          // Its last event of any kind.
    std::uint64_t count = 0;
    std::uint64_t first_count = 1;  // Tokens of its first token event; 1 where unknown.
    std::uint32_t token_events = 0;
    std::uint32_t pauses_at_event = 0;
    std::uint32_t pauses_at_counted = 0;
    bool count_known = true;  // Nothing was made before the first event.
    bool begun = false;       // Has had a token event.
    bool coalesced = false;   // Its last token event shared its read with the one before.
    bool apart = false;       // Its token events came in more than one read.
    bool finished = false;
    bool closed_empty = false;
  };

  void prompt(const wire::EventFacts& facts);
  Choice* choice(std::uint32_t index);
  void choice_event(const wire::EventFacts& facts, const wire::ChoiceFacts& said, Moment at, Brought& brought);
  std::optional<std::uint64_t> count_tokens(const wire::EventFacts& facts, const wire::ChoiceFacts& said,
                                            Choice& of) const;
  void token_event(const wire::ChoiceFacts& said, Choice* of, std::optional<std::uint64_t> k, Moment at,
                   Brought& brought);
  void coalesce(Choice& of, Moment at);
  void observe_gaps(Choice& of, std::optional<std::uint64_t> k, Moment at);
  void usage(const wire::EventFacts& facts);
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
  boost::container::small_vector<Choice, 1> choices_;  // Most answers have one.
  std::optional<Moment> last_read_;
  Moment last_token_read_{};
  Moment last_coalesced_read_{};
  std::uint32_t pauses_ = 0;
  std::uint32_t last_finished_ = most_choices;  // Index of the choice that did; none yet.
  bool backlog_next_ = false;                   // The next read brings bytes that gathered during a pause;
  bool backlog_ = false;                        // the read under way does.
  bool refused_ = false;
  bool total_known_ = false;  // A usage event told n for all choices.
  bool k_known_ = false;      // k of at least one token event is known.
  bool k_unknown_ = false;
  bool too_many_choices_ = false;
  record::Answer answer_;
};

}  // namespace weir::metrics::measure
