#include "proxy/exchange/queue_wait.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace weir::proxy::exchange {
namespace {

using Clock = std::chrono::steady_clock;

void deliver(const std::shared_ptr<Waiter>& waiter) {
  boost::asio::post(waiter->loop.context, [waiter] {
    auto what = *std::exchange(waiter->granted, std::nullopt);
    if (const auto wait = waiter->wait.lock()) wait->granted(std::move(what));
  });
}

}  // namespace

QueueWait::QueueWait(Loop& loop, ClientWatch& client, balancer::Pool& pool, const balancer::Waiting& waiting,
                     std::shared_ptr<keys::KeyUse> key_use, EarlyHead* early)
    : loop_(loop),
      client_(client),
      pool_(pool),
      ticket_(waiting.ticket),
      deadline_(waiting.deadline),
      since_(Clock::now()),
      key_use_(std::move(key_use)),
      early_(early) {
  if (key_use_) key_use_->waiting.fetch_add(1, std::memory_order_relaxed);
  loop_.deadlines.attach(*this);
  client_.listen(this);
  if (client_.gone()) client_gone();
}

QueueWait::~QueueWait() {
  if (end_ == End::none) client_gone();
}

void QueueWait::ended(End end) {
  end_ = end;
  if (key_use_) {
    const metrics::Nanoseconds waited = Clock::now() - since_;
    key_use_->waiting.fetch_sub(1, std::memory_order_relaxed);
    key_use_->waits.fetch_add(1, std::memory_order_relaxed);
    key_use_->waited_nanoseconds.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
  }
  client_.listen(nullptr);
  unlink();
  if (completion_) completion_.tell();
}

void QueueWait::granted(std::variant<balancer::Lease, balancer::Refused> what) {
  if (end_ != End::none) return;
  if (auto* lease = std::get_if<balancer::Lease>(&what)) {
    lease_ = std::move(*lease);
    return ended(End::admitted);
  }
  refused_ = std::get<balancer::Refused>(what);
  ended(End::refused);
}

metrics::Moment QueueWait::deadline() const {
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return metrics::Moment::min();
  return early_ != nullptr ? std::min(deadline_, early_->due()) : deadline_;
}

/// A client takes all of these few bytes or nothing, unless it has long stopped to read.
void QueueWait::show_life(metrics::Moment now) {
  const std::string_view bytes = early_->bytes();
  const auto sent = client_.channel().write({&bytes, 1}, 0);
  if (sent == static_cast<ssize_t>(bytes.size())) return early_->written(now);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return early_->put_off(now);
  client_gone();
}

void QueueWait::deadline_passed(metrics::Moment now) {
  if (early_ != nullptr && now < deadline_ && !loop_.shared.cutting.load(std::memory_order_relaxed))
    return show_life(now);
  const auto refused = pool_.leave(ticket_, now);
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return ended(End::cut);
  if (!refused) {
    deadline_ = metrics::Moment::max();  // The grant is on its way.
    return;
  }
  refused_ = *refused;
  ended(End::refused);
}

void QueueWait::client_gone() {
  static_cast<void>(pool_.leave(ticket_, Clock::now()));
  ended(End::client_left);
}

void GrantPoster::grant(std::vector<balancer::Granted> granted) noexcept {
  if (closed_.load(std::memory_order_acquire)) return;
  for (auto& [waiting, what] : granted) {
    const auto waiter = std::static_pointer_cast<Waiter>(std::move(waiting));
    waiter->granted = std::move(what);
    deliver(waiter);
  }
}

}  // namespace weir::proxy::exchange
