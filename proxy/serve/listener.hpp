// Opens listening sockets and accepts on them, on the control thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "config/settings.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {

/// Accepts on one address until closed. If descriptors run out, it backs off and goes on.
class Listener {
 public:
  using Accepted = std::function<void(net::UniqueFd client, bool ipv6)>;

  /// `key` is the setting that names the address. Throws std::runtime_error with a sentence that names both, the reason
  /// and the way out.
  Listener(boost::asio::io_context& context, const std::string& key, const config::ListenAddress& address,
           Accepted accepted);
  void start() { accept(); }
  void close();

 private:
  void accept();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer backoff_;
  Accepted accepted_;
};

}  // namespace weir::proxy::serve
