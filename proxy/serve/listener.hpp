// Opens a listening socket and accepts on it, on the control thread.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "config/settings.hpp"
#include "proxy/net/unique_fd.hpp"
#include "proxy/serve/socket_file.hpp"

namespace weir::proxy::serve {

/// Accepts on one address until closed. If descriptors run out, it backs off and goes on.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Accepted = std::function<void(net::UniqueFd client)>;

  /// `key` is the setting that names the address. Throws std::runtime_error with a sentence that names both, the reason
  /// and the way out.
  Listener(boost::asio::io_context& context, const std::string& key, const config::ListenAddress& address,
           Accepted accepted);
  /// Accepts on a socket that listens already, and that others may hold too. `file` is its file, if weir made one.
  Listener(boost::asio::io_context& context, net::UniqueFd socket, Accepted accepted,
           std::shared_ptr<SocketFile> file = nullptr);
  ~Listener() { close(true); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void start() { accept(); }
  /// Accepts no more. What the kernel has accepted by then is served; with `leave_waiting`, it is left to the others
  /// that hold the socket.
  void close(bool leave_waiting = false);
  /// Returns a second descriptor of the socket.
  net::UniqueFd duplicate();
  /// Returns the socket's file, which lives as long as any listener that has it; null if there is none of weir's.
  const std::shared_ptr<SocketFile>& file() const { return file_; }

 private:
  void accept();
  /// Returns none, and sets errno, if no client waits.
  net::UniqueFd take_one();
  void take_waiting();
  void back_off(const boost::system::error_code& error);
  void warn(const boost::system::error_code& error);

  using Protocol = boost::asio::generic::stream_protocol;
  boost::asio::basic_socket_acceptor<Protocol> acceptor_;
  boost::asio::steady_timer backoff_;
  Accepted accepted_;
  std::shared_ptr<SocketFile> file_;
  std::chrono::steady_clock::time_point warned_{};
};

}  // namespace weir::proxy::serve
