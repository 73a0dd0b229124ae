#include "lab/net/stamped_socket.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <array>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weir::lab::net {
namespace {

std::chrono::nanoseconds duration_of(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Reads both clocks, as nearly at once as this thread gets to it. What else runs may come between two readings.
std::pair<Moment, std::chrono::nanoseconds> both_clocks() {
  constexpr std::chrono::microseconds at_once{5};
  Moment now = std::chrono::steady_clock::now();
  timespec wall{};
  for (int attempt = 0; attempt < 5; ++attempt) {
    ::clock_gettime(CLOCK_REALTIME, &wall);
    const Moment after = std::chrono::steady_clock::now();
    if (after - now <= at_once) break;
    now = after;
  }
  return {now, duration_of(wall)};
}

/// Returns when the kernel received what `message` has brought; `now` where it does not say so.
Moment arrival_in(msghdr& message, Moment now) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(part), sizeof stamp);
    const auto [steady, wall] = both_clocks();
    return arrival_of(duration_of(stamp), wall, steady);
  }
  return now;
}

}  // namespace

Moment arrival_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, Moment now) {
  const auto age = wall_now - stamp;
  const bool believed = age >= std::chrono::nanoseconds(0) && age <= std::chrono::seconds(10);
  return believed ? now - age : now;
}

void stamp_arrivals(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

std::size_t StampedSocket::receive(boost::asio::mutable_buffer room, boost::system::error_code& ec) {
  iovec piece{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(timespec))> control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  const int error = errno;
  const Moment now = std::chrono::steady_clock::now();
  ec = {};
  if (n > 0) {
    arrived_ = arrival_in(message, now);
    return static_cast<std::size_t>(n);
  }
  if (n < 0 && (error == EAGAIN || error == EINTR)) {
    ec = boost::asio::error::would_block;
    return 0;
  }
  arrived_ = now;
  ec = n == 0 ? boost::system::error_code(boost::asio::error::eof)
              : boost::system::error_code(error, boost::system::system_category());
  return 0;
}

}  // namespace weir::lab::net
