#include "proxy/fleet/discovery.hpp"

#include <algorithm>

namespace weir::proxy::fleet {

std::vector<Address> addresses_to_use(const std::vector<Address>& in_use, const std::vector<Address>& answer) {
  if (answer.empty()) return in_use;
  std::vector<Address> ordered;
  if (!in_use.empty() && std::ranges::find(answer, in_use.front()) != answer.end()) ordered.push_back(in_use.front());
  std::vector<Address> first, second;
  for (const auto& address : answer)
    if (ordered.empty() || address != ordered.front())
      (address.is_v4() == answer.front().is_v4() ? first : second).push_back(address);
  // Behind the one in use comes the other family.
  if (!ordered.empty() && ordered.front().is_v4() == answer.front().is_v4()) std::swap(first, second);
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) ordered.push_back(first[i]);
    if (i < second.size()) ordered.push_back(second[i]);
  }
  return ordered;
}

/// Returns the family of the members from now on.
bool Members::is_v4(const std::vector<Address>& answer, const Known& known) const {
  const auto is_v4 = [](const Address& address) { return address.is_v4(); };
  const auto held = [&](bool v4) {
    return std::ranges::any_of(places_, [&](const auto& place) {
      return place.second.address.is_v4() == v4 && !known.is_gone(place.second.address);
    });
  };
  if (held(true) != held(false)) return held(true);
  return std::ranges::any_of(answer, is_v4);
}

bool Members::answered(std::vector<Address> answer, const Known& known, metrics::Moment now,
                       std::chrono::steady_clock::duration interval) {
  if (answer.empty()) return false;
  const bool v4 = is_v4(answer, known);
  std::erase_if(answer, [v4](const Address& address) { return address.is_v4() != v4; });
  if (answer.empty()) return false;
  std::ranges::sort(answer);  // Servers turn the order from answer to answer.
  answer.erase(std::unique(answer.begin(), answer.end()), answer.end());

  std::set<unsigned> leave;
  for (auto& [number, place] : places_) {
    const auto found = std::ranges::find(answer, place.address);
    if (found != answer.end()) {
      place.lacked_since.reset();
      answer.erase(found);
      continue;
    }
    if (!place.lacked_since) place.lacked_since = now;
    // The first answer that lacked it came an interval after the last one that had it.
    const bool long_ago = now - *place.lacked_since >= (intervals_without - 1) * interval;
    if (known.complete || (long_ago && known.is_gone(place.address))) leave.insert(number);
  }
  bool changed = !leave.empty();
  // A member that leaves with this answer keeps its number until the next one: its name is still in use.
  unsigned number = 1;
  for (const auto& address : answer) {
    if (places_.size() == most) break;
    while (places_.contains(number) || known.taken.contains(number)) ++number;
    places_[number] = {address};
    changed = true;
  }
  for (const auto gone : leave) places_.erase(gone);
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
