// The TLS handshakes of new clients on one loop. A client whose handshake has ended well becomes a session.
//
// limits.handshakes are under way at a time, and each has limits.handshake_time; a client beyond its time is closed. At
// the limit, the oldest handshake that waits for its client is closed: clients of a flood that say nothing keep nobody
// out. If weir itself is behind with all of them, the new client is closed. So is one whose address has lately taken
// more CPU by its handshakes than limits.handshake_cpu allows. Each that is closed is counted. Only the loop's thread
// uses a Handshakes.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "metrics/series/loop_shard.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/tls/tls_channel.hpp"
#include "proxy/serve/arrivals.hpp"

namespace weir::proxy::serve {

class Handshakes {
 public:
  /// `start` starts the session of a client whose socket the channel has.
  using Start = std::function<void(std::unique_ptr<net::Channel> channel, NewClient client)>;
  Handshakes(exchange::Loop& loop, Start start);
  ~Handshakes();
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;

  /// Begins the handshake of a client that has connected.
  void begin(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
             const config::Settings& settings);
  std::size_t under_way() const { return all_.size(); }

 private:
  class Handshake;
  using All = std::list<std::unique_ptr<Handshake>>;

  bool make_room();
  net::tls::CpuAccount account_of(const net::PeerAddress& address, const config::Settings& settings) const;
  void refuse_for_cpu(const net::PeerAddress& address);
  /// Starts the session, and ends the handshake's object.
  void succeed(All::iterator place);
  void count(metrics::series::Limit limit);

  exchange::Loop& loop_;
  const Start start_;
  All all_;  ///< In the order in which they began.
};

}  // namespace weir::proxy::serve
