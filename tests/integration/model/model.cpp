#include "tests/integration/model/model.hpp"

#include <algorithm>
#include <utility>

namespace weir::model {

Model::Model() {
  for (std::size_t machine = 0; machine < 2; ++machine) first.push_back({.name = new_name("r"), .machine = machine});
  for (const unsigned most : {0U, 2U}) keys.push_back({.name = new_name("k"), .most = most});
}

std::vector<const Replica*> Model::replicas() const {
  std::vector<const Replica*> all;
  for (const auto* pool_of : {&first, &second})
    for (const auto& one : *pool_of) all.push_back(&one);
  return all;
}

Replica& Model::replica(unsigned a) {
  const auto at = a % (first.size() + second.size());
  return at < first.size() ? first[at] : second[at - first.size()];
}

std::size_t Model::free_machine() const {
  for (std::size_t machine = 0; machine < machines_of_pools; ++machine)
    if (std::ranges::none_of(replicas(), [&](const Replica* one) { return one->machine == machine; })) return machine;
  return machines_of_pools;
}

bool Model::change_replicas(const Operation& step) {
  const auto machine = free_machine();
  auto& place = step.a % 2 == 1 && !second.empty() ? second : first;
  switch (step.verb) {
    case Verb::add_replica:
      if (machine == machines_of_pools) return false;
      place.push_back({.name = new_name("r"), .machine = machine});
      return true;
    case Verb::remove_replica: {
      const auto name = replica(step.a).name;
      auto& pool_of = step.a % (first.size() + second.size()) < first.size() ? first : second;
      if (pool_of.size() == 1) return false;
      std::erase_if(pool_of, [&](const Replica& one) { return one.name == name; });
      replicas_changed = true;
      return true;
    }
    case Verb::rename_replica:
      replica(step.a).name = new_name("r");
      replica(step.a).drained = false;
      replicas_changed = true;
      return true;
    case Verb::move_replica:
      if (machine == machines_of_pools) return false;
      replica(step.a).machine = machine;
      replica(step.a).drained = false;
      replicas_changed = true;
      return true;
    case Verb::limit_replica:
      replica(step.a).most = step.b % 3;
      return true;
    case Verb::add_pool:
      if (!second.empty() || machine == machines_of_pools) return false;
      second.push_back({.name = new_name("r"), .machine = machine});
      return true;
    case Verb::remove_pool:
      if (second.empty()) return false;
      second.clear();
      replicas_changed = true;
      return true;
    case Verb::rename_pool:
      pool = new_name("chat");
      for (auto& one : first) one.drained = false;
      replicas_changed = true;
      return true;
    default:
      return false;
  }
}

bool Model::change_keys(const Operation& step) {
  auto& key = keys[step.a % keys.size()];
  switch (step.verb) {
    case Verb::add_key:
      if (keys.size() == 4) return false;
      keys.push_back({.name = new_name("k"), .most = step.b % 4});
      return true;
    case Verb::revoke_key:
      if (keys.size() == 1) return false;
      revoked.push_back(key.secret());
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(step.a % keys.size()));
      return true;
    case Verb::limit_key:
      key.most = step.b % 4;
      return true;
    case Verb::narrow_key:
      key.narrow = !key.narrow;
      return true;
    default:
      return false;
  }
}

bool Model::apply(const Operation& step) {
  switch (step.verb) {
    case Verb::add_shadow:
      return !std::exchange(has_shadow, true);
    case Verb::remove_shadow:
      replicas_changed = replicas_changed || has_shadow;
      return std::exchange(has_shadow, false);
    case Verb::switch_keys:
      needs_keys = !needs_keys;
      return true;
    case Verb::switch_tls:
      speaks_tls = !speaks_tls;
      return true;
    case Verb::change_certificate:
      renewed = !renewed;
      return speaks_tls;
    case Verb::limit_pool:
      pool_most = step.b % 4;
      return true;
    case Verb::change_limits:
      policy = step.a;
      queue = step.b;
      return true;
    default:
      return change_replicas(step) || change_keys(step);
  }
}

}  // namespace weir::model
