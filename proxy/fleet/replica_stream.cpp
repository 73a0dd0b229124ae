#include "proxy/fleet/replica_stream.hpp"

#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "config/quantity.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/connector.hpp"
#include "proxy/net/poller.hpp"
#include "proxy/net/tls/failure.hpp"
#include "proxy/net/tls/handshaking.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

/// The state that the streams of a context share. A service of the context outlives all that the context destroys with
/// its pending handlers, as a poller has to.
class Shared final : public asio::execution_context::service {
 public:
  using key_type = Shared;
  inline static asio::execution_context::id id;

  explicit Shared(asio::io_context& context) : service(context), handshaking(context, {}) { poller.start(context); }

  net::Poller poller;
  net::tls::Handshaking handshaking;

 private:
  void shutdown() override { poller.stop(); }
};

bool is_transient(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

ReplicaStream::ReplicaStream(const asio::io_context::executor_type& executor, net::Destination to,
                             Clock::duration limit, config::ReadClock clock)
    : context_(executor.context()),
      to_(std::move(to)),
      limit_(limit),
      deadline_(Clock::now() + limit),
      timer_(executor),
      clock_(clock) {}

ReplicaStream::~ReplicaStream() {
  if (channel_) channel_->detach();
}

void ReplicaStream::set_limit(Clock::duration limit) {
  limit_ = limit;
  deadline_ = Clock::now() + limit;
}

void ReplicaStream::ready(std::uint32_t, std::uint32_t events) {
  came_ |= events;
  timer_.cancel();
}

/// Returns whether any of the events, or a hang-up, has come by then.
net::Awaitable<bool> ReplicaStream::wait(std::uint32_t events, metrics::Moment until) {
  boost::system::error_code ignored;
  while ((came_ & (events | net::hang_up_events)) == 0) {
    if (Clock::now() >= until) co_return false;
    timer_.expires_at(until);
    co_await timer_.async_wait(asio::redirect_error(net::use_awaitable, ignored));
  }
  came_ &= ~(events | net::hang_up_events);
  co_return true;
}

bool ReplicaStream::is_too_late() { return timed_out_ = Clock::now() >= deadline_; }

net::Awaitable<int> ReplicaStream::connect(std::span<net::Address> others) {
  auto left = static_cast<std::ptrdiff_t>(others.size());
  int error = 0;
  for (auto next = others.begin();; ++next, --left) {
    const auto now = Clock::now();
    const int failed = co_await connect_until(now + (deadline_ - now) / (left + 1));
    if (failed == 0) co_return 0;
    error = others.empty() ? failed : net::error_of_several(error, failed, to_.address);
    if (next == others.end()) co_return error;
    std::swap(to_.address, *next);
  }
}

net::Awaitable<int> ReplicaStream::connect_until(metrics::Moment until) {
  auto& shared = asio::use_service<Shared>(context_);
  if (channel_) channel_->detach();
  came_ = 0;
  channel_ = net::SocketConnector({shared.poller, clock_, shared.handshaking}).connect(to_);
  if (!channel_) co_return errno;
  channel_->attach(*this, 0);
  if (co_await wait(EPOLLOUT, until)) co_return channel_->connect_error();
  timed_out_ = Clock::now() >= deadline_;
  co_return ETIMEDOUT;
}

net::Awaitable<bool> ReplicaStream::write(std::string_view bytes) {
  for (std::size_t written = 0; written < bytes.size();) {
    const auto now = Clock::now();
    const auto size = channel_->write({&bytes, 1}, written);
    if (size > 0) {
      if (written == 0) sent_ = now;
      written += static_cast<std::size_t>(size);
    } else if (size < 0 && !is_transient(errno)) {
      error_ = errno;
      co_return false;
    } else if (!co_await wait(EPOLLOUT, deadline_)) {
      timed_out_ = true;
      co_return false;
    }
  }
  co_return true;
}

net::Awaitable<net::Channel::Read> ReplicaStream::read(std::span<char> into) {
  for (; !is_too_late(); has_read_ = true) {
    if (has_read_) {
      // More of a long answer may be there. Others have their turn first.
      if (channel_->may_read()) channel_->rearm(EPOLLIN);
      if (!co_await wait(EPOLLIN, deadline_)) continue;
    }
    const auto got = channel_->read(into);
    error_ = got.size < 0 ? errno : 0;
    if (is_transient(error_)) continue;
    has_read_ = true;
    co_return got;
  }
  co_return net::Channel::Read{-1};
}

std::string ReplicaStream::error_text() const { return std::generic_category().message(error_); }

std::string ReplicaStream::failure() const {
  if (const int refused = refusal()) return net::tls::failure_text(refused);
  if (!timed_out_) return "its connection broke off: " + error_text();
  return "it did not come within " + config::format_number(std::chrono::duration<double>(limit_).count()) + " s";
}

}  // namespace weir::proxy::fleet
