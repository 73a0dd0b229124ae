#include "proxy/exchange/client_watch.hpp"

#include <algorithm>
#include <array>

namespace weir::proxy::exchange {

ClientWatch::ClientWatch(net::Channel& channel, std::string& unread, config::HalfClose half_close)
    : channel_(channel),
      unread_(unread),
      fin_is_leaving_(half_close == config::HalfClose::abort),
      gone_(fin_is_leaving_ ? channel.hung_up() : channel.broken()) {
  channel_.attach(*this, 0);
}

void ClientWatch::ready(std::uint32_t, std::uint32_t events) {
  try {
    look_at(events);
  } catch (...) {
    leave();
  }
}

void ClientWatch::leave() {
  gone_ = true;
  if (listener_ != nullptr) listener_->client_gone();
}

void ClientWatch::look_at(std::uint32_t events) {
  const std::uint32_t leaving = EPOLLHUP | EPOLLERR | (fin_is_leaving_ ? std::uint32_t{EPOLLRDHUP} : 0);
  if ((events & leaving) != 0) return leave();
  if ((events & EPOLLIN) != 0) {
    std::array<char, most_unread> bytes;
    const auto room = std::span(bytes).first(most_unread - std::min(most_unread, unread_.size()));
    const auto read = room.empty() ? net::Channel::Read{} : channel_.read(room);
    // The events tell of a FIN or a reset. A read that came short was the last one of this turn.
    if (read.size > 0) unread_.append(bytes.data(), static_cast<std::size_t>(read.size));
  }
  if ((events & EPOLLOUT) != 0 && listener_ != nullptr) listener_->client_writable();
}

}  // namespace weir::proxy::exchange
