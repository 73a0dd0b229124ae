// Listening sockets that follow the settings, and new connections on their way to a loop.
//
// The sockets on which weir accepts follow the settings. New ones are opened before old ones are closed, so that a
// change is made whole or not at all.
#pragma once

#include <sys/types.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/address.hpp"
#include "proxy/serve/start.hpp"

namespace weir::proxy::serve {

/// The file of a socket on which this process listens. The socket is to be closed before it ends: it then removes the
/// file, unless another process has put its own in its place. Owner and group may connect (mode 0660).
class SocketFile {
 public:
  /// Gives a new socket this path, and listens on it. A socket file that nobody listens on is replaced. Throws
  /// std::runtime_error with why that cannot be, and the way out; `key` is the setting that names the path.
  SocketFile(int socket, const std::string& path, int backlog, const std::string& key);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Opens a listening socket and accepts on it, on the control thread.

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

/// Says for whom a listener is.
enum class Audience : unsigned char { clients, metrics, admin };

class Listeners {
 public:
  using Accepted = std::function<void(Audience audience, net::UniqueFd client)>;

  /// `inherited` serve for the addresses of server.listen.
  Listeners(boost::asio::io_context& context, std::vector<InheritedSocket> inherited, Accepted accepted);
  ~Listeners();

  struct Open {
    Audience audience;
    config::ListenAddress address;
    bool inherited = false;  ///< Others may accept on it too.
    std::shared_ptr<Listener> listener;
    bool started = false;
  };
  using Set = std::vector<Open>;

  /// Returns the listeners that `settings` name: those that are open already, and new ones. Throws std::runtime_error
  /// with a sentence; then nothing has changed. An inherited socket has to be named: whoever holds it keeps it open,
  /// and who connects to it would wait for ever.
  Set prepare(const config::Settings& settings);
  /// Accepts on these from now on, and on no others.
  void commit(Set wanted);

  /// Accepts no more clients on inherited sockets, or on any.
  void close_inherited();
  void close_clients();
  bool accepts_clients() const;

 private:
  void refuse_unnamed(const config::Settings& settings) const;
  Open open(Audience audience, const std::string& key, const config::ListenAddress& address);
  void close_clients_if(const std::function<bool(const Open&)>& wanted);

  boost::asio::io_context& context_;
  const std::vector<InheritedSocket> inherited_;
  const Accepted accepted_;
  Set open_;
};

// New client connections on their way from the control thread to a loop.

/// Counts a client connection for its loop and among all of weir's, wherever the connection is, until this ends.
class ConnectionCount {
 public:
  ConnectionCount() = default;
  explicit ConnectionCount(exchange::Loop& loop) : loop_(&loop) { add(1); }
  ConnectionCount(ConnectionCount&& other) noexcept : loop_(std::exchange(other.loop_, nullptr)) {}
  ConnectionCount& operator=(ConnectionCount&& other) noexcept {
    std::swap(loop_, other.loop_);
    return *this;
  }
  ~ConnectionCount() {
    if (loop_ != nullptr) add(std::size_t(0) - 1);
  }

  /// Returns the connection's loop; null if it has none.
  exchange::Loop* loop() const { return loop_; }

 private:
  void add(std::size_t change) const {
    loop_->connections.fetch_add(change, std::memory_order_relaxed);
    loop_->shared.connections.fetch_add(change, std::memory_order_relaxed);
  }

  exchange::Loop* loop_ = nullptr;
};

/// Places a connection on the loop with the least work. Without a loop, `most` connections are open already. On the
/// control thread.
ConnectionCount place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most);

/// A client's connection, as it was accepted.
struct NewClient {
  net::UniqueFd socket{};
  net::PeerAddress address{};
  net::AddressCounts::CountGuard place{};  ///< Counts among the connections of its address.
  ConnectionCount count{};                 ///< Counts for its loop.
};

/// Starts a session for each connection, a few at a time: when hundreds arrive together, the tokens of those under way
/// have their turn between them.
class Arrivals {
 public:
  /// So many sessions start in one turn of the loop. One takes some ten microseconds.
  static constexpr std::size_t at_once = 8;

  using Start = std::function<void(NewClient client)>;

  /// `start` starts a session, on the loop's thread.
  Arrivals(boost::asio::io_context& loop, Start start) : loop_(loop), start_(std::move(start)) {}

  /// Hands a connection to the loop, on any thread.
  void add(NewClient client);

 private:
  void post_start();
  void start_some();

  boost::asio::io_context& loop_;
  const Start start_;
  std::mutex mutex_;
  std::deque<NewClient> waiting_;
  bool posted_ = false;  ///< A handler that starts some is posted, or about to be, or runs.
};

}  // namespace weir::proxy::serve
