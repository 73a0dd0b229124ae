#include "balancer/lease.hpp"

#include <algorithm>
#include <utility>

namespace weir::balancer {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  drop();
  lessor_ = std::move(other.lessor_);
  holding_ = std::move(other.holding_);
  return *this;
}

void Lease::first_token(Moment now) {
  if (lessor_) holding_.output_left += lessor_->first_token(holding_, now);
}

void Lease::tokens(std::uint32_t n) {
  if (!lessor_) return;
  const Tokens expected = std::min<Tokens>(n, holding_.output_left);
  holding_.output_left -= expected;
  holding_.streamed += n;
  holding_.streamed_tokens->show(expected, n);
}

void Lease::lives() {
  if (lessor_) holding_.streamed_tokens->shown.fetch_add(1, std::memory_order_relaxed);
}

void Lease::hold(bool held) {
  if (lessor_ && std::exchange(holding_.held, held) != held) lessor_->hold(holding_, held);
}

Concurrency Lease::end(const End& end, Moment now) {
  if (!lessor_) return {};
  // The lease is empty before its pool can go; the lease may be the pool's last owner.
  const std::shared_ptr<Lessor> lessor = std::move(lessor_);
  return lessor->end(std::move(holding_), end, now);
}

void Lease::drop() noexcept {
  if (lessor_) end(End(EndCause::client_left), Moment::min());
}

}  // namespace weir::balancer
