// Walks a request's JSON and gathers what RequestFacts tell: the SAX side of RequestInspector.
//
// What a value means is told by where it stands: a table (request_members.cpp) maps (place, key, API) to a place, and
// this walks along it. Bounded state: three bytes a level of nesting, sums, and the model's name. Of duplicate members
// of the outermost object the last one counts, so text is summed per member.
//
// TGI and SGLang share a path: the members of both are read, and `fill` decides whose the request is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/wire/dialects/request_members.hpp"
#include "metrics/wire/json/sax.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/script.hpp"

namespace weir::metrics::wire {

class RequestReader : public Sax<RequestReader> {
 public:
  /// `stream_in_body`: on TGI's "/" the body says whether it streams; on its other routes the path does.
  void speak(Api api, bool stream_in_body) {
    api_ = api;
    stream_in_body_ = stream_in_body;
  }
  void fill(RequestFacts& facts) const;

  void object_begin();
  void object_end(std::size_t n);
  void array_begin();
  void array_end(std::size_t n);
  void key_text(std::string_view piece);
  void key(std::string_view name);
  void string(std::string_view piece, bool last);
  void number(double value, std::size_t bytes);
  void boolean(bool value);
  void null();

 private:
  using Place = RequestPlace;
  using From = RequestSource;

  /// What one of the outermost members brought, so that the last of duplicates is the one that counts.
  struct Source {
    ScriptCounter scripts;
    std::uint32_t images = 0;
    std::uint32_t messages = 0;
    std::uint64_t elements = 0;  // Of a list of prompts.
    std::uint64_t token_ids = 0;
    bool ids_among_elements = false;  // The list is one prompt, not several.
    bool begun = false;               // The member is there.

    std::uint64_t prompts() const { return ids_among_elements ? 1 : elements; }
  };

  /// How the answer should be made. SGLang's stand apart, since TGI's share a request with them until it is over.
  struct Sampling {
    std::optional<std::uint64_t> max_tokens, preferred_max_tokens, n;
    std::optional<double> temperature;
    bool do_sample = false, top_k = false, top_p = false, typical_p = false;

    bool greedy(Api api) const;
  };

  struct Container {
    Place place;
    bool array;
    bool has_text;  // Of a part: what has none is binary.
  };

  Place value_place() const;
  void begin_member(const RequestMember& member);
  void forget(Place place);
  Api spoken() const;
  Source& source() { return sources_[static_cast<std::size_t>(from_)]; }
  const Source& source(From from) const { return sources_[static_cast<std::size_t>(from)]; }
  Sampling& sampling() { return open_.back().place == Place::sampling_params ? sglang_ : sampling_; }

  Api api_ = Api::other;
  bool stream_in_body_ = false;
  std::vector<Container> open_;
  Place member_ = Place::ignored;  // Of the key read last.
  From from_ = From::prompt;       // Where the text that comes now belongs.

  std::string model_;
  std::optional<bool> stream_;
  bool stream_options_ = false;
  bool usage_requested_ = false;
  bool token_timings_ = false;
  bool stored_context_ = false;
  bool tools_ = false;
  bool empty_ = false;
  std::uint64_t tool_bytes_ = 0;
  Sampling sampling_, sglang_;
  std::array<Source, request_source_count> sources_;
};

}  // namespace weir::metrics::wire
