#include "proxy/net/listen_endpoint.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace weir::proxy::net {

StreamEndpoint listen_endpoint(const config::ListenAddress& address) {
  if (!address.unix_path.empty()) return boost::asio::local::stream_protocol::endpoint(address.unix_path);
  return boost::asio::ip::tcp::endpoint(boost::asio::ip::make_address(address.host), address.port);
}

}  // namespace weir::proxy::net
