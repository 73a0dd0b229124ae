#include "proxy/net/poller.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "metrics/memory.hpp"

namespace weir::proxy::net {
namespace {

/// After so many events the context has its turn, so that timers and posts wait for at most half a millisecond of
/// tokens.
constexpr std::size_t most_events = 64;

/// Sockets without priority are reported for so long, and at most so many, before tokens have their turn. Each may
/// begin a request, which takes tens of microseconds, or hundreds with a connection to its replica.
constexpr std::chrono::microseconds unprioritized_for{150};
constexpr std::size_t unprioritized_at_once = 16;

/// After so many handlers they have their turn, though more tokens may be there: they are not held up for ever. The
/// context looks at its sockets after every second of these handlers.
constexpr int most_deferred = 16;

int make_set() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw boost::system::system_error({errno, boost::system::system_category()}, "epoll_create1");
  return fd;
}

}  // namespace

Poller::Poller() : set_(make_set()) { batch_.reserve(most_events); }

void Poller::start(boost::asio::io_context& context) {
  // Asio closes the descriptor it is given, so it gets a second one of the same set.
  waiter_.emplace(context.get_executor(), ::fcntl(set_.get(), F_DUPFD_CLOEXEC, 0));
  wait();
}

/// Without a wait the loop would never be told of anything again.
void Poller::wait() {
  waiter_->async_wait(boost::asio::posix::descriptor_base::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    drain();
    wait();
  });
}

Poller::Slot* Poller::live(const epoll_event& event) {
  auto& slot = slots_[static_cast<std::uint32_t>(event.data.u64)];
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
  return slot.generation == generation ? &slot : nullptr;
}

void Poller::drain() noexcept {
  std::array<epoll_event, most_events> events;  // The wait reports the rest.
  const int count = ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()), 0);
  batch_.clear();
  batch_was_full_ = count == static_cast<int>(events.size());
  telling_ = true;
  for (int i = 0; i < count; ++i) sort_in(events[static_cast<std::size_t>(i)]);
  tell_batch();
  if (!turn_posted_ && !unprioritized_.empty()) report_unprioritized();
  run_deferred();
}

void Poller::tell_batch() {
  const int size = static_cast<int>(batch_.size());
  const auto at = [this](int n) -> const epoll_event& { return batch_[static_cast<std::size_t>(n)]; };
  for (int i = 0; i < size; ++i) {
    if (const int next = i + Watcher::farthest_ahead + 1; next < size)
      if (const auto* const slot = live(at(next))) metrics::prefetch(slot->watcher, 4 * metrics::cache_line);
    for (int ahead = std::min(Watcher::farthest_ahead, size - 1 - i); ahead > 0; --ahead)
      if (const auto* const slot = live(at(i + ahead)); slot != nullptr && slot->watcher != nullptr)
        slot->watcher->prefetch(slot->tag, ahead);
    report(at(i));
  }
}

/// Notes an event, and puts it into the queue of its turn.
void Poller::sort_in(const epoll_event& event) {
  auto* const slot = live(event);
  if (slot == nullptr) return;
  slot->noted |= event.events;
  if (slot->watcher == nullptr) return;
  if (slot->rearmed != 0) {
    slot->rearmed |= event.events;
  } else if (slot->prioritized) {
    batch_.push_back(event);
  } else {
    queue(*slot, event);
  }
}

void Poller::queue(Slot& slot, const epoll_event& event) {
  if (slot.queued == 0) unprioritized_.push_back(event);
  slot.queued |= event.events;
}

void Poller::report(const epoll_event& event) {
  auto* const slot = live(event);
  if (slot == nullptr || slot->watcher == nullptr) return;
  try {
    slot->watcher->ready(slot->tag, event.events);
  } catch (...) {
    rethrow_later(std::current_exception());
  }
}

/// The others of the batch still have their turn. The context's thread is thrown it in a handler of its own.
void Poller::rethrow_later(const std::exception_ptr& failure) {
  post([failure] { std::rethrow_exception(failure); });
}

template <class Handler>
void Poller::post(Handler handler) {
  boost::asio::post(waiter_->get_executor(), std::move(handler));
}

bool Poller::defer(Deferred& work) {
  if (telling_) at_batch_end_.push_back(work);
  return telling_;
}

void Poller::run_deferred() {
  telling_ = false;
  while (!at_batch_end_.empty()) {
    Deferred& work = at_batch_end_.front();
    at_batch_end_.pop_front();
    try {
      work.batch_ended();
    } catch (...) {
      rethrow_later(std::current_exception());
    }
  }
}

/// Other handlers run before the next of them, and so do the tokens that have come meanwhile.
void Poller::report_unprioritized() {
  if (batch_was_full_ && deferred_ < most_deferred) {
    ++deferred_;
    return post_unprioritized();
  }
  deferred_ = 0;
  batch_was_full_ = false;
  const auto until = std::chrono::steady_clock::now() + unprioritized_for;
  for (std::size_t i = 0; i < unprioritized_at_once && !unprioritized_.empty(); ++i) {
    if (i % 2 == 1 && std::chrono::steady_clock::now() >= until) break;
    auto event = unprioritized_.front();
    unprioritized_.pop_front();
    if (auto* const slot = live(event)) event.events = std::exchange(slot->queued, 0);
    report(event);
  }
  if (!unprioritized_.empty()) post_unprioritized();
}

void Poller::post_unprioritized() {
  turn_posted_ = true;
  post([this] {
    turn_posted_ = false;
    telling_ = true;
    report_unprioritized();
    run_deferred();
  });
}

/// Gives the first socket that asked for another turn its turn, and the next one after events that have come meanwhile.
void Poller::report_rearmed() {
  auto due = rearmed_.front();
  if (auto* const slot = live(due)) {
    due.events = std::exchange(slot->rearmed, 0);
    slot->noted |= due.events;
    report(due);
  }
  rearmed_.pop_front();
  if (!rearmed_.empty()) post_rearmed();
}

void Poller::post_rearmed() {
  post([this] { report_rearmed(); });
}

std::uint32_t Poller::take_slot(int fd) {
  auto slot = static_cast<std::uint32_t>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = (std::uint64_t{slots_[slot].generation} << 32) | slot;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) != 0) slots_[slot].noted = EPOLLERR;
  return slot;
}

Poller::Registration::Registration(Poller& poller, int fd) : poller_(poller), slot_(poller.take_slot(fd)) {}

Poller::Registration::~Registration() {
  auto& slot = poller_.slots_[slot_];
  slot.watcher = nullptr;
  slot.noted = slot.rearmed = slot.queued = 0;
  ++slot.generation;
  poller_.free_.push_back(slot_);
}

void Poller::Registration::attach(Watcher& watcher, std::uint32_t tag) {
  auto& slot = poller_.slots_[slot_];
  slot.watcher = &watcher;
  slot.tag = tag;
  slot.prioritized = false;
}

void Poller::Registration::prioritize() { poller_.slots_[slot_].prioritized = true; }

void Poller::Registration::detach() { poller_.slots_[slot_].watcher = nullptr; }

void Poller::Registration::rearm(std::uint32_t events) {
  auto& slot = poller_.slots_[slot_];
  if (slot.queued != 0) {
    slot.queued |= events;
    return;
  }
  if (slot.rearmed == 0) {
    epoll_event event{};
    event.data.u64 = (std::uint64_t{slot.generation} << 32) | slot_;
    poller_.queue_rearmed(event);
  }
  slot.rearmed |= events;
}

void Poller::queue_rearmed(const epoll_event& event) {
  rearmed_.push_back(event);
  if (rearmed_.size() == 1 && waiter_) post_rearmed();
}

std::uint32_t Poller::Registration::noted() const { return poller_.slots_[slot_].noted; }

void Poller::Registration::use_up(std::uint32_t events) { poller_.slots_[slot_].noted &= ~events; }

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
