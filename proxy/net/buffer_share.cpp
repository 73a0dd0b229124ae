#include "proxy/net/buffer_share.hpp"

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

}  // namespace weir::proxy::net
