// What weir changes in a request so that the replica tells its token counts: a list of byte edits, so that all else of
// the body goes out as it came. What is asked for is taken out of the answer again: see StreamMeter::Options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::wire {

/// What a replica is to tell of an OpenAI stream beyond what its client asked for.
enum class Ask : std::uint8_t {
  nothing,
  usage,                  ///< stream_options.include_usage: an event at the end.
  usage_on_every_chunk,   ///< continuous_usage_stats as well (vLLM, SGLang).
  timings_on_every_chunk  ///< llama.cpp's timings_per_token; it tells the counts at the end by itself.
};

/// Puts `text` in place of `erased` bytes at `at`.
struct RequestEdit {
  std::uint64_t at = 0;
  std::uint64_t erased = 0;
  std::string_view text;  ///< A literal.
};

class RequestEdits {
 public:
  static constexpr std::size_t most = 2;

  void add(const RequestEdit& edit) { edits_[count_++] = edit; }
  bool empty() const { return count_ == 0; }
  /// In the order of their places; they do not overlap.
  std::span<const RequestEdit> list() const { return {edits_.data(), count_}; }
  /// The size of a body of `bytes` bytes once it is edited.
  std::uint64_t size_of(std::uint64_t bytes) const;
  /// The edited body in pieces, appended to `spans`; views of `body` and of literals.
  void append(std::string_view body, std::vector<std::string_view>& spans) const;

  /// What the answer brings because of the edits; `nothing` if there are none.
  Ask asked = Ask::nothing;

 private:
  std::array<RequestEdit, most> edits_;
  std::size_t count_ = 0;
};

/// The edits by which a request asks for `ask`; none where the client asks for it itself. `body` is what `facts` were
/// read from; it is looked through again only if the client sent stream_options and asked for no usage there. All other
/// members there stay. What engines may read differently is left for the replica to answer: duplicate members, names
/// with escapes, values of other types, continuous_usage_stats without include_usage,
/// bodies of more than 256 KiB whose client sent stream_options.
RequestEdits edits_that_ask(Ask ask, const RequestFacts& facts, std::string_view body);

}  // namespace weir::metrics::wire
