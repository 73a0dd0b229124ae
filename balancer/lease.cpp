#include "balancer/lease.hpp"

#include <algorithm>
#include <utility>

#include "balancer/pool.hpp"

namespace weir::balancer {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  leave();
  pool_ = std::move(other.pool_);
  facts_ = std::move(other.facts_);
  streamed_tokens_ = other.streamed_tokens_;
  ticket_ = other.ticket_;
  replica_ = other.replica_;
  prompt_ = other.prompt_;
  output_left_ = other.output_left_;
  streamed_ = other.streamed_;
  return *this;
}

void Lease::first_token(Moment now) {
  if (pool_) pool_->first_token(*this, now);
}

void Lease::tokens(std::uint32_t n) {
  if (!pool_) return;
  const Tokens expected = std::min<Tokens>(n, output_left_);
  output_left_ -= expected;
  streamed_ += n;
  streamed_tokens_->stream(expected, n);
}

Company Lease::end(const End& end, Moment now) {
  if (!pool_) return {};
  // The lease is empty before its pool, of which it may be the last owner, can go.
  const std::shared_ptr<Pool> pool = std::move(pool_);
  return pool->end(*this, end, now);
}

void Lease::leave() noexcept {
  if (pool_) end(End{}, Moment::min());
}

}  // namespace weir::balancer
