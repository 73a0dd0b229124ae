// Says what the addresses of a host's name mean for the replicas that have it in their url. It is pure: answers go in,
// one after the other, and no clock is read. An error, or an answer without an address, is no answer and changes
// nothing.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.hpp"

namespace weir::proxy::fleet {

using Address = boost::asio::ip::address;

/// An address that is a replica of its own, NAME-`number`.
struct Member {
  unsigned number = 0;  ///< It is 1 or more.
  Address address;
  bool operator==(const Member&) const = default;
};

/// By the name of a replica that has `expand`, and the host in its url.
using Discovered = std::map<std::pair<std::string, std::string>, std::vector<Member>>;

/// Returns the address to use: the one in use while the answer holds it, else the first. Nothing for no answer.
std::optional<Address> address_to_use(const std::optional<Address>& in_use, const std::vector<Address>& answer);

/// The members of one name. Each new address gets the lowest free number, and leaves after two answers without it.
class Members {
 public:
  static constexpr std::size_t most = 1024;
  static constexpr unsigned answers_without = 2;

  /// Returns true if the set has changed. A name with addresses of both families has the IPv4 ones: the others are
  /// most likely the same machines.
  bool answered(std::vector<Address> answer);
  /// Returns them in the order of their numbers.
  std::vector<Member> list() const;

 private:
  struct Place {
    Address address;
    unsigned missed = 0;  ///< So many answers in a row lacked it.
  };
  std::map<unsigned, Place> places_;
};

/// A replica of the settings, or one of the members of such a one.
struct ReplicaPlace {
  config::Replica settings;
  std::string host;  ///< The settings have this host in its url.
};

/// Returns a pool's replicas. One with `expand` is replaced by its members: each has the address in its url, and all
/// else as it is set.
std::vector<ReplicaPlace> expanded(const config::Pool& pool, const Discovered& discovered);

}  // namespace weir::proxy::fleet
