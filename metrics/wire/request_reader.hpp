// Walks a request's JSON and gathers what RequestFacts tell: the SAX side of RequestInspector.
//
// Bounded state: a byte pair a level of nesting, sums, and the model's name. Of duplicate members of the outermost
// object the last one counts, so text is summed per member.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/wire/request.hpp"
#include "metrics/wire/sax.hpp"
#include "metrics/wire/script.hpp"

namespace weir::metrics::wire {

class RequestReader : public Sax<RequestReader> {
 public:
  void speak(Api api) { api_ = api; }
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
  void null() {
    if (value_place() == Place::tool_tree) tool_bytes_ += 4;
  }

 private:
  /// What a value means, by the keys that lead to it.
  enum class Place : std::uint8_t {
    ignored,
    root,
    model,
    stream,
    stream_options,
    include_usage,
    max_tokens,
    max_completion_tokens,
    n,
    temperature,
    messages,
    message,
    content,  // A string, or parts.
    part,
    text,
    text_tree,  // Every string below counts as text.
    prompt,     // A string, token ids, or a list of either.
    prompt_of_list,
    token_of_list,
    tools,
    tool_tree,
    system,
    inputs,
    parameters,
    do_sample,
    sglang_input,
  };

  /// Text of one of the outermost members, so that the last of duplicates is the one that counts.
  struct Source {
    ScriptCounter scripts;
    std::uint32_t images = 0;
  };
  enum class From : std::uint8_t { messages, prompt, tools, system };

  struct Member;
  static const Member members[];

  struct Container {
    Place place;
    bool array;
  };

  Place value_place() const;
  void begin_member(Place place);
  void forget(Place place);
  Source& source() { return sources_[static_cast<std::size_t>(from_)]; }

  Api api_ = Api::other;
  std::vector<Container> open_;
  Place member_ = Place::ignored;  // Of the key read last.
  From from_ = From::messages;     // Where the text that comes now belongs.
  bool part_has_text_ = false;

  std::string model_;
  bool stream_ = false;
  bool stream_options_ = false;
  bool usage_requested_ = false;
  bool tools_ = false;
  bool do_sample_ = false;
  bool inputs_ = false;
  bool sglang_input_ = false;
  bool empty_ = false;
  std::optional<std::uint64_t> max_tokens_, max_completion_tokens_, n_;
  std::optional<double> temperature_;
  std::uint64_t prompts_ = 0;
  std::uint64_t prompt_token_ids_ = 0;
  std::uint32_t messages_ = 0;
  std::uint64_t tool_bytes_ = 0;
  std::array<Source, 4> sources_;
};

}  // namespace weir::metrics::wire
