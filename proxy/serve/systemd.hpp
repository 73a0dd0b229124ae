// The protocols between systemd and weir: listening sockets that systemd holds (LISTEN_FDS), and weir's state
// (NOTIFY_SOCKET). sd_listen_fds(3) and sd_notify(3) describe both; without systemd there is nothing of either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {

/// A listening socket that weir got at its start. Others may accept on it too, and it goes on when weir ends.
struct InheritedSocket {
  config::ListenAddress address;
  net::UniqueFd fd;
};

/// Takes the sockets that the environment says this process got. Throws std::runtime_error with a sentence if one of
/// them is none on which connections are accepted.
std::vector<InheritedSocket> take_inherited_sockets();

class ServiceManager {
 public:
  ServiceManager();

  void ready(std::string_view status) const;
  void reloading() const;  ///< ready() follows, whatever came of it.
  void stopping(std::string_view status) const;
  void status(std::string_view status) const;

 private:
  void tell(const std::string& lines) const;

  std::string socket_;
};

}  // namespace weir::proxy::serve
