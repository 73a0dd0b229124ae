// The facts of one event of an answer, whatever engine wrote it. The dialects fill them in.
//
// metrics/measure/answer_tally.hpp draws conclusions from a sequence of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/memory.hpp"
#include "metrics/wire/engine/report.hpp"

namespace weir::metrics::wire {

/// True for a finish that does not end an answer: the engine gave up (vLLM, SGLang and gateways use this word).
inline bool gave_up(std::string_view finish_reason) { return finish_reason == "abort" || finish_reason == "error"; }

/// The parts of a prompt's count, where an API tells them apart (Anthropic).
struct PromptParts {
  std::optional<std::uint64_t> uncached, cache_created, cache_read;

  /// Takes over each part that a later event tells. A 0 behind a greater count is a gateway's blank, but not an
  /// uncached
  /// 0 beside cached parts: vLLM first tells the whole prompt as uncached, and then how its cache divides it.
  void update(const PromptParts& later) {
    if (later.uncached && later.cache_created.value_or(0) + later.cache_read.value_or(0) > 0) uncached.reset();
    for (auto part : {&PromptParts::uncached, &PromptParts::cache_created, &PromptParts::cache_read}) {
      if ((later.*part).value_or(0) > 0 || !(this->*part)) this->*part = later.*part;
    }
  }
  bool any() const { return uncached || cache_created || cache_read; }
  std::optional<std::uint64_t> whole() const {
    if (!uncached) return std::nullopt;
    return *uncached + cache_created.value_or(0) + cache_read.value_or(0);
  }
};

/// The facts of an event about one choice.
struct ChoiceFacts {
  std::uint32_t index = 0;
  bool token = false;     ///< Brings text, reasoning, a tool delta, token ids or a native token.
  bool output = false;    ///< Brings more than reasoning.
  bool finished = false;  ///< Closes the choice.
  /// The event brings so many tokens, where it lists them (token ids, native tokens). It is 0 on an event that ends a
  /// choice and reports the whole count, so that the count does not make it a token event.
  std::optional<std::uint32_t> tokens;
};

/// A part of what an event brings, as it stands in the event's JSON.
struct ContentPart {
  enum class What : std::uint8_t {
    text,       ///< The inside of a string, as the next two are.
    reasoning,  ///< Comes beside the text in a member of its own.
    arguments,  ///< The next part of the arguments of the call that was begun last.
    call,       ///< An object that begins a call, or an array of such.
    call_delta  ///< An object that begins a call or goes on with one, or an array of such (OpenAI's tool_calls).
  };
  What what;
  std::string_view json;  ///< A view into the event's data.
};

struct EventFacts {
  std::vector<ChoiceFacts> choices;
  bool carries_choice = false;    ///< Brings or ends output (docs/reference/metrics.md); choices may be unknown.
  bool opens_choices = false;     ///< Brings nothing but a role, or the beginning of a message.
  bool marker = false;            ///< Ends the stream in good order.
  bool error = false;             ///< An in-band error.
  bool broken = false;            ///< Not the JSON it should be, and all else here is void.
  bool keep_alive = false;        ///< Says nothing but that the connection is open.
  bool prefill_progress = false;  ///< Reports progress in reading the prompt, and is no token event.
  bool usage_only = false;        ///< Has no choices but a usage object: what include_usage asks for.
  /// Usage beside choices that bring nothing: a usage event once the choices have finished (LiteLLM).
  bool bare_usage = false;
  bool of_one_choice = false;  ///< The counts of a usage event are those of one choice (llama.cpp).
  /// The status that an in-band error stands for: no_room, or 400, 404, 413 or 422 where the request is at fault. 0: a
  /// failure of the engine.
  std::uint16_t error_status = 0;
  static constexpr std::uint16_t no_room = 503;
  bool timed = false;  ///< Has llama.cpp's timings with a count in them.
  /// The usage member of an event that carries choices, from its key's quote to its value's end; continuous_usage_stats
  /// adds it. It is a view into the event's data.
  std::string_view usage_member;
  /// The timings member of an event that finishes no choice, in the same way; timings_per_token adds it.
  std::string_view timings_member;
  bool one_token_an_event = false;  ///< The format has one token an event (TGI native).
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::optional<PromptParts> prompt_parts;         ///< Instead of the two counts above, or of some of them.
  std::optional<std::uint64_t> reasoning_tokens;   ///< Some of the answer's completion tokens, all choices together.
  std::optional<std::uint64_t> completion_tokens;  ///< The count is cumulative; it is the choice's, if the event
                                                   ///< carries one.
  std::string_view finish_reason;                  ///< Valid as long as the event's data and until the next
                                                   ///< event.
  std::uint64_t output_chars = 0;                  ///< Counts the code points of text and reasoning.
  /// The text may be the whole of its choice so far (SGLang). WholeText decides by the tokens listed beside it.
  bool whole_text = false;
  std::optional<std::uint64_t> listed_tokens;
  std::optional<EngineFigures> engine;  ///< The engine reports this of its own work.
  bool wants_content = false;           ///< `content` is to be filled. It stays set when the facts are cleared.
  std::vector<ContentPart> content;     ///< The parts in their order.
  std::uint64_t content_seen = 0;       ///< The code points at the beginning of the text that came before.
  std::string_view id;                  ///< The answer's own (Responses). Valid as long as `finish_reason`.
  /// The inside of the only text string, if the event is nothing but one choice's text (see EventTemplate).
  std::string_view plain_text;

  void clear();
  void add_content(ContentPart::What what, std::string_view json) {
    if (wants_content && !json.empty()) content.push_back({what, json});
  }
  /// True if nothing of the event was understood.
  bool says_nothing() const;
  /// Makes this the usage event: its choices bring nothing and have finished.
  void take_for_usage_event();
};

// Remembers the shape of a stream's last plain content event, so that the next one need not be parsed
// (docs/benchmarks.md has what that saves).
//
// A template event is P + text + Q: P ends with the opening quote of its only text string, and Q begins with the
// closing one. If a new event is P + S + Q and S can stand inside a JSON string, then it is the same JSON document
// except for that one string. So it says the same, except for what the string says. Bytes alone decide. No part of a
// text can be mistaken for structure, because an S with a bare quote does not match.

class EventTemplate {
 public:
  static constexpr std::size_t limit = 512;  ///< A longer event is not remembered.

  /// Clears and fills `facts` and returns true if the event has the remembered shape.
  bool match(std::string_view data, EventFacts& facts) const;
  /// Prefetches the shape into the cache.
  void prefetch() const { metrics::prefetch(around_.data(), around_.size()); }
  /// Remembers a fully parsed event, if it is plain.
  void remember(std::string_view data, const EventFacts& facts);

 private:
  std::string around_;  // P followed by Q.
  std::size_t split_ = 0;
  std::uint32_t index_ = 0;
  bool reasoning_ = false;
};

// Is told what an answer says, in the order in which it comes, with JSON's escapes undone. The pieces may be cut
// anywhere. A stream and a whole answer that say the same tell the same.

class ContentListener {
 public:
  virtual ~ContentListener() = default;

  virtual void text(std::string_view piece) = 0;
  /// Brings reasoning that has a member of its own beside the text: engines write the two in either order. Reasoning
  /// that is one item or block among others (Responses, Anthropic) is text.
  virtual void reasoning(std::string_view piece) = 0;

  // A call begins with the first of these two, in either order.
  virtual void call_name(std::string_view piece) = 0;
  virtual void call_arguments(std::string_view piece) = 0;  ///< JSON. A call without any has the arguments {}.
  virtual void end_call() = 0;                              ///< Says nothing where no call has begun.

  virtual void lost_text() = 0;   ///< Text that was told has been taken back.
  virtual void lost_calls() = 0;  ///< A call could not be read.
};

// Tells a listener what the events of one stream say, from the parts that the dialects have found in them.

class ContentReader {
 public:
  explicit ContentReader(ContentListener& listener) : listener_(listener) {}

  /// `facts` are those of an event whose data are still there, with 64 bytes behind them readable. It uses the thread's
  /// parser.
  void tell(const EventFacts& facts);

 private:
  struct Call;

  void tell_text(std::string_view inside, std::uint64_t seen);
  void tell_calls(std::string_view json, bool deltas);
  void tell_call(const Call& call, bool delta);

  ContentListener& listener_;
  // The open call's members, which tell an OpenAI delta that continues it from one that begins the next.
  std::optional<std::uint64_t> index_;
  std::string id_;
  bool named_ = false;
};

// Subtracts what a choice has already shown where each event sends the whole text so far (SGLang's /generate).
//
// Each stream has one. A server may also be set to send only what is new. Then it lists only the new tokens beside the
// text, which shows as soon as a choice has had an event before. If no tokens are listed, the text is the whole so far.

class WholeText {
 public:
  /// Leaves in `facts.output_chars` what is new, and in `facts.content_seen` what is not. A text may end up shorter
  /// than it was, when a stop word is cut off.
  void subtract_seen(EventFacts& facts);

 private:
  struct Seen {
    std::uint64_t chars = 0, tokens = 0;
  };

  std::vector<Seen> seen_;    // Each choice has shown so much.
  std::optional<bool> anew_;  // Unknown until an event shows it.
};

}  // namespace weir::metrics::wire
