#include "proxy/net/buffer_budget.hpp"

#include <limits>
#include <utility>

namespace weir::proxy::net {

BufferShare AddressShares::of(const PeerAddress& address) {
  const auto client = client_part(address);
  {
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(client);
    if (found != shares_.end())
      if (auto share = found->second.lock()) return share;
  }
  const auto forget = [this, client](std::atomic<std::size_t>* held) {
    delete held;
    const std::lock_guard again(mutex_);
    // Another request of the address may have made a share anew meanwhile.
    const auto found = shares_.find(client);
    if (found != shares_.end() && found->second.expired()) shares_.erase(found);
  };
  // A share is made and given up outside the lock, which giving it up takes.
  BufferShare share(new std::atomic<std::size_t>(0), forget);
  const std::lock_guard lock(mutex_);
  auto& known = shares_[client];
  if (auto made_meanwhile = known.lock()) return made_meanwhile;
  known = share;
  return share;
}

std::size_t AddressShares::size() const {
  const std::lock_guard lock(mutex_);
  return shares_.size();
}

bool Uploads::make_room(Upload* asker, metrics::Moment now, Of of) {
  Upload* slowest = nullptr;
  auto least = std::numeric_limits<std::uint64_t>::max();
  bool spares_new = false;
  for (auto& one : list_) {
    if (&one == asker || one.reserved() == 0 || (of == Of::heads && !one.is_head())) continue;
    // A body that has just begun has had no time to be fast, and is ended only where no older one holds memory.
    const bool is_new = one.is_new(now);
    if (is_new && spares_new) continue;
    if (!is_new && !std::exchange(spares_new, true)) slowest = nullptr;
    const auto recent = one.recent(now);
    if (slowest != nullptr && (recent > least || (recent == least && one.reserved() <= slowest->reserved()))) continue;
    slowest = &one;
    least = recent;
  }
  if (slowest == nullptr) return false;
  if (asker != nullptr && !asker->is_new(now) && asker->recent(now) < least) return false;
  slowest->give_way();
  return true;
}

}  // namespace weir::proxy::net
