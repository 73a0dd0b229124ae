// Maps the error of a failed connection to story::ConnectFailure.
#pragma once

#include <cerrno>

#include "balancer/story/end.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {

/// `error` is as for net::connect_error_text().
inline balancer::story::ConnectFailure connect_failure_of(int error) {
  using balancer::story::ConnectFailure;
  if (error == net::name_unknown) return ConnectFailure::no_address;
  if (net::is_local_shortage(error)) return ConnectFailure::local_shortage;
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:  // The socket of a Unix-domain path is gone with its program.
      return ConnectFailure::refused;
    case EAGAIN:  // The backlog of a Unix-domain socket is full: the kernel says so at once, where TCP would wait.
      return ConnectFailure::backlog_full;
    case ETIMEDOUT:
      return ConnectFailure::timed_out;
    default:
      return ConnectFailure::other;
  }
}

}  // namespace weir::proxy::exchange
