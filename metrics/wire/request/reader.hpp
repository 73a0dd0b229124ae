// Walks a request's JSON and gathers what RequestFacts hold: it is the part of RequestInspector that sees the body.
//
// A value's meaning is its place (json/parser.hpp), by the members that the route's dialect names. State is bounded:
// two bytes a level of nesting, sums, the model's name, and with a prefix key the anchors of PrefixChain. The last of
// duplicate members of the outermost object counts, so text is summed per member.
//
// TGI and SGLang share a path. The members of both are read, and `fill` decides whose the request is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prefix_chain.hpp"

namespace weir::metrics::wire {

class RequestReader : public Walker<RequestReader, RequestMember> {
 public:
  /// Begins a request. Call it before the body comes.
  void begin(Api api, std::string_view path, const ConversationKey* conversation_key, const UniversalKey* prefix_key);
  /// True if the route streams whatever the body says.
  bool always_streams() const { return route_.streams == Streams::always; }
  void fill(RequestFacts& facts) const;
  /// See RequestInspector::take_prefix. Call it last, and only for a whole document.
  std::shared_ptr<const PromptPrefix> take_prefix(std::uint64_t seed);

 private:
  template <class>
  friend class JsonParser;
  friend class Walker<RequestReader, RequestMember>;
  using From = RequestSource;

  // Hides the name of Walker's.
  void key(std::string_view name) {
    if (depth() == 1) models_named_ += is_model(name) ? 1 : 0;
    Walker::key(name);
  }

  // Walker calls these.
  const RequestMember* find(Place in, std::string_view key);
  void begin_member(Place in, const RequestMember& member);
  Place begin_object(Place place);
  Place begin_array(Place place);
  void end_object(Place place, std::size_t size);
  void end_array(Place place, std::size_t size);

  // The parser calls these.
  [[gnu::always_inline]] void key_text(std::string_view piece) {
    const Place in = open_place();
    if (is_tree(in)) read_key(in, piece);
  }
  /// Text of which only the scripts count is counted as it is written.
  const char* skim(const char* at, const char* end) {
    return prefix_ || opening_.takes_text() || !is_text(value_place()) ? at : source().scripts.add_written(at, end);
  }
  void string(std::string_view piece, bool last);
  void number_text(std::string_view text) { number_text_ = text; }
  void number(double value, std::size_t bytes);
  void boolean(bool value);
  void null();

  /// The content of an outermost member, kept apart so that the last of duplicates counts.
  struct Source {
    ScriptCounter scripts;
    std::uint32_t images = 0;
    std::uint32_t messages = 0;
    std::uint64_t elements = 0;  // Counts the elements of a list of prompts.
    std::uint64_t token_ids = 0;
    std::uint32_t user_messages = 0;
    std::optional<std::uint64_t> opening;  // Set once another member has begun.
    bool ids_among_elements = false;       // The list is one prompt, not several.
    bool begun = false;                    // The member is there.

    std::uint64_t prompts() const { return ids_among_elements ? 1 : elements; }
  };

  static bool is_text(Place place);
  void begin_outermost(const RequestMember& member);
  void begin_in_prefix(Place in, const RequestMember& member);
  void read_in_prefix(Place place, std::string_view piece, bool last);
  void end_in_prefix(Place place);
  void number_in_prefix(std::string_view text, double value, std::size_t bytes);
  void read_tool_choice(std::string_view piece, bool last);
  void begin_source(const RequestMember& member);
  void forget(Place place);
  Place ignore_prefix();
  void read(std::string_view text);
  void begin_name(NamedBy by);
  void read_name(std::string_view piece, bool last);
  void read_key(Place in, std::string_view piece);
  Api api_by_members() const;
  void tell_conversation(RequestFacts& facts) const;
  Source& source() { return sources_[static_cast<std::size_t>(from_)]; }
  Sampling& sampling() { return open_place() == Place::sampling_params ? nested_sampling_ : sampling_; }

  Api api_ = Api::other;
  Route route_;
  const RequestMembers* members_ = nullptr;
  From from_ = From::prompt;  // The current text belongs there.
  Opening opening_;           // That of the same member.
  std::string role_;          // The open message's.
  std::string tool_choice_;
  bool part_has_text_ = false;    // A member of the open part is text.
  std::string_view number_text_;  // The text of the number that comes now.
  std::optional<PrefixChain> prefix_;

  std::string model_;
  std::uint32_t models_named_ = 0;  // Counts the members that some reader could take for it.
  std::optional<bool> stream_;
  bool no_prefix_ = false;  // The engine looks at no beginning of the prompt in its cache.
  /// Members of RequestFacts, as far as they have come.
  struct Said {
    bool stream_options = false, usage_requested = false, token_timings = false;
    bool stores = true, stored_context = false, tools = false, empty = false;
    std::uint64_t tool_bytes = 0;
  };
  Said said_;
  NamedBy naming_ = NamedBy::nothing;  // The value that comes now is such a name.
  SipHash name_{name_key};             // What has come of it.
  Names names_{};
  Sampling sampling_, nested_sampling_;  // The second is for `sampling_params`.
  std::array<Source, request_source_count> sources_;
};

}  // namespace weir::metrics::wire
