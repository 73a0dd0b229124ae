// The TLS handshakes of new clients on one loop. A client whose handshake has ended well becomes a session.
//
// So many are under way at a time (limits.handshakes), and each has so much time (limits.handshake_time). A client
// beyond its time is closed. For one that is too many, the client that connected first is closed, of those that weir
// waits for: clients of a flood that say nothing keep nobody out. If weir itself is behind with all of them, the new
// one is closed. Each that is closed is counted. Only the loop's thread uses it.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "metrics/series/loop_shard.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/peer_address.hpp"
#include "proxy/net/tls/tls_channel.hpp"
#include "proxy/serve/arrivals.hpp"

namespace weir::proxy::serve {

class Handshakes {
 public:
  /// `start` starts a session, and `lost` is called for a client that gets none.
  using Start = std::function<void(std::unique_ptr<net::Channel> client, const net::PeerAddress& address,
                                   net::AddressCounts::CountGuard place)>;
  using Lost = std::function<void()>;
  Handshakes(exchange::Loop& loop, Start start, Lost lost);
  ~Handshakes();
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;

  /// Begins the handshake of a client that has connected.
  void begin(NewClient client, std::shared_ptr<const net::tls::ServerContext> context, const config::Limits& limits);
  std::size_t under_way() const { return all_.size(); }

 private:
  class One;
  void begin_one(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
                 const config::Limits& limits);
  using All = std::list<std::unique_ptr<One>>;

  bool make_room();
  /// Both end the handshake's object.
  void succeed(All::iterator place);
  void give_up(All::iterator place);
  void count(metrics::series::Limit limit);

  exchange::Loop& loop_;
  const Start start_;
  const Lost lost_;
  All all_;  ///< They are in the order in which they began.
};

}  // namespace weir::proxy::serve
