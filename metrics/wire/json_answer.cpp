#include "metrics/wire/json_answer.hpp"

#include <algorithm>
#include <vector>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/json_feed.hpp"
#include "metrics/wire/text.hpp"

namespace weir::metrics::wire {

namespace {

/// What a value means, by the keys that lead to it.
enum class Place : std::uint8_t {
  ignored,
  root,
  error,
  object_name,
  choices,
  choice,
  message,
  items,  // Of OpenAI Responses' output.
  item,
  content,  // A string, or a list of parts.
  part,
  text,
  reasoning,          // Under its new name
  reasoning_content,  // and its old one: one text, if both are there.
  calls,              // An object, or an array of them.
  arguments,
  finish_reason,
  native_reason,  // SGLang's, an object.
  native_reason_type,
  status,  // OpenAI Responses'.
  incomplete,
  incomplete_reason,
  usage,
  prompt_details,
  meta_info,
  timings,
  metrics,
  drafts,
  details,
  number,
};

/// The numbers of one document, by where they stand.
struct Counts {
  using Count = std::optional<std::uint64_t>;
  Count prompt, completion, cached;                       // A usage object's.
  Count cache_created, cache_read;                        // Anthropic's, not in its input_tokens.
  Count native_prompt, native_completion, native_cached;  // An engine's own route's.
  Count timed_prompt, timed_completion, timed_cached;     // llama.cpp's timings'.
  Count drafted, accepted;

  static Count first_of(Count a, Count b, Count c) { return a ? a : b ? b : c; }
  Count all_completion() const { return first_of(completion, native_completion, timed_completion); }
  Count all_cached() const { return first_of(cached ? cached : cache_read, native_cached, timed_cached); }
  Count all_prompt() const {
    const auto plus = [](Count count, Count more) { return count ? Count(*count + more.value_or(0)) : count; };
    return first_of(plus(plus(prompt, cache_created), cache_read), native_prompt, plus(timed_prompt, timed_cached));
  }
};

struct Member {
  Place in;
  std::string_view key;
  Place place;
  Counts::Count Counts::*count = nullptr;
  std::optional<double> EngineFigures::*figure = nullptr;
  double units_a_second = 1;
};

constexpr double milli = 1e3;
constexpr double nano = 1e9;

constexpr Member counts(Place in, std::string_view key, Counts::Count Counts::*count) {
  return {in, key, Place::number, count};
}
constexpr Member times(Place in, std::string_view key, std::optional<double> EngineFigures::*figure, double units) {
  return {in, key, Place::number, nullptr, figure, units};
}

constexpr Member members[] = {
    {Place::root, "error", Place::error},
    {Place::root, "object", Place::object_name},
    {Place::root, "usage", Place::usage},
    // OpenAI chat and completions, Kobold.
    {Place::root, "choices", Place::choices},
    {Place::root, "results", Place::choices},
    {Place::choice, "message", Place::message},
    {Place::choice, "text", Place::text},
    {Place::choice, "finish_reason", Place::finish_reason},
    {Place::message, "content", Place::content},
    {Place::message, "reasoning_content", Place::reasoning_content},
    {Place::message, "reasoning", Place::reasoning},
    {Place::message, "tool_calls", Place::calls},
    {Place::message, "function_call", Place::calls},
    counts(Place::usage, "prompt_tokens", &Counts::prompt),
    counts(Place::usage, "completion_tokens", &Counts::completion),
    {Place::usage, "prompt_tokens_details", Place::prompt_details},
    counts(Place::prompt_details, "cached_tokens", &Counts::cached),
    // OpenAI Responses.
    {Place::root, "output", Place::items},
    {Place::root, "status", Place::status},
    {Place::root, "incomplete_details", Place::incomplete},
    {Place::incomplete, "reason", Place::incomplete_reason},
    {Place::item, "content", Place::content},
    {Place::item, "summary", Place::content},
    {Place::item, "arguments", Place::arguments},
    {Place::item, "input", Place::arguments},
    {Place::part, "text", Place::text},
    {Place::part, "refusal", Place::text},
    counts(Place::usage, "input_tokens", &Counts::prompt),
    counts(Place::usage, "output_tokens", &Counts::completion),
    {Place::usage, "input_tokens_details", Place::prompt_details},
    // Anthropic.
    {Place::root, "content", Place::content},
    {Place::root, "stop_reason", Place::finish_reason},
    {Place::part, "thinking", Place::text},
    {Place::part, "input", Place::calls},
    counts(Place::usage, "cache_creation_input_tokens", &Counts::cache_created),
    counts(Place::usage, "cache_read_input_tokens", &Counts::cache_read),
    // TGI.
    {Place::root, "generated_text", Place::text},
    {Place::root, "details", Place::details},
    {Place::details, "finish_reason", Place::finish_reason},
    counts(Place::details, "generated_tokens", &Counts::native_completion),
    counts(Place::details, "input_length", &Counts::native_prompt),
    // SGLang.
    {Place::root, "text", Place::text},
    {Place::root, "meta_info", Place::meta_info},
    {Place::meta_info, "finish_reason", Place::native_reason},
    {Place::native_reason, "type", Place::native_reason_type},
    counts(Place::meta_info, "prompt_tokens", &Counts::native_prompt),
    counts(Place::meta_info, "completion_tokens", &Counts::native_completion),
    counts(Place::meta_info, "cached_tokens", &Counts::native_cached),
    times(Place::meta_info, "e2e_latency", &EngineFigures::total, 1),
    // llama.cpp: its text is root's content.
    {Place::root, "stop_type", Place::finish_reason},
    counts(Place::root, "tokens_predicted", &Counts::native_completion),
    counts(Place::root, "tokens_evaluated", &Counts::native_prompt),
    {Place::root, "timings", Place::timings},
    counts(Place::timings, "prompt_n", &Counts::timed_prompt),
    counts(Place::timings, "predicted_n", &Counts::timed_completion),
    counts(Place::timings, "cache_n", &Counts::timed_cached),
    counts(Place::timings, "draft_n", &Counts::drafted),
    counts(Place::timings, "draft_n_accepted", &Counts::accepted),
    times(Place::timings, "prompt_ms", &EngineFigures::prefill, milli),
    times(Place::timings, "predicted_ms", &EngineFigures::decode, milli),
    // Ollama.
    {Place::root, "response", Place::text},
    {Place::root, "thinking", Place::text},
    {Place::root, "message", Place::message},
    {Place::message, "thinking", Place::text},
    {Place::root, "done_reason", Place::finish_reason},
    counts(Place::root, "eval_count", &Counts::native_completion),
    counts(Place::root, "prompt_eval_count", &Counts::native_prompt),
    times(Place::root, "prompt_eval_duration", &EngineFigures::prefill, nano),
    times(Place::root, "eval_duration", &EngineFigures::decode, nano),
    times(Place::root, "total_duration", &EngineFigures::total, nano),
    // vLLM's request metrics (see engine_json.hpp).
    {Place::root, "metrics", Place::metrics},
    times(Place::metrics, "queue_time_ms", &EngineFigures::queue, milli),
    times(Place::metrics, "time_to_first_token_ms", &EngineFigures::prefill, milli),
    times(Place::metrics, "generation_time_ms", &EngineFigures::decode, milli),
    {Place::metrics, "speculative_decoding", Place::drafts},
    counts(Place::drafts, "num_draft_tokens", &Counts::drafted),
    counts(Place::drafts, "num_accepted_draft_tokens", &Counts::accepted),
};

/// The place of an array's elements; ignored for an array that is not looked into.
Place element_of(Place array) {
  switch (array) {
    case Place::choices:
      return Place::choice;
    case Place::items:
      return Place::item;
    case Place::content:
      return Place::part;
    case Place::root:
    case Place::calls:
      return array;
    default:
      return Place::ignored;
  }
}

class Reader : public Sax<Reader> {
 public:
  bool error() const { return facts_.error; }
  JsonAnswerFacts facts() const {
    Reader all = *this;
    if (all.in_document_) all.end_document();
    if (all.is_response_ && all.facts_.finish_reason.empty())
      all.facts_.finish_reason = all.incomplete_reason_.empty() ? all.status_ : all.incomplete_reason_;
    return all.facts_;
  }

  void object_begin() {
    const Place place = value_place();
    if (place == Place::error) facts_.error = true;
    if (place == Place::root) begin_document();
    if (place == Place::choice || place == Place::root) has_output_ = false;
    if (place == Place::calls) output();
    open_.push_back({place == Place::calls ? Place::ignored : place, false});
    member_ = nullptr;
  }
  void object_end(std::size_t) {
    const Place place = open_.back().place;
    open_.pop_back();
    if (place == Place::message) end_reasoning();
    if (place == Place::root) end_document();
  }
  void array_begin() { open_.push_back({element_of(value_place()), true}); }
  void array_end(std::size_t) { open_.pop_back(); }
  void key(std::string_view name) {
    const Place in = open_.back().place;
    const auto named = [&](const Member& member) { return member.in == in && member.key == name; };
    const auto* const found =
        in == Place::ignored ? std::end(members) : std::find_if(members, std::end(members), named);
    member_ = found == std::end(members) ? nullptr : found;
  }

  void string(std::string_view piece, bool last) {
    const Place place = value_place();
    switch (place) {
      case Place::text:
      case Place::content:
        facts_.output_chars += text(piece);
        break;
      case Place::reasoning:
        reasoning_ += text(piece);
        break;
      case Place::reasoning_content:
        reasoning_content_ += text(piece);
        break;
      case Place::arguments:
        output();
        break;
      case Place::error:
        facts_.error = true;
        break;
      case Place::object_name:
      case Place::finish_reason:
      case Place::native_reason_type:
      case Place::status:
      case Place::incomplete_reason:
        word_.append(piece.substr(0, longest_word - std::min(longest_word, word_.size())));
        if (last) end_word(place);
        break;
      default:
        break;
    }
  }
  void number(double value, std::size_t) {
    if (value_place() != Place::number) return;
    if (member_->figure != nullptr) figures_.*member_->figure = believed_seconds(value, member_->units_a_second);
    if (member_->count == nullptr) return;
    const auto count = as_count(value);
    counts_.*member_->count = count && *count <= most_tokens ? count : std::nullopt;
  }

 private:
  static constexpr std::size_t longest_word = 32;

  struct Container {
    Place place;  // An array's: that of its elements.
    bool array;
  };

  /// The place of the value that comes now: a member's by its key, an element's by its array.
  Place value_place() const {
    if (open_.empty()) return Place::root;
    if (open_.back().array) return open_.back().place;
    return member_ == nullptr ? Place::ignored : member_->place;
  }
  std::uint64_t text(std::string_view piece) {
    if (!piece.empty()) output();
    return code_points_begun(piece);
  }
  void output() {
    if (!has_output_) ++facts_.choices_with_output;
    has_output_ = true;
  }
  void end_reasoning() {
    facts_.output_chars += std::max(reasoning_, reasoning_content_);
    reasoning_ = reasoning_content_ = 0;
  }
  void end_word(Place place) {
    if (place == Place::object_name) {
      facts_.error |= word_ == "error";
      is_response_ |= word_ == "response";
    } else if (place == Place::status) {
      status_ = word_;
    } else if (place == Place::incomplete_reason) {
      incomplete_reason_ = word_;
    } else {
      facts_.error |= place == Place::native_reason_type && word_ == "abort";
      if (facts_.finish_reason.empty()) facts_.finish_reason = word_;
    }
    facts_.error |= is_response_ && status_ == "failed";
    word_.clear();
  }

  void begin_document() {
    in_document_ = true;
    counts_ = {};
    figures_ = {};
  }
  void end_document() {
    in_document_ = false;
    if (figures_.queue && figures_.prefill) figures_.ttft = *figures_.queue + *figures_.prefill;
    figures_.draft_tokens = counts_.drafted;
    figures_.draft_accepted_tokens = counts_.accepted;
    if (++documents_ == 1) {
      facts_.prompt_tokens = counts_.all_prompt();
      facts_.cached_tokens = counts_.all_cached();
      facts_.completion_tokens = counts_.all_completion();
      facts_.engine = figures_;
      return;
    }
    // Several samples of a prompt each tell of it; whether these are such, only equal numbers say.
    if (facts_.prompt_tokens != counts_.all_prompt()) facts_.prompt_tokens.reset();
    if (facts_.cached_tokens != counts_.all_cached()) facts_.cached_tokens.reset();
    const auto more = counts_.all_completion();
    if (facts_.completion_tokens && more) {
      *facts_.completion_tokens += *more;
    } else {
      facts_.completion_tokens.reset();
    }
    facts_.engine = {};
  }

  JsonAnswerFacts facts_;
  Counts counts_;          // Of the document that is open,
  EngineFigures figures_;  // and what the engine says in it of itself.
  std::vector<Container> open_;
  const Member* member_ = nullptr;  // Of the key read last.
  std::string word_, status_, incomplete_reason_;
  std::uint64_t reasoning_ = 0, reasoning_content_ = 0;
  std::uint32_t documents_ = 0;
  bool in_document_ = false;
  bool is_response_ = false;
  bool has_output_ = false;  // The choice that is open has some.
};

}  // namespace

struct JsonAnswer::State {
  JsonFeed<Reader> json;
};

JsonAnswer::JsonAnswer() : state_(std::make_unique<State>()) {}
JsonAnswer::~JsonAnswer() = default;

void JsonAnswer::feed(std::string_view piece) { state_->json.feed(piece); }
bool JsonAnswer::whole() const { return state_->json.whole(); }
bool JsonAnswer::broken() const { return state_->json.broken(); }
bool JsonAnswer::error() const { return state_->json.reader().error(); }
JsonAnswerFacts JsonAnswer::facts() const { return state_->json.reader().facts(); }

}  // namespace weir::metrics::wire
