#include "proxy/events/events.hpp"

#include <algorithm>

namespace weir::proxy::events {
namespace {

/// Cuts a text between two characters of UTF-8.
void cut(std::string& text, std::size_t longest) {
  constexpr std::string_view dots = "...";
  if (text.size() <= longest) return;
  auto end = longest - dots.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text += dots;
}

}  // namespace

void Ring::add(Event event) {
  cut(event.text, longest_text);
  const std::lock_guard lock(mutex_);
  event.seq = ++last_;
  events_.push_back(std::move(event));
  if (events_.size() > most) events_.pop_front();
}

Ring::Since Ring::since(std::uint64_t seq, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  Since since;
  if (events_.empty()) return since;
  since.first = events_.front().seq;
  since.last = last_;
  if (seq > last_) seq = 0;
  since.missed = seq + 1 < since.first ? since.first - seq - 1 : 0;
  const auto after = std::max(seq, since.first - 1);
  const auto wanted = std::min<std::uint64_t>(last_ - after, limit);
  since.events.assign(events_.end() - static_cast<std::ptrdiff_t>(wanted), events_.end());
  return since;
}

Ring& ring() {
  static Ring the_ring;
  return the_ring;
}

void tell_text(What what, std::string_view who, Level level, std::string text) {
  spdlog::log(level, "{}", text);
  ring().add({0, std::chrono::system_clock::now(), level, what, std::string(who), std::move(text)});
}

}  // namespace weir::proxy::events
