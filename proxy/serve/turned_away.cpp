#include "proxy/serve/turned_away.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <string_view>

namespace weir::proxy::serve {
namespace {

constexpr std::chrono::seconds longest{2};

/// One client that was told, until it closes.
class Leaving : public std::enable_shared_from_this<Leaving> {
 public:
  Leaving(boost::asio::io_context& context, net::UniqueFd client, std::shared_ptr<std::size_t> held)
      : socket_(context, client.release()), timer_(context, longest), held_(std::move(held)) {
    ++*held_;
  }
  ~Leaving() { --*held_; }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  void start() {
    timer_.async_wait([self = shared_from_this()](boost::system::error_code) { self->socket_.cancel(); });
    await();
  }

 private:
  void await() {
    socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (error || !self->drop()) return void(self->timer_.cancel());
                         self->await();
                       });
  }

  /// Reads and drops what is there. Returns false once the client has closed, or has sent too much.
  bool drop() {
    std::array<char, 64 * 1024> bytes;
    const auto size = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    dropped_ += static_cast<std::size_t>(size);
    return size > 0 && dropped_ <= TurnedAway::most_dropped;
  }

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::size_t dropped_ = 0;
  const std::shared_ptr<std::size_t> held_;
};

}  // namespace

void TurnedAway::add(net::UniqueFd client) {
  static constexpr std::string_view full =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
  static_cast<void>(::send(client.get(), full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  if (*held_ >= most) return;
  ::shutdown(client.get(), SHUT_WR);
  std::make_shared<Leaving>(context_, std::move(client), held_)->start();
}

}  // namespace weir::proxy::serve
