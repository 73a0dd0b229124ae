#include "metrics/wire/answer/json_answer.hpp"

#include <algorithm>
#include <vector>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/answer_members.hpp"
#include "metrics/wire/json/feed.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

namespace {

using json_places::Counts;
using json_places::element_of;
using json_places::Member;
using json_places::members;
using json_places::Place;

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
        facts_.error |= !piece.empty();
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
    if (value_place() == Place::ids) return output();
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
      facts_.error |= gave_up(word_);
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
    if (++facts_.documents == 1) {
      facts_.prompt_tokens = counts_.all_prompt();
      facts_.cached_tokens = counts_.all_cached();
      facts_.completion_tokens = counts_.all_completion();
      facts_.of_one_choice = counts_.completion && counts_.timed_completion;
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
bool JsonAnswer::error() const { return !broken() && state_->json.reader().error(); }
// How far a broken document was read depends on where it was cut: it says nothing.
JsonAnswerFacts JsonAnswer::facts() const { return broken() ? JsonAnswerFacts() : state_->json.reader().facts(); }

}  // namespace weir::metrics::wire
