#include "metrics/wire/answer/json_answer.hpp"

#include <algorithm>

#include "metrics/memory.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/members.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/text.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

namespace {

/// Returns the place of an array's elements; `ignored` for an array that is not read.
constexpr AnswerPlace element_of(AnswerPlace array) {
  switch (array) {
    case AnswerPlace::choices:
      return AnswerPlace::choice;
    case AnswerPlace::items:
      return AnswerPlace::item;
    case AnswerPlace::content:
    case AnswerPlace::text:
      return AnswerPlace::part;
    case AnswerPlace::root:
    case AnswerPlace::calls:
    case AnswerPlace::ids:
    case AnswerPlace::sequences:
      return array;
    default:
      return AnswerPlace::ignored;
  }
}

class Reader : public Walker<Reader, AnswerMember> {
 public:
  void listen(ContentListener* listener) { listener_ = listener; }
  bool error() const { return facts_.error; }
  std::uint64_t id() const { return id_; }
  JsonAnswerFacts facts() const {
    JsonAnswerFacts all = facts_;
    if (in_document_) add_document(all, counts_);
    if (reasoned_ && all.reasoning_tokens == 0U) all.reasoning_tokens.reset();  // Nobody counted.
    if (is_response_ && all.finish_reason.empty())
      all.finish_reason = incomplete_reason_.empty() ? status_ : incomplete_reason_;
    return all;
  }

  // Walker calls these.
  const AnswerMember* find(Place in, std::string_view key) const { return members_.find(in, key); }
  void begin_member(Place, const AnswerMember&) {}
  Place begin_object(Place place) {
    if (place == Place::error) facts_.error = true;
    if (place == Place::root) begin_document();
    if (place == Place::choice || place == Place::root) has_output_ = false;
    if (place == Place::calls || place == Place::arguments) output();
    return begin_arguments(place) ? Place::ignored : place;
  }
  void end_object(Place place, std::size_t) {
    end_arguments();
    const bool call = place == Place::calls || place == Place::part || place == Place::item;
    if (call && listener_ != nullptr) listener_->end_call();
    if (place == Place::message) end_reasoning();
    if (place == Place::root) end_document();
  }
  Place begin_array(Place place) {
    begin_arguments(place);
    return element_of(place);
  }
  void end_array(Place, std::size_t) { end_arguments(); }

  // Sax calls these.
  void string(std::string_view piece, bool last) {
    const Place place = value_place();
    switch (place) {
      case Place::text:
      case Place::content:
        facts_.output_chars += text(piece);
        if (listener_ != nullptr) listener_->text(piece);
        break;
      case Place::thinking:
        facts_.output_chars += text(piece);
        if (listener_ != nullptr) listener_->reasoning(piece);
        break;
      case Place::reasoning:
        reasoning_ += text(piece);
        if (listener_ != nullptr && reasoning_content_ == 0) listener_->reasoning(piece);
        break;
      case Place::reasoning_content:
        reasoning_content_ += text(piece);
        if (listener_ != nullptr && reasoning_ == 0) listener_->reasoning(piece);
        break;
      case Place::id:
        id_hash_.add(piece);
        if (!last) break;
        if (id_hash_.bytes() > 0) id_ = name_of_hash(id_hash_.value());
        id_hash_ = SipHash(name_key);
        break;
      case Place::call_name:
        if (listener_ != nullptr) listener_->call_name(piece);
        break;
      case Place::arguments:
        output();
        if (listener_ != nullptr) listener_->call_arguments(piece);
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
  static constexpr bool takes_raw = true;
  static constexpr bool takes_half_pairs = true;  // An engine ends an answer between two tokens, even in an emoji.
  void raw(std::string_view piece) {
    if (raw_ == Raw::none) return;
    listener_->call_arguments(piece);
    if (raw_ == Raw::ended) raw_ = Raw::none;
  }
  void number(double value, std::size_t) {
    if (value_place() == Place::ids) return output();
    if (value_place() != Place::number) return;
    const auto whole = as_count(value);
    const auto count = whole && *whole <= most_tokens ? whole : std::nullopt;
    if (member().count != nullptr) {
      AnswerCounts::Count& known = counts_.*member().count;
      known = member().in == Place::sequences && known ? AnswerCounts::plus(known, count) : count;
    }
    if (member().figure == nullptr) return;
    member().figure->take_count(counts_.engine, count);
    member().figure->take_time(counts_.engine, value);
  }

 private:
  enum class Raw : std::uint8_t { none, inside, ended };

  /// The arguments of a call that are no string are told as they are written. Returns true if these are such.
  bool begin_arguments(Place place) {
    if (place != Place::arguments) return false;
    if (listener_ != nullptr) raw_ = Raw::inside;
    raw_depth_ = depth();
    return true;
  }
  void end_arguments() {
    if (raw_ == Raw::inside && depth() == raw_depth_) raw_ = Raw::ended;
  }

  static constexpr std::size_t longest_word = 32;

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
    reasoned_ |= reasoning_ + reasoning_content_ > 0;
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
  }
  void end_document() {
    in_document_ = false;
    add_document(facts_, counts_);
  }
  static void add_document(JsonAnswerFacts& facts, const AnswerCounts& counts) {
    if (++facts.documents == 1) {
      facts.prompt_tokens = counts.all_prompt();
      facts.cached_tokens = counts.all_cached();
      facts.completion_tokens = counts.all_completion();
      facts.reasoning_tokens = counts.all_reasoning();
      facts.total_tokens = counts.total;
      facts.of_one_choice = counts.completion && counts.engine.predicted;
      EngineReport report = counts.engine;
      report.add_queue_to_prefill();
      facts.engine = report;
      return;
    }
    // Each sample of one prompt reports that prompt. Only equal numbers show that the documents are samples of one
    // prompt.
    if (facts.prompt_tokens != counts.all_prompt()) facts.prompt_tokens.reset();
    if (facts.cached_tokens != counts.all_cached()) facts.cached_tokens.reset();
    facts.completion_tokens = AnswerCounts::sum(facts.completion_tokens, counts.all_completion());
    facts.reasoning_tokens = AnswerCounts::sum(facts.reasoning_tokens, counts.all_reasoning());
    facts.total_tokens.reset();
    facts.engine = {};
  }

  JsonAnswerFacts facts_;
  AnswerCounts counts_;  // The counts of the open document.
  const AnswerMembers& members_ = answer_members();
  std::string word_, status_, incomplete_reason_;
  SipHash id_hash_{name_key};
  std::uint64_t id_ = 0;
  std::uint64_t reasoning_ = 0, reasoning_content_ = 0;
  bool in_document_ = false;
  bool is_response_ = false;
  bool reasoned_ = false;
  bool has_output_ = false;  // The open choice has output.
  ContentListener* listener_ = nullptr;
  Raw raw_ = Raw::none;
  std::size_t raw_depth_ = 0;
};

}  // namespace

void JsonAnswerFacts::keep_prompt_only() {
  if (!prompt_tokens) prompt_tokens = total_tokens;
  completion_tokens.reset();
  reasoning_tokens.reset();
  finish_reason.clear();
  choices_with_output = 0;
  output_chars = 0;
}

struct JsonAnswer::State : Recycled<State> {
  JsonParser<Reader> json;
};

JsonAnswer::JsonAnswer(ContentListener* listener) : state_(std::make_unique_for_overwrite<State>()) {
  state_->json.reader().listen(listener);
}
JsonAnswer::~JsonAnswer() = default;

void JsonAnswer::feed(std::string_view piece) { state_->json.feed(piece); }
bool JsonAnswer::whole() const { return state_->json.whole(); }
bool JsonAnswer::broken() const { return state_->json.broken(); }
std::uint64_t JsonAnswer::id() const { return state_->json.reader().id(); }
bool JsonAnswer::error() const { return !broken() && state_->json.reader().error(); }
// A broken document gives no facts: how far it was read depends on where it was cut.
JsonAnswerFacts JsonAnswer::facts() const { return broken() ? JsonAnswerFacts() : state_->json.reader().facts(); }

}  // namespace weir::metrics::wire
