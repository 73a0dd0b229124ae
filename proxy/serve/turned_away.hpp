// Clients beyond limits.connections: each is told 503 and closed. What it still sends is read and dropped for a moment,
// because closing at once would reset the answer away from a client that has sent its request.
//
// Only the control thread uses it. It holds `most` descriptors at most; beyond that clients are closed at once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {

class TurnedAway {
 public:
  static constexpr std::size_t most = 32;
  static constexpr std::size_t most_dropped = 16 * 1024 * 1024;

  explicit TurnedAway(boost::asio::io_context& context) : context_(context) {}
  /// Takes a connected socket that does not block.
  void add(net::UniqueFd client);
  /// Returns how many are held now.
  std::size_t held() const { return *held_; }

 private:
  boost::asio::io_context& context_;
  const std::shared_ptr<std::size_t> held_ = std::make_shared<std::size_t>(0);  ///< Handlers may outlast this object.
};

}  // namespace weir::proxy::serve
