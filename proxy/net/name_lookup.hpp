// Looks up the addresses of a host's name as the system does (hosts file, then DNS), or with a nameserver of the
// settings' own.
//
// The system's resolver blocks, for 10 s and more where no server answers. So each look-up has a thread of its own,
// which outlives its owner if it has to.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace weir::proxy::net {

/// The addresses, each once, in the order in which they are to be tried; or why there are none, as a clause.
using FoundAddresses = std::variant<std::vector<boost::asio::ip::address>, std::string>;

class NameLookup {
 public:
  /// Begins. `nameserver` is asked in place of the system's servers; it is an IPv4 address.
  NameLookup(std::string host, std::optional<config::ListenAddress> nameserver);

  /// Returns the result once it is there, and only once; nothing while the look-up is under way. Waits for `at_most`.
  std::optional<FoundAddresses> result(std::chrono::steady_clock::duration at_most = {});

 private:
  std::future<FoundAddresses> found_;
};

}  // namespace weir::proxy::net
