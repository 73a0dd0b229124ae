#include "proxy/net/arrival.hpp"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace weir::proxy::net {
namespace {

std::chrono::nanoseconds nanoseconds(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::chrono::nanoseconds wall_clock() {
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  return nanoseconds(wall);
}

}  // namespace

metrics::Moment monotonic_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, metrics::Moment now) {
  const auto age = wall_now - stamp;
  if (age < std::chrono::nanoseconds::zero() || age > std::chrono::seconds(10)) return now;
  return now - age;
}

metrics::Moment StampedTime::of(std::chrono::nanoseconds stamp, const BothClocks& both) {
  using namespace std::chrono_literals;
  const std::chrono::nanoseconds distance = both.wall - both.now.time_since_epoch();
  // A clock that is slewed gains 0.5 ms a second at most. A stamp that is not believed for nothing does no harm.
  const auto drift = 10ms + std::min<std::chrono::nanoseconds>((both.now - looked_) / 2000, 40ms);
  if (distance_ && std::chrono::abs(distance - *distance_) > drift) set_ = both.now;
  distance_ = distance;
  looked_ = both.now;
  const auto moment = monotonic_of(stamp, both.wall, both.now);
  return moment < set_ ? both.now : moment;
}

void ArrivalClock::enable(int fd) const {
  if (source_ != config::ReadClock::kernel) return;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

Read ArrivalClock::read(int fd, std::span<char> buffer) const {
  if (source_ == config::ReadClock::read) {
    const auto size = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {size, std::chrono::steady_clock::now()};
  }
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto size = ::recvmsg(fd, &message, MSG_DONTWAIT);
  const auto now = std::chrono::steady_clock::now();
  if (size <= 0) return {size, now};
  for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(header), sizeof stamp);
    const auto both = read_both(now, wall_clock, [] { return std::chrono::steady_clock::now(); });
    return {size, stamped_.of(nanoseconds(stamp), both)};
  }
  return {size, now};
}

}  // namespace weir::proxy::net
