#include "proxy/serve/rejected_clients.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

namespace weir::proxy::serve {
namespace {

constexpr std::chrono::seconds longest{2};

constexpr std::string_view full =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
/// A record with the alert internal_error (RFC 8446, 5.1 and 6.2). Before a handshake it is in the clear.
constexpr std::string_view alert("\x15\x03\x01\x00\x02\x02\x50", 7);

}  // namespace

/// A client that was told, until it closes.
class RejectedClients::Leaving : public std::enable_shared_from_this<Leaving> {
 public:
  Leaving(boost::asio::io_context& context, net::UniqueFd client, std::shared_ptr<Clients> clients)
      : socket_(context, client.release()), timer_(context, longest), clients_(std::move(clients)) {}
  ~Leaving() { leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  void start() {
    place_ = clients_->insert(clients_->end(), weak_from_this());
    timer_.async_wait([self = shared_from_this()](boost::system::error_code) {
      boost::system::error_code closed;
      self->socket_.cancel(closed);
    });
    await();
  }
  /// Makes room for another one. What has come by now is read first, since closing over it would be a reset.
  void end() {
    drop();
    leave();
    timer_.cancel();
    socket_.close();
  }

 private:
  void leave() {
    if (place_ != clients_->end()) clients_->erase(std::exchange(place_, clients_->end()));
  }
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
    return size > 0 && dropped_ <= RejectedClients::most_dropped;
  }

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::size_t dropped_ = 0;
  const std::shared_ptr<Clients> clients_;
  Clients::iterator place_ = clients_->end();
};

void RejectedClients::add(net::UniqueFd client, Speaks speaks) {
  const auto told = speaks == Speaks::tls ? alert : full;
  static_cast<void>(::send(client.get(), told.data(), told.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(client.get(), SHUT_WR);
  if (clients_->size() >= most)
    if (const auto oldest = clients_->front().lock()) oldest->end();
  std::make_shared<Leaving>(context_, std::move(client), clients_)->start();
}

}  // namespace weir::proxy::serve
