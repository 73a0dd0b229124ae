#include "proxy/net/address.hpp"

#include <boost/asio/local/stream_protocol.hpp>

#include "config/address.hpp"

namespace weir::proxy::net {

Address Address::at_path(std::string path) {
  Address address;
  address.path_ = std::move(path);
  return address;
}

StreamEndpoint Address::endpoint() const {
  if (is_path()) return boost::asio::local::stream_protocol::endpoint(path_);
  return endpoint_;
}

std::string Address::to_text() const {
  if (is_path()) return "unix:" + path_;
  return config::to_text(config::ListenAddress{endpoint_.address().to_string(), endpoint_.port()});
}

StreamEndpoint listen_endpoint(const config::ListenAddress& address) {
  if (!address.unix_path.empty()) return Address::at_path(address.unix_path).endpoint();
  return Address(boost::asio::ip::make_address(address.host), address.port).endpoint();
}

}  // namespace weir::proxy::net
