// The changes to a request so that the replica reports its token counts. They are byte edits, so that the rest of the
// body goes out as it came. The report is taken out of the answer again: see StreamMeter::Options. What vLLM then has
// on the usage event alone (`system_fingerprint`) is lost, because the client has the chunk that it belongs to by then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::wire {

/// The reports on an OpenAI stream that a replica is asked for beyond its client's wishes.
enum class Ask : std::uint8_t {
  nothing,
  usage,                  ///< Asks for stream_options.include_usage: an event at the end.
  usage_on_every_chunk,   ///< Asks for continuous_usage_stats as well (vLLM, SGLang).
  timings_on_every_chunk  ///< Asks for llama.cpp's timings_per_token. llama.cpp reports the counts at the end by
                          ///< itself.
};

/// Puts `text` in place of `erased` bytes at `at`.
struct RequestEdit {
  std::uint64_t at = 0;
  std::uint64_t erased = 0;
  std::string_view text;  ///< Outlives the edit.
};

/// Returns the size of a body of `bytes` bytes with these edits.
std::uint64_t edited_size(std::uint64_t bytes, std::span<const RequestEdit> edits);
/// Appends the edited body to `spans` in pieces, which are views of `body` and of the edits' texts. The edits stand in
/// the order of their places and do not overlap.
void append_edited(std::string_view body, std::span<const RequestEdit> edits, std::vector<std::string_view>& spans);

class RequestEdits {
 public:
  static constexpr std::size_t most = 2;

  void add(const RequestEdit& edit) { edits_[count_++] = edit; }
  bool empty() const { return count_ == 0; }
  /// Returns the edits in the order of their places; they do not overlap.
  std::span<const RequestEdit> list() const { return {edits_.data(), count_}; }
  std::uint64_t size_of(std::uint64_t bytes) const { return edited_size(bytes, list()); }
  void append(std::string_view body, std::vector<std::string_view>& spans) const { append_edited(body, list(), spans); }

  /// The edits make the answer bring this; `nothing` if there are no edits.
  Ask asked = Ask::nothing;

 private:
  std::array<RequestEdit, most> edits_;
  std::size_t count_ = 0;
};

/// Returns the edits by which a request asks for `ask`; none if the client asks for it itself. `facts` must have been
/// read from `body`. The body is walked again only if the client sent stream_options without asking for usage there.
/// Other members there stay. The request stays as it is where engines may read it differently: duplicate members,
/// names with escapes, values of other types, continuous_usage_stats without include_usage, and bodies of more than 256
/// KiB whose client sent stream_options.
RequestEdits edits_that_ask(Ask ask, const RequestFacts& facts, std::string_view body);

/// A member of a request's outermost object and the JSON that is to be its value.
struct SetMember {
  std::string_view key;
  std::string_view json;
  std::string_view whole;  ///< `"key":json,`: what is put in where the member is missing.
};

/// Returns the edits that give these members their values, in place where they stand; their texts are those of
/// `members`. Nothing if the body is no JSON object, has one of them twice, or names one with escapes: nobody knows how
/// the engine would read it. The body is walked once.
std::optional<std::vector<RequestEdit>> edits_that_set(std::span<const SetMember> members, const RequestFacts& facts,
                                                       std::string_view body);

}  // namespace weir::metrics::wire
