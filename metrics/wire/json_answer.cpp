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
  output_text,
  calls,  // An object, or an array of them.
  finish_reason,
  usage,
  prompt_details,
  timings,
  details,
  prompt_count,
  completion_count,
  cached_count,
  timed_prompt,
  timed_completion,
  timed_cached,
};

constexpr std::size_t longest_word = 32;

struct Member {
  Place in;
  std::string_view key;
  Place place;
};

constexpr Member members[] = {
    {Place::root, "choices", Place::choices},
    {Place::root, "usage", Place::usage},
    {Place::root, "timings", Place::timings},
    {Place::root, "error", Place::error},
    {Place::root, "object", Place::object_name},
    {Place::root, "generated_text", Place::output_text},
    {Place::root, "details", Place::details},
    {Place::choice, "message", Place::message},
    {Place::choice, "text", Place::output_text},
    {Place::choice, "finish_reason", Place::finish_reason},
    {Place::message, "content", Place::output_text},
    {Place::message, "reasoning_content", Place::output_text},
    {Place::message, "reasoning", Place::output_text},
    {Place::message, "tool_calls", Place::calls},
    {Place::message, "function_call", Place::calls},
    {Place::usage, "prompt_tokens", Place::prompt_count},
    {Place::usage, "completion_tokens", Place::completion_count},
    {Place::usage, "prompt_tokens_details", Place::prompt_details},
    {Place::prompt_details, "cached_tokens", Place::cached_count},
    {Place::timings, "prompt_n", Place::timed_prompt},
    {Place::timings, "predicted_n", Place::timed_completion},
    {Place::timings, "cache_n", Place::timed_cached},
    {Place::details, "finish_reason", Place::finish_reason},
    {Place::details, "generated_tokens", Place::completion_count},
    {Place::details, "input_length", Place::prompt_count},
};

class Reader : public Sax<Reader> {
 public:
  bool error() const { return facts_.error; }
  JsonAnswerFacts facts() const {
    JsonAnswerFacts all = facts_;
    if (!all.completion_tokens) all.completion_tokens = timed_completion_;
    if (!all.cached_tokens) all.cached_tokens = timed_cached_;
    if (!all.prompt_tokens && timed_prompt_) all.prompt_tokens = *timed_prompt_ + timed_cached_.value_or(0);
    return all;
  }

  void object_begin() {
    const Place place = value_place();
    if (place == Place::error) facts_.error = true;
    if (place == Place::choice || place == Place::root) has_output_ = false;
    if (place == Place::calls) output();
    open_.push_back({place == Place::calls ? Place::ignored : place, false});
  }
  void object_end(std::size_t) { open_.pop_back(); }
  void array_begin() {
    const Place place = value_place();
    // TGI's "/" wraps its answer in an array; of all others only a list of choices or calls is looked into.
    const bool read = place == Place::root || place == Place::choices || place == Place::calls;
    open_.push_back({read ? place : Place::ignored, true});
  }
  void array_end(std::size_t) { open_.pop_back(); }
  void key(std::string_view name) {
    member_ = Place::ignored;
    for (const Member& member : members) {
      if (member.in == open_.back().place && member.key == name) member_ = member.place;
    }
  }

  void string(std::string_view piece, bool last) {
    switch (value_place()) {
      case Place::output_text:
        if (!piece.empty()) output();
        facts_.output_chars += code_points_begun(piece);
        break;
      case Place::finish_reason:
        if (!reason_taken_) add(facts_.finish_reason, piece);
        reason_taken_ |= last && !facts_.finish_reason.empty();
        break;
      case Place::object_name:
        add(object_name_, piece);
        if (last && object_name_ == "error") facts_.error = true;
        if (last) object_name_.clear();
        break;
      case Place::error:
        facts_.error = true;
        break;
      default:
        break;
    }
  }
  void number(double value, std::size_t) {
    auto* const count = count_at(value_place());
    if (count == nullptr) return;
    *count = as_count(value);
    if (*count > most_tokens) count->reset();
  }

 private:
  struct Container {
    Place place;
    bool array;
  };

  /// The place of the value that comes now: a member's by its key, an element's by its array.
  Place value_place() const {
    if (open_.empty()) return Place::root;
    if (!open_.back().array) return member_;
    return open_.back().place == Place::choices ? Place::choice : open_.back().place;
  }
  std::optional<std::uint64_t>* count_at(Place place) {
    switch (place) {
      case Place::prompt_count:
        return &facts_.prompt_tokens;
      case Place::completion_count:
        return &facts_.completion_tokens;
      case Place::cached_count:
        return &facts_.cached_tokens;
      case Place::timed_prompt:
        return &timed_prompt_;
      case Place::timed_completion:
        return &timed_completion_;
      case Place::timed_cached:
        return &timed_cached_;
      default:
        return nullptr;
    }
  }
  static void add(std::string& text, std::string_view piece) {
    text.append(piece.substr(0, longest_word - std::min(longest_word, text.size())));
  }
  void output() {
    if (!has_output_) ++facts_.choices_with_output;
    has_output_ = true;
  }

  JsonAnswerFacts facts_;
  std::optional<std::uint64_t> timed_prompt_, timed_completion_, timed_cached_;
  std::vector<Container> open_;
  Place member_ = Place::ignored;  // Of the key read last.
  std::string object_name_;
  bool reason_taken_ = false;
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
