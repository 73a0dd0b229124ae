#include "proxy/fleet/watcher.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "config/address.hpp"
#include "metrics/moment.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds resolver_looks_every{50};
constexpr std::size_t most_at_once = 16;
/// A nameserver that is up again is noticed.
constexpr std::chrono::seconds pause_after_error{5};
/// A connection that fails does not lead to a look-up before.
constexpr std::chrono::seconds least_pause{1};

class Resolver {
 public:
  explicit Resolver(Fleet& fleet) : fleet_(fleet) {}

  void tick() {
    const auto snapshot = fleet_.snapshot();
    if (snapshot != snapshot_) follow(snapshot);
    const auto now = Clock::now();
    notice_failed_connections(now);
    for (auto& [host, name] : names_) {
      if (auto found = name.lookup ? name.lookup->result() : std::nullopt) {
        name.lookup.reset();
        const auto interval = metrics::ticks(snapshot_->settings.discovery.interval);
        const bool failed = std::holds_alternative<std::string>(*found);
        name.next = now + (failed ? std::min<Clock::duration>(interval, pause_after_error) : interval);
        name.earliest = now + least_pause;
        take(host, name, std::move(*found), now);
      }
    }
    std::size_t under_way = 0;
    for (const auto& [host, name] : names_) under_way += name.lookup ? 1 : 0;
    for (auto& [host, name] : names_) {
      if (name.lookup || now < name.next || under_way == most_at_once) continue;
      name.lookup.emplace(host, snapshot_->settings.discovery.nameserver);
      ++under_way;
    }
    if (!changed_) return;
    fleet_.adopt(discovered());
    changed_ = false;  // If that throws, the next tick has it adopted.
  }

 private:
  /// A host's name.
  struct Name {
    std::optional<net::NameLookup> lookup;
    Clock::time_point next = Clock::time_point::min();  ///< The time of the next look-up.
    Clock::time_point earliest = Clock::time_point::min();
    std::string said;                        ///< The error that the log has; "" after a good answer.
    std::map<std::string, Members> members;  ///< The key is the replica with `expand`.
  };

  static bool is_named(const config::Replica& replica) {
    return replica.url.unix_path.empty() && !config::is_numeric(replica.url.host);
  }

  void follow(const std::shared_ptr<const Snapshot>& snapshot) {
    const bool asks_otherwise = snapshot_ && snapshot_->settings.discovery != snapshot->settings.discovery;
    snapshot_ = snapshot;
    std::map<std::string, std::set<std::string>> wanted;  // The replicas with `expand`, by host.
    const auto look_at = [&wanted](const std::vector<config::Replica>& replicas) {
      for (const auto& replica : replicas) {
        if (!is_named(replica)) continue;
        auto& expanding = wanted[replica.url.host];
        if (replica.expand) expanding.insert(replica.name);
      }
    };
    for (const auto& pool : snapshot->settings.pools) look_at(pool.replicas);
    for (const auto& shadow : snapshot->settings.shadows) look_at(shadow.replicas);
    if (asks_otherwise)
      for (auto& [host, name] : names_) name.next = Clock::time_point::min();
    std::erase_if(names_, [&](const auto& one) { return !wanted.contains(one.first); });
    for (const auto& [host, expanding] : wanted) {
      auto& name = names_[host];
      std::erase_if(name.members, [&, &kept = expanding](const auto& one) { return !kept.contains(one.first); });
      for (const auto& replica : expanding) {
        // A replica that is new under a known name waits for no answer.
        if (name.members.try_emplace(replica).second) name.next = Clock::time_point::min();
      }
    }
    for (const auto& pool : snapshot->all_pools)
      for (const auto& replica : pool->replicas)
        if (is_named(replica->settings) && !replica->state->address.get())
          names_[replica->settings.url.host].next = Clock::time_point::min();
  }

  void notice_failed_connections(Clock::time_point now) {
    for (const auto& pool : snapshot_->all_pools) {
      for (const auto& replica : pool->replicas) {
        if (!replica->state->connect_failed.exchange(false, std::memory_order_relaxed)) continue;
        const auto name = names_.find(replica->host_in_settings);
        if (name != names_.end()) name->second.next = std::min(name->second.next, std::max(now, name->second.earliest));
      }
    }
  }

  /// Calls `look(pool, replica)` for each replica of this name that is no member of another.
  template <class Look>
  void for_each_of(const std::string& host, Look look) const {
    for (const auto& pool : snapshot_->all_pools)
      for (const auto& replica : pool->replicas)
        if (is_named(replica->settings) && replica->settings.url.host == host) look(*pool, *replica);
  }

  void take(const std::string& host, Name& name, net::FoundAddresses found, Clock::time_point now) {
    if (const auto* why = std::get_if<std::string>(&found)) return not_found(host, name, *why, now);
    if (!name.said.empty()) events::info(events::What::discovery, host, "'{}' can be looked up again", host);
    name.said.clear();
    const auto& addresses = std::get<std::vector<Address>>(found);
    for (auto& [replica, members] : name.members) {
      const auto before = members.list();
      const auto interval = metrics::ticks(snapshot_->settings.discovery.interval);
      if (!members.answered(addresses, known_of(replica, host, now), now, interval)) continue;
      changed_ = true;
      tell(replica, host, before, members.list());
    }
    for_each_of(host, [&](const PoolRuntime&, const Replica& replica) { use(replica, addresses); });
  }

  /// A replica with an address keeps it: a nameserver that is down takes none away. Without one, nothing can be sent.
  void not_found(const std::string& host, Name& name, const std::string& why, Clock::time_point now) {
    if (name.said != why)
      events::warn(events::What::discovery, host, "cannot look up '{}': {}; replicas keep the addresses that they have",
                   host, why);
    name.said = why;
    for_each_of(host, [&](const PoolRuntime& pool, const Replica& replica) {
      if (!replica.state->address.get())
        pool.balancer->health().unresolved(replica.key, "its name '" + host + "' has no address: " + why, now);
    });
  }

  /// Returns the state of the members of one name in the pools.
  Members::Known known_of(const std::string& replica, const std::string& host, Clock::time_point now) const {
    std::set<Address> gone;
    Members::Known known;
    known.complete = snapshot_->settings.discovery.complete;
    for (const auto& pool : snapshot_->all_pools) {
      for (const auto& one : pool->replicas) {
        if (!is_member(*one, replica, host)) continue;
        const auto state = pool->balancer->health().of(one->key, now).state;
        const bool drained =
            state == metrics::ReplicaState::draining && pool->balancer->figures().in_flight(one->key) == 0;
        const auto address = one->state->address.get();
        if (address && (state == metrics::ReplicaState::down || drained)) gone.insert(address->address());
      }
    }
    known.is_gone = [all = std::move(gone)](const Address& address) { return all.contains(address); };
    for (const auto& one : snapshot_->leaving)
      if (is_member(*one.replica, replica, host)) known.taken.insert(number_of(*one.replica));
    return known;
  }

  /// True for NAME-1, NAME-2 and so on.
  static bool is_member(const Replica& one, const std::string& replica, const std::string& host) {
    return one.host_in_settings == host && !is_named(one.settings) && one.settings.name.starts_with(replica + '-') &&
           number_of(one) != 0;
  }
  /// Returns the number behind the last hyphen of the name; 0 if there is none.
  static unsigned number_of(const Replica& member) {
    const auto& name = member.settings.name;
    unsigned number = 0;
    std::from_chars(name.data() + name.rfind('-') + 1, name.data() + name.size(), number);
    return number;
  }

  static void use(const Replica& replica, const std::vector<Address>& addresses) {
    const auto first = replica.state->address.get();
    const auto port = replica.settings.url.port;
    const auto wanted = addresses_to_use(first ? std::vector{first->address()} : std::vector<Address>(), addresses);
    std::vector<net::Address> others;
    for (std::size_t i = 1; i < wanted.size(); ++i) others.emplace_back(wanted[i], port);
    replica.state->other_addresses = std::move(others);
    if (first && first->address() == wanted.front()) return;
    replica.state->address.set(net::Address(wanted.front(), port));
    if (first)
      events::info(events::What::discovery, replica.settings.name, "replica '{}': '{}' is {} now, it was {}",
                   replica.settings.name, replica.settings.url.host, wanted.front().to_string(),
                   first->address().to_string());
  }

  static std::string name_of(const std::string& replica, const Member& member) {
    return replica + '-' + std::to_string(member.number);
  }

  static void tell(const std::string& replica, const std::string& host, const std::vector<Member>& before,
                   const std::vector<Member>& after) {
    const auto lacks = [](const std::vector<Member>& list, const Member& one) {
      return std::ranges::find(list, one) == list.end();
    };
    for (const auto& one : before)
      if (lacks(after, one))
        events::info(events::What::discovery, name_of(replica, one), "replica '{}' leaves: '{}' is no longer {}",
                     name_of(replica, one), host, one.address.to_string());
    for (const auto& one : after)
      if (lacks(before, one))
        events::info(events::What::discovery, name_of(replica, one), "replica '{}' is new: '{}' is {}",
                     name_of(replica, one), host, one.address.to_string());
  }

  Discovered discovered() const {
    Discovered all;
    for (const auto& [host, name] : names_)
      for (const auto& [replica, members] : name.members) all[{replica, host}] = members.list();
    return all;
  }

  Fleet& fleet_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::string, Name> names_;
  bool changed_ = false;
};

}  // namespace

void start_resolver(asio::io_context& context, Fleet& fleet) {
  const auto resolver = std::make_shared<Resolver>(fleet);
  keep_ticking(context, fleet.internal_errors(), Part::resolver, resolver_looks_every,
               [resolver] { resolver->tick(); });
}

}  // namespace weir::proxy::fleet
