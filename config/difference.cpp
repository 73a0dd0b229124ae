#include "config/difference.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace weir::config {
namespace {

/// Everything else follows a reload. The loops are as many as the threads that were started.
constexpr std::array<std::string_view, 1> only_by_restart{"server.threads"};

const Listed* find(const Listing& listing, const Listed& wanted) {
  const auto found = std::ranges::find_if(
      listing, [&](const Listed& one) { return one.name == wanted.name && one.within == wanted.within; });
  return found == listing.end() ? nullptr : &*found;
}

const ListedKey* find(const Listed& listed, const std::string& key) {
  const auto found = std::ranges::find(listed.keys, key, &ListedKey::key);
  return found == listed.keys.end() ? nullptr : &*found;
}

std::string whole_name(const Listed& one) { return one.within.empty() ? one.name : one.within + ": " + one.name; }

std::string clause(const Listed& of, const std::string& change) {
  return of.name.empty() ? change : whole_name(of) + ": " + change;
}

std::string change_of_key(const Listed& of, const ListedKey& before, const ListedKey& after) {
  if (before.value == after.value) return clause(of, after.key + " changed");
  const auto change = clause(of, after.key + " " + before.value + " -> " + after.value);
  return of.name.starts_with("replica ") && after.key == "url" ? change + " (a new replica in its place)" : change;
}

bool differ(const ListedKey& before, const ListedKey& after) {
  return before.value != after.value || (before.secret && after.secret && *before.secret != *after.secret);
}

/// "pool chat" of the listing, with the replicas that come and go together with it.
std::string with_what_is_in_it(const Listing& listing, const Listed& one) {
  std::string names;
  for (const auto& other : listing)
    if (!one.name.empty() && other.within == one.name) names += (names.empty() ? "" : ", ") + other.name;
  return whole_name(one) + (names.empty() ? "" : " (" + names + ")");
}

/// Those of one kind that both listings have, in the order of `listing`.
std::vector<std::string> order(const Listing& listing, const Listing& other, std::string_view kind,
                               const std::string& within) {
  std::vector<std::string> names;
  for (const auto& one : listing)
    if (one.name.starts_with(kind) && one.within == within && find(other, one) != nullptr) names.push_back(one.name);
  return names;
}

bool other_order(const Listing& before, const Listing& after, std::string_view kind, const std::string& within) {
  return order(before, after, kind, within) != order(after, before, kind, within);
}

}  // namespace

std::vector<std::string> difference(const Listing& before, const Listing& after) {
  std::vector<std::string> changes;
  const auto is_in = [](const Listing& listing, const std::string& name) {
    return std::ranges::find(listing, name, &Listed::name) != listing.end();
  };
  for (const auto& now : after) {
    const auto* const old = find(before, now);
    if (old == nullptr) {
      if (now.within.empty() || is_in(before, now.within)) changes.push_back(with_what_is_in_it(after, now) + " added");
      continue;
    }
    for (const auto& key : now.keys) {
      const auto* const old_key = find(*old, key.key);
      if (old_key == nullptr)
        changes.push_back(clause(now, key.key + " is new: " + key.value));
      else if (differ(*old_key, key))
        changes.push_back(change_of_key(now, *old_key, key));
    }
    if (other_order(before, after, "replica ", now.name))
      changes.push_back(clause(now, "its replicas stand in another order"));
  }
  for (const auto& old : before) {
    const bool alone = old.within.empty() || is_in(after, old.within);
    if (find(after, old) == nullptr && alone) changes.push_back(with_what_is_in_it(before, old) + " removed");
  }
  if (other_order(before, after, "pool ", "")) changes.push_back("the pools are tried in another order");
  if (other_order(before, after, "slo ", "")) changes.push_back("the slos stand in another order");
  return changes;
}

std::vector<std::string> difference(const Settings& before, const Settings& after) {
  return difference(listing_of(before), listing_of(after));
}

std::vector<std::string> needs_restart(const Listing& before, const Listing& after) {
  std::vector<std::string> changes;
  for (const auto& now : after) {
    const auto* const old = find(before, now);
    for (const auto& key : now.keys) {
      if (!now.name.empty() || std::ranges::find(only_by_restart, key.key) == only_by_restart.end()) continue;
      const auto* const old_key = old == nullptr ? nullptr : find(*old, key.key);
      if (old_key != nullptr && differ(*old_key, key)) changes.push_back(change_of_key(now, *old_key, key));
    }
  }
  return changes;
}

std::vector<std::string> cannot_tell(const Listing& before, const Listing& after) {
  std::vector<std::string> keys;
  for (const auto& now : after) {
    const auto* const old = find(before, now);
    for (const auto& key : now.keys) {
      const auto* const old_key = old == nullptr ? nullptr : find(*old, key.key);
      if (old_key != nullptr && key.value == "hidden" && old_key->value == "hidden" &&
          key.secret.has_value() != old_key->secret.has_value())
        keys.push_back(clause(now, key.key));
    }
  }
  return keys;
}

}  // namespace weir::config
