#include "proxy/fleet/discovery.hpp"

#include <algorithm>
#include <functional>

namespace weir::proxy::fleet {

std::optional<Address> address_to_use(const std::optional<Address>& in_use, const std::vector<Address>& answer) {
  if (answer.empty()) return in_use;
  const bool held = in_use && std::ranges::find(answer, *in_use) != answer.end();
  return held ? in_use : answer.front();
}

bool Members::answered(std::vector<Address> answer) {
  if (answer.empty()) return false;
  const auto is_v4 = [](const Address& address) { return address.is_v4(); };
  if (std::ranges::any_of(answer, is_v4)) std::erase_if(answer, std::not_fn(is_v4));
  std::ranges::sort(answer);  // Servers turn the order from answer to answer.
  answer.erase(std::unique(answer.begin(), answer.end()), answer.end());

  bool changed = false;
  for (auto place = places_.begin(); place != places_.end();) {
    auto& [address, missed] = place->second;
    const auto found = std::ranges::find(answer, address);
    if (found != answer.end()) {
      missed = 0;
      answer.erase(found);
    } else if (++missed == answers_without) {
      place = places_.erase(place);
      changed = true;
      continue;
    }
    ++place;
  }
  unsigned number = 1;
  for (const auto& address : answer) {
    if (places_.size() == most) break;
    while (places_.contains(number)) ++number;
    places_[number] = {address};
    changed = true;
  }
  return changed;
}

std::vector<Member> Members::list() const {
  std::vector<Member> all;
  for (const auto& [number, place] : places_) all.push_back({number, place.address});
  return all;
}

std::vector<ReplicaPlace> expanded(const config::Pool& pool, const Discovered& discovered) {
  std::vector<ReplicaPlace> replicas;
  for (const auto& settings : pool.replicas) {
    if (!settings.expand) {
      replicas.push_back({settings, settings.url.host});
      continue;
    }
    const auto found = discovered.find({settings.name, settings.url.host});
    if (found == discovered.end()) continue;
    for (const auto& member : found->second) {
      auto one = settings;
      one.name += '-' + std::to_string(member.number);
      one.url.host = member.address.to_string();
      replicas.push_back({std::move(one), settings.url.host});
    }
  }
  return replicas;
}

}  // namespace weir::proxy::fleet
