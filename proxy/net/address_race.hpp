// Decides which address of a name is connected to when: Happy Eyeballs (RFC 8305, 5). The first begins at once, the
// next one when the one before has failed, or 250 ms later. The first that connects wins.
//
// The race is pure: its driver tells it what happened and opens the sockets, and no clock is read.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::net {

class AddressRace {
 public:
  static constexpr std::chrono::milliseconds head_start{250};

  explicit AddressRace(std::size_t addresses) : addresses_(addresses) {}

  /// Returns which address is to be tried now; nothing if none is to be. Ask until there is none.
  std::optional<std::size_t> next(metrics::Moment now);
  /// Returns when next() has an address if nothing fails until then; Moment::max() if none is left.
  metrics::Moment due() const { return begun_ < addresses_ ? due_ : metrics::Moment::max(); }
  /// An attempt at this address has failed, with an errno.
  void failed(int error, const Address& at);
  /// True if every attempt has failed.
  bool lost() const { return errors_.size() == addresses_; }
  /// Returns the error of the race: ECONNREFUSED only if each address refused. An address without a route from this
  /// machine does not count where another was tried. For an IPv6 address EADDRNOTAVAIL means that the machine has no
  /// IPv6; for an IPv4 address it means that all local ports are in use.
  int error() const;

 private:
  std::size_t addresses_, begun_ = 0;
  metrics::Moment due_ = metrics::Moment::min();
  std::vector<int> errors_;
};

}  // namespace weir::proxy::net
