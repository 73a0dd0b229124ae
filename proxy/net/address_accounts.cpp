#include "proxy/net/address_accounts.hpp"

namespace weir::proxy::net {

std::optional<AddressCounts::CountGuard> AddressCounts::take(const PeerAddress& address, std::size_t most) {
  if (address == PeerAddress{}) return CountGuard{};
  const auto client = client_part(address);
  const std::lock_guard lock(mutex_);
  auto& count = counts_[client];
  if (most != 0 && count >= most) return std::nullopt;
  ++count;
  return CountGuard{*this, client};
}

std::size_t AddressCounts::size() const {
  const std::lock_guard lock(mutex_);
  return counts_.size();
}

void AddressCounts::leave(const PeerAddress& client) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(client);
  if (--found->second == 0) counts_.erase(found);
}

}  // namespace weir::proxy::net
