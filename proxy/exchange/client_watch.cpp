#include "proxy/exchange/client_watch.hpp"

#include <array>

namespace weir::proxy::exchange {

ClientWatch::ClientWatch(net::Channel& channel, std::string& unread)
    : channel_(channel), unread_(unread), gone_(channel.hung_up()) {
  channel_.attach(*this, 0);
}

void ClientWatch::ready(std::uint32_t, std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    gone_ = true;
    if (listener_ != nullptr) listener_->client_gone();
    return;
  }
  if ((events & EPOLLIN) != 0) {
    std::array<char, most_unread> bytes;
    while (unread_.size() < most_unread) {
      const auto read = channel_.read(std::span(bytes).first(most_unread - unread_.size()));
      if (read.size <= 0) break;  // A FIN or a reset shows as a hang-up.
      unread_.append(bytes.data(), static_cast<std::size_t>(read.size));
    }
  }
  if ((events & EPOLLOUT) != 0 && listener_ != nullptr) listener_->client_writable();
}

}  // namespace weir::proxy::exchange
