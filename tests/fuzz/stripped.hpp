// A second, plain account of what a stream must be once its usage events are taken out: over
// the whole stream at once, with a copy of every event. The stream fuzzer compares StreamMeter with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/wire/dialects/dialect.hpp"

namespace weir::fuzz {

/// A block of an event stream: its lines without their ends, and its place in the stream.
struct Block {
  std::size_t begin = 0, end = 0;  // `end` is behind its blank line.
  std::size_t size = 0;            // It counts its bytes without the blank line.
  std::string data;
  bool dispatched = false;  // It has a data line.
  bool ended = false;       // It has its blank line.
};

/// The block that begins at `from` (WHATWG HTML, "parsing an event stream").
inline Block block_at(std::string_view stream, std::size_t from) {
  Block block;
  block.begin = from;
  std::size_t at = from;
  while (at < stream.size()) {
    const std::size_t line_begin = at;
    const std::size_t line_end = std::min(stream.find_first_of("\r\n", at), stream.size());
    std::string_view line = stream.substr(at, line_end - at);
    if (at == 0 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    at = line_end + (stream.substr(line_end, 2) == "\r\n" ? 2 : line_end < stream.size() ? 1 : 0);
    if (line.empty() && line_end < stream.size()) {
      block.ended = true;
      block.size = line_begin - from;
      break;
    }
    const bool data = line.starts_with("data") && (line.size() == 4 || line[4] == ':');
    if (!data) continue;
    line.remove_prefix(std::min<std::size_t>(line.size(), 5));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (block.dispatched) block.data += '\n';
    block.data += line;
    block.dispatched = true;
  }
  block.end = at;
  if (!block.ended) block.size = at - from;
  return block;
}

/// Keeps what the blocks of a stream say, one after the other.
class Reading {
 public:
  explicit Reading(metrics::Api api) : api_(api) {}

  /// True if the block brings usage and nothing else: no choices, or only choices that bring nothing and have finished
  /// before.
  bool is_usage_event(const Block& block) {
    if (!block.dispatched || block.size > metrics::measure::StreamMeter::carry_limit) return false;
    if (!block.ended && !metrics::wire::whole_event(block.data)) return false;
    const std::string padded = block.data + std::string(metrics::measure::StreamMeter::padding, '\0');
    metrics::wire::EventFacts facts;
    metrics::wire::read_event(api_, std::string_view(padded).substr(0, block.data.size()), facts);
    const auto had_finished = [this](const auto& one) { return finished_.contains(one.index); };
    const bool over = std::ranges::all_of(facts.choices, had_finished);
    for (const auto& one : facts.choices) {
      if (one.finished && one.index < most_choices) finished_.insert(one.index);
    }
    return facts.usage_only || (facts.bare_usage && over);
  }

 private:
  static constexpr std::uint32_t most_choices = 128;  // The meter keeps no account of more.

  metrics::Api api_;
  std::set<std::uint32_t> finished_;
};

/// Returns the stream as it must go on. `whole`: the stream's framing ended in good order; if not, an unfinished event
/// is not sent on. `usage_events`: these are taken out.
inline std::string stripped(metrics::Api api, std::string_view stream, bool whole, bool usage_events) {
  std::string sent;
  Reading reading(api);
  for (std::size_t at = 0; at < stream.size();) {
    const Block block = block_at(stream, at);
    const bool held = block.size <= metrics::measure::StreamMeter::hold_limit;
    const bool lost = !block.ended && !whole && held;
    const bool cut = reading.is_usage_event(block) && usage_events && held;
    if (!lost && !cut) sent += stream.substr(block.begin, block.end - block.begin);
    at = block.end;
  }
  return sent;
}

/// True if `part` is `whole` with some bytes left out.
inline bool is_subsequence(std::string_view part, std::string_view whole) {
  std::size_t matched = 0;
  for (std::size_t at = 0; at < whole.size() && matched < part.size(); ++at) matched += part[matched] == whole[at];
  return matched == part.size();
}

}  // namespace weir::fuzz
