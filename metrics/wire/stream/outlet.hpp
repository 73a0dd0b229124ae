// Which bytes of an event stream go on to the client when events, or members of an event's JSON, are taken out of it,
// and nothing else changes.
//
// Works in offsets of the stream, beside an SseFramer, which keeps the bytes. What is not yet a whole event is held
// back up to `hold`; a longer block is let through and can no longer be taken out. That is decided by the size of the
// block alone, so any split of a stream sends the same bytes.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::wire {

class Outlet {
 public:
  explicit Outlet(std::size_t hold) : hold_(hold) {}

  /// A read begins, with which the framer has been fed.
  void begin(std::string_view piece, const SseFramer& framer);
  /// Nothing of the event has been sent on, so that it, or part of it, may still be taken out.
  bool may_cut(const SseEvent& event) const { return event.size <= hold_; }
  /// Takes an event out that the framer has just found.
  void cut(const SseEvent& event, const SseFramer& framer);
  /// Takes `bytes` bytes at offset `from` of the stream out, in the event that the framer has just found.
  void cut(std::uint64_t from, std::size_t bytes, const SseFramer& framer);
  /// The framer has found all events of the read.
  void finish(const SseFramer& framer);

  /// What goes on, in order. Valid until the framer's next feed().
  std::span<const std::string_view> spans() const { return spans_; }
  /// Part of an unfinished block has been let through.
  bool inside_event(const SseFramer& framer) const { return sent_to_ > framer.block_begin(); }
  /// What is held back. Valid until the framer's next feed().
  std::string_view held(const SseFramer& framer) const;

 private:
  void send(std::uint64_t to, const SseFramer& framer);

  std::size_t hold_;
  std::string_view piece_;
  std::uint64_t base_ = 0;     // Stream offset of piece_.
  std::uint64_t sent_to_ = 0;  // What lies before it has been sent or taken out.
  std::uint64_t cut_to_ = 0;   // End of the event taken out last.
  boost::container::small_vector<std::string_view, 1> spans_;
};

}  // namespace weir::metrics::wire
