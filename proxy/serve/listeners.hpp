// The sockets on which weir accepts follow the settings. New ones are opened before old ones are closed, so that a
// change is made whole or not at all.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "proxy/serve/listener.hpp"
#include "proxy/serve/systemd.hpp"

namespace weir::proxy::serve {

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

}  // namespace weir::proxy::serve
