#include "balancer/placement.hpp"

#include <algorithm>
#include <utility>

#include "balancer/pool.hpp"

namespace weir::balancer {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  if (owner_) drop();
  owner_ = std::move(other.owner_);
  entry_ = std::move(other.entry_);
  return *this;
}

void Lease::first_token(Moment now) {
  if (!owner_) return;
  entry_.output_left += owner_->first_token(entry_, now);
  if (entry_.prefix) entry_.prefix->prompt.reset();
}

void Lease::tokens(std::uint32_t n) {
  if (!owner_) return;
  const Tokens expected = std::min<Tokens>(n, entry_.output_left);
  entry_.output_left -= expected;
  entry_.streamed += n;
  entry_.streamed_tokens->show(expected, n);
}

void Lease::lives() {
  if (owner_) entry_.streamed_tokens->shown.fetch_add(1, std::memory_order_relaxed);
}

void Lease::stalled() const {
  if (owner_) owner_->stalled(entry_);
}

void Lease::leave_unread(bool unread) {
  entry_.was_unread = entry_.was_unread || unread;
  if (owner_ && std::exchange(entry_.unread, unread) != unread) owner_->leave_unread(entry_, unread);
}

Concurrency Lease::end(const LeaseEnd& end, Moment now) {
  if (!owner_) return {};
  // The lease is empty before its pool can go; the lease may be the pool's last owner.
  const std::shared_ptr<Pool> owner = std::move(owner_);
  return owner->end(std::move(entry_), end, now);
}

void Lease::drop() noexcept { end(LeaseEnd(EndCause::client_left), Moment::min()); }

}  // namespace weir::balancer
