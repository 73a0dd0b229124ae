// Reads a streamed answer with weir's own meter, so that weir and its load call one stream by one name: complete or
// not, with so many tokens, the first of them then. What the meter does not keep, the load adds: each gap, and the
// words of an error. The truth of a simulated replica (lab/sim/session.hpp) checks both.
//
// A single thread uses it, and each answer has one object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/load/workload.hpp"
#include "metrics/measure/stream_meter.hpp"

namespace weir::lab::load {

using metrics::Moment;

/// A streamed answer, as far as it was read.
struct Stream {
  metrics::record::Answer answer;    ///< What weir's meter measured.
  std::optional<Moment> last_token;  ///< The last token event came then.
  std::vector<float> gaps;           ///< The seconds between token events.
  std::string error;                 ///< The words of an error event; "" if there was none.

  /// Returns the engine's count, or else what weir counts while a stream flows.
  std::uint64_t output_tokens() const { return answer.output_tokens.value_or(answer.counted_tokens); }
  /// Returns (last - first) / (n - n1). With the engine's count the last is that of a choice, else of a token event.
  /// A stream of one token has none.
  std::optional<double> tpot() const;
  /// True if an event without a token ended the answer.
  bool closed_empty() const { return last_token && answer.last_choice > last_token; }
};

class StreamReader {
 public:
  /// So many bytes must be readable (not meaningful) behind bytes that are read.
  static constexpr std::size_t padding = metrics::measure::StreamMeter::padding;

  explicit StreamReader(Api api) : api_(api) {}

  /// True if weir would read an answer with this head as an event stream.
  bool reads(unsigned status, std::string_view content_type, bool coded) const;
  /// Takes body bytes, without framing, that were read at `at`. Bytes of one moment are one read.
  void feed(std::string_view bytes, Moment at);
  /// Says that the body ended whole. `framed` is false where the close is its end.
  void end(bool framed, Moment at);
  /// Returns what was read so far.
  Stream stream() const;

 private:
  void find_error(std::string_view bytes);

  Api api_;
  std::unique_ptr<metrics::measure::StreamMeter> meter_;  ///< Null until the first byte.
  Stream stream_;                                         ///< All but the answer.
  std::string unended_;                                   ///< The end of what was read, if an event goes on behind it.
};

}  // namespace weir::lab::load
