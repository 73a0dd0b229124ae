// Decides which bytes of an event stream go on to the client when events, or members of an event's JSON, are taken out
// of it and nothing else changes.
//
// The stripper works in offsets of the stream, beside an SseFramer, which keeps the bytes. An unfinished event is held
// back up to `hold` bytes. A longer block is let through and can no longer be taken out. The size of the block alone
// decides that, so any split of a stream sends the same bytes.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::wire {

class EventStripper {
 public:
  explicit EventStripper(std::size_t hold) : hold_(hold) {}

  /// Begins a read, with which the framer has been fed.
  void begin(std::string_view piece, const SseFramer& framer);
  /// True if nothing of the event has been sent on, so that it, or part of it, may still be taken out.
  bool may_cut(const SseEvent& event) const { return event.size <= hold_; }
  /// Takes an event out that the framer has just found.
  void cut(const SseEvent& event, const SseFramer& framer);
  /// Takes `bytes` bytes at offset `from` of the stream out. They lie in the event that the framer has just found.
  void cut(std::uint64_t from, std::size_t bytes, const SseFramer& framer);
  /// Ends a read: the framer has found all its events.
  void finish(const SseFramer& framer);

  /// Returns what goes on, in order. It is valid until the framer's next feed().
  std::span<const std::string_view> spans() const { return spans_; }
  /// True if part of an unfinished block has been let through.
  bool inside_event(const SseFramer& framer) const { return sent_to_ > framer.block_begin(); }
  /// Returns what is held back. It is valid until the framer's next feed().
  std::string_view buffered(const SseFramer& framer) const;

 private:
  void send(std::uint64_t to, const SseFramer& framer);

  std::size_t hold_;
  std::string_view piece_;
  std::uint64_t base_ = 0;     // The stream offset of piece_.
  std::uint64_t sent_to_ = 0;  // The bytes before it have been sent or taken out.
  std::uint64_t cut_to_ = 0;   // The event taken out last ended here.
  boost::container::small_vector<std::string_view, 1> spans_;
};

}  // namespace weir::metrics::wire
