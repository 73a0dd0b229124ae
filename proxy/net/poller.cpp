#include "proxy/net/poller.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <utility>

#include "metrics/prefetch.hpp"

namespace weir::proxy::net {
namespace {

int make_set() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw boost::system::system_error({errno, boost::system::system_category()}, "epoll_create1");
  return fd;
}

}  // namespace

Poller::Poller() : set_(make_set()) {}

void Poller::start(boost::asio::io_context& context) {
  // Asio closes what it is given: it gets a second descriptor of the same set.
  waiter_.emplace(context.get_executor(), ::fcntl(set_.get(), F_DUPFD_CLOEXEC, 0));
  wait();
}

void Poller::wait() {
  waiter_->async_wait(boost::asio::posix::descriptor_base::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    drain();
    wait();
  });
}

const Poller::Slot* Poller::live(const epoll_event& event) const {
  const auto& slot = slots_[static_cast<std::uint32_t>(event.data.u64)];
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
  return slot.watcher != nullptr && slot.generation == generation ? &slot : nullptr;
}

void Poller::drain() {
  std::array<epoll_event, 64> events;
  // A full batch goes back to Asio in between, so that timers and posts wait for half a millisecond of tokens at most;
  // the wait reports the rest.
  const int count = ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto at = [&](int n) -> const epoll_event& { return events[static_cast<std::size_t>(n)]; };
    if (const int next = i + Watcher::farthest_ahead + 1; next < count)
      if (const auto* const slot = live(at(next))) metrics::prefetch(slot->watcher, 4 * metrics::cache_line);
    for (int ahead = std::min(Watcher::farthest_ahead, count - 1 - i); ahead > 0; --ahead)
      if (const auto* const slot = live(at(i + ahead))) slot->watcher->approach(slot->tag, ahead);
    if (const auto* const slot = live(at(i))) slot->watcher->ready(slot->tag, at(i).events);
  }
}

void Poller::control(int operation, int fd, std::uint32_t events, std::uint32_t slot) {
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.u64 = (std::uint64_t{slots_[slot].generation} << 32) | slot;
  ::epoll_ctl(set_.get(), operation, fd, &event);
}

Poller::Watch::Watch(Poller& poller, int fd, std::uint32_t events, Watcher& watcher, std::uint32_t tag)
    : poller_(&poller), fd_(fd) {
  if (poller.free_.empty()) {
    slot_ = static_cast<std::uint32_t>(poller.slots_.size());
    poller.slots_.emplace_back();
  } else {
    slot_ = poller.free_.back();
    poller.free_.pop_back();
  }
  auto& slot = poller.slots_[slot_];
  slot.watcher = &watcher;
  slot.tag = tag;
  poller.control(EPOLL_CTL_ADD, fd, events, slot_);
}

Poller::Watch::Watch(Watch&& other) noexcept
    : poller_(std::exchange(other.poller_, nullptr)), fd_(other.fd_), slot_(other.slot_) {}

Poller::Watch& Poller::Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    poller_ = std::exchange(other.poller_, nullptr);
    fd_ = other.fd_;
    slot_ = other.slot_;
  }
  return *this;
}

void Poller::Watch::reset() {
  if (poller_ == nullptr) return;
  auto& poller = *std::exchange(poller_, nullptr);
  poller.control(EPOLL_CTL_DEL, fd_, 0, slot_);
  auto& slot = poller.slots_[slot_];
  slot.watcher = nullptr;
  ++slot.generation;
  poller.free_.push_back(slot_);
}

void Poller::Watch::rearm(std::uint32_t events) { poller_->control(EPOLL_CTL_MOD, fd_, events, slot_); }

}  // namespace weir::proxy::net
