#include "proxy/net/channel.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace weir::proxy::net {

bool Deadlines::tick(metrics::Moment now) {
  if (!left_.empty()) return false;
  left_.swap(all_);
  return go_on(now);
}

bool Deadlines::go_on(metrics::Moment now) {
  for (std::size_t handled = 0, looked_at = 0;
       handled < handled_at_once && looked_at < looked_at_at_once && !left_.empty(); ++looked_at) {
    // An object that goes while a deadline is handled, its own or another's, unlinks itself.
    auto& timed = left_.front();
    timed.unlink();
    all_.push_back(timed);
    if (timed.deadline() > now) continue;
    ++handled;
    timed.deadline_passed(now);
  }
  return !left_.empty();
}

SocketChannel::SocketChannel(Poller& poller, const ArrivalClock& clock, UniqueFd socket)
    : clock_(clock), socket_(std::move(socket)), registration_(poller, socket_.get()) {
  clock_.enable(socket_.get());
}

void SocketChannel::watch(Watcher* watcher) {
  watcher != nullptr ? registration_.attach(*watcher, 0) : registration_.detach();
}

Channel::Read SocketChannel::read(std::span<char> into) {
  const auto read = clock_.read(socket_.get(), into);
  const bool empty = read.size < 0 ? errno == EAGAIN : static_cast<std::size_t>(read.size) < into.size();
  if (empty) registration_.use_up(EPOLLIN);
  return {read.size, read.at};
}

ssize_t SocketChannel::write(std::span<const std::string_view> pieces, std::size_t offset) {
  if (pieces.size() == 1) {
    const auto piece = pieces.front().substr(offset, bytes_in_a_row);
    return ::send(socket_.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  std::size_t left = bytes_in_a_row;
  std::array<iovec, 64> vectors;
  std::size_t count = 0;
  for (const auto span : pieces) {
    if (count == vectors.size() || left == 0) break;
    const auto piece = (count == 0 ? span.substr(offset) : span).substr(0, left);
    left -= piece.size();
    vectors[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool SocketChannel::may_read() const { return (registration_.noted() & (EPOLLIN | hang_up_events)) != 0; }

Channel::Ended SocketChannel::ended() const {
  const auto noted = registration_.noted();
  if ((noted & hang_up_events) == 0) return Ended::no;
  return (noted & (EPOLLHUP | EPOLLERR)) != 0 ? Ended::broken : Ended::by_peer;
}

bool SocketChannel::is_quiet() {
  if (!may_read()) return true;
  // The noted events include bytes that a read took along before they were reported.
  char byte = 0;
  if (::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN) return false;
  registration_.use_up(EPOLLIN);
  return ended() == Ended::no;
}

bool SocketChannel::is_ready(short events) const {
  pollfd asked{socket_.get(), events, 0};
  return ::poll(&asked, 1, 0) > 0;
}

bool SocketChannel::connecting_waits_for_loop() const { return is_ready(POLLOUT); }

int SocketChannel::connect_error() {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int SocketChannel::unacknowledged() const {
  int bytes = 0;
  return ::ioctl(socket_.get(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void SocketChannel::break_off_if_vanished() {
  if (has_vanished(socket_.get())) break_off();
}

void SocketChannel::break_off() {
  reset_on_close();
  // A connection to no address resets this one. The socket stays, and epoll reports EPOLLHUP of it.
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  ::connect(socket_.get(), &nowhere, sizeof nowhere);
}

void SocketChannel::end_writing() { ::shutdown(socket_.get(), SHUT_WR); }

void SocketChannel::reset_on_close() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool has_vanished(int socket) {
  tcp_info known{};
  socklen_t size = sizeof known;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &known, &size) == 0 && has_vanished(known);
}

}  // namespace weir::proxy::net
