// Interprets the addresses of a host's name for the replicas that have it in their url. The rules are pure: answers go
// in, one after the other, and no clock is read. An error, or an answer without an address, is no answer and changes
// nothing.
//
// An answer may hold some of a name's addresses only: nameservers cut long lists, and Consul answers with three that it
// draws. So an address that an answer lacks is no machine that is gone. A member leaves when answers have lacked it for
// some time and it takes no connections either; or at once, where the settings say that answers are complete.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::fleet {

using Address = boost::asio::ip::address;

/// An address that is a replica of its own, NAME-`number`.
struct Member {
  unsigned number = 0;  ///< 1 or more.
  Address address;
  bool operator==(const Member&) const = default;
};

/// By the name of a replica that has `expand`, and the host in its url.
using Discovered = std::map<std::pair<std::string, std::string>, std::vector<Member>>;

/// Returns the addresses in the order in which they are to be tried: families by turns, beginning with the first one's
/// (RFC 8305, 4), and before them the one in use while the answer holds it. An empty answer gives what was in use.
std::vector<Address> addresses_to_use(const std::vector<Address>& in_use, const std::vector<Address>& answer);

/// The members of one name. Each new address gets the lowest number that is free.
class Members {
 public:
  static constexpr std::size_t most = 1024;
  /// A member leaves once answers have lacked it for so many intervals, and it is gone.
  static constexpr int intervals_without = 3;

  /// Facts about the members besides the answers.
  struct Known {
    /// True if nothing runs at this address any more: it takes no connections, or it was drained to the end.
    std::function<bool(const Address&)> is_gone;
    /// Numbers that no new member gets: replicas that leave still have their names.
    std::set<unsigned> taken{};
    bool complete = false;  ///< discovery.complete
  };

  /// Returns true if the set has changed. Of a name with addresses of both families the IPv4 ones count, because the
  /// others are most likely the same machines; and members keep their family while one of them is there: an answer
  /// without an address of theirs is none.
  bool answered(std::vector<Address> answer, const Known& known, metrics::Moment now,
                std::chrono::steady_clock::duration interval);
  /// Returns them in the order of their numbers.
  std::vector<Member> list() const;

 private:
  struct Place {
    Address address;
    std::optional<metrics::Moment> lacked_since{};  ///< The first of the last answers, which all lacked it, came then.
  };
  bool is_v4(const std::vector<Address>& answer, const Known& known) const;

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
