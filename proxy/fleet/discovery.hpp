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
#include <iterator>
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

// Which replicas were told to drain. A drain is a replica's, by its name, and ends with the name. A member of a name
// that has `expand` has its drain by its address: answers may lack it for a while, and its number may be another one
// when it comes back. No other record says that it was taken out on purpose, so its drain is remembered for a day.
//
// The rule is pure: no clock is read. Fleet owns the drains, on the control thread.

class Drains {
 public:
  /// A machine that was away for so long is another one: its address may have been given away.
  static constexpr std::chrono::hours remembered{24};

  /// A replica's name and no address; of a member, the name in the settings and its address.
  using Who = std::pair<std::string, std::string>;
  static Who who(const config::Replica& settings) {
    if (!settings.expand) return {settings.name, ""};
    return {settings.name.substr(0, settings.name.rfind('-')), settings.url.host};
  }

  bool empty() const { return drains_.empty(); }
  bool has(const Who& who) const { return drains_.contains(who); }
  void begin(const Who& who) { drains_.try_emplace(who); }
  void end(const Who& who) { drains_.erase(who); }
  /// Nothing is left there. Returns true the first time.
  bool note_over(const Who& who) {
    const auto drain = drains_.find(who);
    return drain != drains_.end() && !std::exchange(drain->second.is_told, true);
  }
  /// Forgets the drains of those that are gone. `expanding`: the names in the settings that have `expand`.
  void forget(const std::set<Who>& there, const std::set<std::string>& expanding, metrics::Moment now) {
    for (auto one = drains_.begin(); one != drains_.end();) {
      auto& [who, drain] = *one;
      if (there.contains(who)) {
        drain.gone_since.reset();
        ++one;
        continue;
      }
      drain.gone_since = drain.gone_since.value_or(now);
      const bool is_member = !who.second.empty() && expanding.contains(who.first);
      one = is_member && now - *drain.gone_since < remembered ? std::next(one) : drains_.erase(one);
    }
  }

 private:
  struct Drain {
    bool is_told = false;
    std::optional<metrics::Moment> gone_since{};
  };
  std::map<Who, Drain> drains_;
};

}  // namespace weir::proxy::fleet
