#include "metrics/wire/stream/sse.hpp"

#include <algorithm>
#include <cstring>

namespace weir::metrics::wire {

namespace {

constexpr std::size_t padding = 64;
constexpr std::size_t idle_capacity = 512;  // An empty buffer may keep so much while a stream waits.
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

void empty(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > idle_capacity) buffer.shrink_to_fit();
}

/// Returns the value of a `data` field; absent for every other line.
std::optional<std::string_view> data_value(std::string_view line) {
  if (!line.starts_with("data")) return std::nullopt;
  if (line.size() == 4) return line.substr(4);
  if (line[4] != ':') return std::nullopt;
  return line.substr(line.size() > 5 && line[5] == ' ' ? 6 : 5);
}

}  // namespace

void SseFramer::feed(std::span<const char> piece) {
  base_ = position();
  piece_ = scan_ = kept_to_ = piece.data();
  end_ = piece_ + piece.size();
  next_lf_ = next_cr_ = piece_;
  if (carry_spent_) empty(spent_);
  empty(joined_);
  carry_spent_ = swallowed_lf_ = false;
  carried_ = base_ != block_begin_;
  earlier_ = carry_.size();
  if (piece.empty()) {
    next_lf_ = next_cr_ = nullptr;
    return;
  }
  next_lf_ = static_cast<const char*>(std::memchr(piece_, '\n', piece.size()));
  next_cr_ = static_cast<const char*>(std::memchr(piece_, '\r', piece.size()));
  if (!after_cr_) return;
  after_cr_ = false;
  if (*piece_ != '\n') return;
  ++scan_;
  if (carried_) {
    ++line_at_;
  } else {
    ++block_begin_;
    swallowed_lf_ = true;
  }
}

/// Looks again only when the scan has passed what was found, so that a read is walked once for each of the two bytes.
void SseFramer::look_again(const char*& found, char wanted) const {
  if (found == nullptr || found >= scan_) return;
  found = static_cast<const char*>(std::memchr(scan_, wanted, static_cast<std::size_t>(end_ - scan_)));
}

const char* SseFramer::find_line_end() {
  look_again(next_lf_, '\n');
  look_again(next_cr_, '\r');
  if (next_lf_ == nullptr) return next_cr_;
  return next_cr_ == nullptr ? next_lf_ : std::min(next_lf_, next_cr_);
}

/// Reads the usual event, which is whole in this read: a data line and its blank line. Its result equals that of the
/// general way.
bool SseFramer::next_plain(SseEvent& event) {
  constexpr std::string_view field = "data: ";
  if (next_cr_ != nullptr || offset_of(scan_) != block_begin_ || framing_ != Framing::events) return false;
  look_again(next_lf_, '\n');
  if (next_lf_ == nullptr || next_lf_ + 1 == end_ || next_lf_[1] != '\n') return false;
  const std::string_view line(scan_, static_cast<std::size_t>(next_lf_ - scan_));
  if (!line.starts_with(field) || line.size() + 1 > limit_) return false;
  scan_ = next_lf_ + 2;
  event = {.data = line.substr(field.size()),
           .data_begin = block_begin_ + field.size(),
           .begin = block_begin_,
           .end = offset_of(scan_),
           .size = line.size() + 1};
  block_begin_ = event.end;
  return true;
}

bool SseFramer::next(SseEvent& event) {
  if (next_plain(event)) return true;
  while (const char* eol = find_line_end()) {
    const char* after = eol + 1;
    if (*eol == '\r') {
      if (after == end_) {
        after_cr_ = true;
      } else if (*after == '\n') {
        ++after;
      }
    }
    scan_ = after;
    if (end_line(eol, after, event)) return true;
  }
  keep_rest();
  return false;
}

bool SseFramer::end_line(const char* eol, const char* after, SseEvent& event) {
  const std::uint64_t line_end = offset_of(eol) - block_begin_;
  if (carried_ && !skipping_) {
    if (line_end > limit_) {
      skip_block();
    } else {
      carry_.append(kept_to_, after);
      kept_to_ = after;
    }
  }
  bool blank = line_end == line_at_;
  if (!skipping_ && !blank) {
    const char* block = carried_ ? carry_.data() : piece_ + (block_begin_ - base_);
    std::string_view line(block + line_at_, line_end - line_at_);
    std::uint64_t at = line_at_;
    if (block_begin_ + line_at_ == 0 && line.starts_with(byte_order_mark)) {
      line.remove_prefix(byte_order_mark.size());
      at += byte_order_mark.size();
    }
    blank = line.empty();
    if (!blank) read_line(line, at);
  }
  if (framing_ == Framing::lines) {
    line_at_ = line_end;
    blank = true;
  }
  if (blank) return end_block(offset_of(after), event);
  line_at_ = offset_of(after) - block_begin_;
  return false;
}

void SseFramer::read_line(std::string_view line, std::uint64_t at) {
  const auto value = framing_ == Framing::lines ? line : data_value(line);
  if (!value) return;
  if (data_lines_++ > 0) return;  // Joined when the block is whole.
  data_at_ = at + (line.size() - value->size());
  data_size_ = value->size();
}

bool SseFramer::end_block(std::uint64_t end, SseEvent& event) {
  event.begin = block_begin_;
  event.end = end;
  event.size = line_at_;
  event.too_long = line_at_ > limit_;
  event.data = {};
  event.data_begin.reset();
  const bool dispatched = event.too_long || data_lines_ > 0;
  if (dispatched && !event.too_long) {
    const std::size_t size = carried_ ? carry_.size() : 0;
    if (carried_) carry_.append(padding, '\0');
    const char* block = carried_ ? carry_.data() : piece_ + (block_begin_ - base_);
    event.data = data_lines_ == 1 ? std::string_view(block + data_at_, data_size_) : join_data({block, line_at_});
    if (data_lines_ == 1) event.data_begin = block_begin_ + data_at_;
    // The string does not give memory back, so what is cut off here stays readable.
    if (carried_) carry_.resize(size);
  }
  if (carried_ && !skipping_) {
    spent_.swap(carry_);
    carry_.clear();
    carry_spent_ = true;
  }
  block_begin_ = end;
  line_at_ = 0;
  data_lines_ = 0;
  carried_ = skipping_ = false;
  return dispatched;
}

void SseFramer::keep_rest() {
  if (skipping_ || block_begin_ == position()) return;
  if (position() - block_begin_ > limit_) {
    skip_block();
    return;
  }
  const char* from = carried_ ? kept_to_ : piece_ + (block_begin_ - base_);
  carry_.append(from, end_);
  kept_to_ = end_;
  carried_ = true;
}

void SseFramer::skip_block() {
  skipping_ = true;
  if (carried_) {  // If its first bytes were held back, they may have to be let through now.
    spent_.swap(carry_);
    carry_spent_ = true;
  }
  empty(carry_);
}

std::string_view SseFramer::join_data(std::string_view block) {
  joined_.clear();
  bool first = true;
  if (block_begin_ == 0 && block.starts_with(byte_order_mark)) block.remove_prefix(byte_order_mark.size());
  while (!block.empty()) {
    const std::size_t eol = block.find_first_of("\r\n");
    if (const auto value = data_value(block.substr(0, eol))) {
      if (!first) joined_ += '\n';
      joined_ += *value;
      first = false;
    }
    if (eol == std::string_view::npos) break;
    block.remove_prefix(eol + (block.substr(eol, 2) == "\r\n" ? 2 : 1));
  }
  const std::size_t size = joined_.size();
  joined_.append(padding, '\0');
  return std::string_view(joined_).substr(0, size);
}

std::optional<std::string_view> SseFramer::pending() {
  if (skipping_ || carry_.empty()) return std::nullopt;
  std::string_view last_line = std::string_view(carry_).substr(std::min<std::size_t>(line_at_, carry_.size()));
  if (block_begin_ + line_at_ == 0 && last_line.starts_with(byte_order_mark)) last_line.remove_prefix(3);
  if (framing_ == Framing::lines) {
    joined_.assign(last_line).append(padding, '\0');
    return std::string_view(joined_).substr(0, last_line.size());
  }
  if (data_lines_ == 0 && !data_value(last_line)) return std::nullopt;
  return join_data(carry_);
}

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
