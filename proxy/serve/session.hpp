// A session is one client connection: it reads requests one after another and has each answered, in order.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/exchange.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/serve/listeners.hpp"

namespace weir::proxy::serve {

/// Starts a session on the loop's thread; it lives until its connection ends.
void start_session(exchange::Loop& loop, NewClient client);
/// The same for a client whose socket the channel has.
void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> channel, NewClient client);
/// Sets the options of a client's socket, if it is one of TCP: no delay, and how long a vanished client is waited for.
void set_client_options(const NewClient& client);

// Clients beyond limits.connections: each is told and closed. What it still sends is read and dropped for a moment,
// because closing at once would reset the answer away from a client that has sent its request.
//
// Plain HTTP is told 503. A client of a listener that speaks TLS gets a fatal alert in the place of a handshake: an
// answer would cost one.
//
// Only the control thread uses it. It holds `most` descriptors at most; beyond that the one held longest is closed.

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

// Identifies the client of a request by its head: its address behind proxies, and what a browser's page may do.

/// Fills the client's address and the fields for a page from the head and the settings of the request's snapshot.
/// `client` has the peer's address. Returns false if the client's address has as many requests under way through
/// trusted proxies as limits.connections_per_address allows.
bool identify_client(exchange::Shared& shared, const config::Settings& settings, const http::RequestHead& head,
                     exchange::ClientIdentity& client);

}  // namespace weir::proxy::serve
