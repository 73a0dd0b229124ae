#include "metrics/wire/stream/event_stripper.hpp"

#include <algorithm>

namespace weir::metrics::wire {

void EventStripper::begin(std::string_view piece, const SseFramer& framer) {
  spans_.clear();
  piece_ = piece;
  base_ = framer.position() - piece.size();
  // The LF of a CRLF is treated as the event that its CR ended.
  if (framer.swallowed_lf() && base_ > 0 && cut_to_ == base_) ++sent_to_;
}

void EventStripper::cut(const SseEvent& event, const SseFramer& framer) {
  send(event.begin, framer);
  sent_to_ = cut_to_ = event.end;
}

void EventStripper::cut(std::uint64_t from, std::size_t bytes, const SseFramer& framer) {
  send(from, framer);
  sent_to_ = from + bytes;
}

void EventStripper::finish(const SseFramer& framer) {
  const bool hold = framer.position() - framer.block_begin() <= hold_;
  send(hold ? framer.block_begin() : framer.position(), framer);
}

void EventStripper::send(std::uint64_t to, const SseFramer& framer) {
  if (to <= sent_to_) return;
  if (sent_to_ < base_) {  // It was held back until now.
    const std::string_view earlier = framer.earlier();
    spans_.push_back(earlier.substr(earlier.size() - (base_ - sent_to_), std::min(to, base_) - sent_to_));
  }
  if (to > base_) {
    const std::uint64_t from = std::max(sent_to_, base_);
    spans_.push_back(piece_.substr(from - base_, to - from));
  }
  sent_to_ = to;
}

std::string_view EventStripper::buffered(const SseFramer& framer) const {
  const std::string_view kept = framer.unfinished();
  const std::uint64_t size = framer.position() - std::max(sent_to_, framer.block_begin());
  return size <= kept.size() ? kept.substr(kept.size() - size) : std::string_view();
}

}  // namespace weir::metrics::wire
