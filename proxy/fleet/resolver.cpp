#include "proxy/fleet/resolver.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "config/address.hpp"
#include "metrics/ticks.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/keep_looking.hpp"
#include "proxy/net/awaitable.hpp"
#include "proxy/net/name_lookup.hpp"

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

  void look() {
    const auto world = fleet_.world();
    if (world != world_) follow(world);
    const auto now = Clock::now();
    notice_failed_connections(now);
    for (auto& [host, name] : names_) {
      if (auto found = name.lookup ? name.lookup->result() : std::nullopt) {
        name.lookup.reset();
        const auto interval = metrics::ticks(world_->settings.discovery.interval);
        const bool failed = std::holds_alternative<std::string>(*found);
        name.next = now + (failed ? std::min<Clock::duration>(interval, pause_after_error) : interval);
        name.earliest = now + least_pause;
        take(host, name, std::move(*found));
      }
    }
    std::size_t under_way = 0;
    for (const auto& [host, name] : names_) under_way += name.lookup ? 1 : 0;
    for (auto& [host, name] : names_) {
      if (name.lookup || now < name.next || under_way == most_at_once) continue;
      name.lookup.emplace(host, world_->settings.discovery.nameserver);
      ++under_way;
    }
    if (!changed_) return;
    changed_ = false;
    fleet_.adopt(discovered());
  }

 private:
  /// One host's name.
  struct Name {
    std::optional<net::NameLookup> lookup;
    Clock::time_point next = Clock::time_point::min();  ///< It is looked up then.
    Clock::time_point earliest = Clock::time_point::min();
    std::string said;                        ///< The error that the log has; "" after a good answer.
    std::map<std::string, Members> members;  ///< By the replica with `expand`.
  };

  static bool is_named(const config::Replica& replica) {
    return replica.url.unix_path.empty() && !config::is_numeric(replica.url.host);
  }

  void follow(const std::shared_ptr<const World>& world) {
    const bool asks_otherwise = world_ && world_->settings.discovery != world->settings.discovery;
    world_ = world;
    std::map<std::string, std::set<std::string>> wanted;  // The replicas with `expand`, by host.
    const auto look_at = [&wanted](const std::vector<config::Replica>& replicas) {
      for (const auto& replica : replicas) {
        if (!is_named(replica)) continue;
        auto& expanding = wanted[replica.url.host];
        if (replica.expand) expanding.insert(replica.name);
      }
    };
    for (const auto& pool : world->settings.pools) look_at(pool.replicas);
    for (const auto& shadow : world->settings.shadows) look_at(shadow.replicas);
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
    for (const auto& pool : world->all_pools)
      for (const auto& replica : pool->replicas)
        if (is_named(replica->settings) && !replica->state->address.get())
          names_[replica->settings.url.host].next = Clock::time_point::min();
  }

  void notice_failed_connections(Clock::time_point now) {
    for (const auto& pool : world_->all_pools) {
      for (const auto& replica : pool->replicas) {
        if (!replica->state->connect_failed.exchange(false, std::memory_order_relaxed)) continue;
        const auto name = names_.find(replica->host_in_settings);
        if (name != names_.end()) name->second.next = std::min(name->second.next, std::max(now, name->second.earliest));
      }
    }
  }

  void take(const std::string& host, Name& name, net::FoundAddresses found) {
    if (const auto* why = std::get_if<std::string>(&found)) {
      if (name.said != *why)
        spdlog::warn("cannot look up '{}': {}; replicas keep the addresses that they have", host, *why);
      name.said = *why;
      return;
    }
    if (!name.said.empty()) spdlog::info("'{}' can be looked up again", host);
    name.said.clear();
    const auto& addresses = std::get<std::vector<Address>>(found);
    for (auto& [replica, members] : name.members) {
      const auto before = members.list();
      if (!members.answered(addresses)) continue;
      changed_ = true;
      tell(replica, host, before, members.list());
    }
    for (const auto& pool : world_->all_pools)
      for (const auto& replica : pool->replicas)
        if (is_named(replica->settings) && replica->settings.url.host == host) use(*replica, addresses);
  }

  static void use(const ReplicaRuntime& replica, const std::vector<Address>& addresses) {
    const auto in_use = replica.state->address.get();
    const auto wanted = address_to_use(in_use ? std::optional(in_use->address()) : std::nullopt, addresses);
    if (in_use && in_use->address() == *wanted) return;
    replica.state->address.set(net::Address(*wanted, replica.settings.url.port));
    if (in_use)
      spdlog::info("replica '{}': '{}' is {} now, it was {}", replica.settings.name, replica.settings.url.host,
                   wanted->to_string(), in_use->address().to_string());
  }

  static void tell(const std::string& replica, const std::string& host, const std::vector<Member>& before,
                   const std::vector<Member>& after) {
    const auto lacks = [](const std::vector<Member>& list, const Member& one) {
      return std::ranges::find(list, one) == list.end();
    };
    for (const auto& one : before)
      if (lacks(after, one))
        spdlog::info("replica '{}-{}' leaves: '{}' is no longer {}", replica, one.number, host,
                     one.address.to_string());
    for (const auto& one : after)
      if (lacks(before, one))
        spdlog::info("replica '{}-{}' is new: '{}' is {}", replica, one.number, host, one.address.to_string());
  }

  Discovered discovered() const {
    Discovered all;
    for (const auto& [host, name] : names_)
      for (const auto& [replica, members] : name.members) all[{replica, host}] = members.list();
    return all;
  }

  Fleet& fleet_;
  std::shared_ptr<const World> world_;
  std::map<std::string, Name> names_;
  bool changed_ = false;
};

}  // namespace

void start_resolver(asio::io_context& context, Fleet& fleet) {
  auto resolver = std::make_shared<Resolver>(fleet);
  asio::co_spawn(context, keep_looking(std::move(resolver), resolver_looks_every), asio::detached);
}

}  // namespace weir::proxy::fleet
