// Clients beyond limits.connections: each is told and closed. What it still sends is read and dropped for a moment,
// because closing at once would reset the answer away from a client that has sent its request.
//
// Plain HTTP is told 503. A client of a listener that speaks TLS gets a fatal alert in the place of a handshake: an
// answer would cost one.
//
// Only the control thread uses it. It holds `most` descriptors at most; beyond that the one held longest is closed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {

class RejectedClients {
 public:
  static constexpr std::size_t most = 32;
  static constexpr std::size_t most_dropped = 16 * 1024 * 1024;

  /// How the listener speaks to its clients.
  enum class Speaks : std::uint8_t { http, tls };

  explicit RejectedClients(boost::asio::io_context& context) : context_(context) {}
  /// Takes a connected socket that does not block.
  void add(net::UniqueFd client, Speaks speaks);
  /// Returns how many are held now.
  std::size_t count() const { return clients_->size(); }

 private:
  class Leaving;
  using Clients = std::list<std::weak_ptr<Leaving>>;

  boost::asio::io_context& context_;
  const std::shared_ptr<Clients> clients_ = std::make_shared<Clients>();  ///< Handlers may outlast this object.
};

}  // namespace weir::proxy::serve
