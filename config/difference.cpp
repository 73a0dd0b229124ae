#include "config/difference.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace weir::config {
namespace {

/// Everything else follows a reload. The loops are as many as the threads that were started.
constexpr std::array<std::string_view, 1> only_by_restart{"server.threads"};

/// Finds the tables of a listing by their names: a file of keys may have tens of thousands.
class Index {
 public:
  explicit Index(const Listing& listing) {
    for (const auto& one : listing) {
      auto& group = groups_[one.within];
      group.in_order.push_back(&one);
      group.by_name.emplace(one.name, &one);
    }
  }

  const Listed* find(const Listed& wanted) const { return find(wanted.within, wanted.name); }
  bool has_group(const std::string& name) const { return find("", name) != nullptr; }
  /// The tables within the one of this name, as they stand in the file; those on their own within "".
  const std::vector<const Listed*>& within(std::string_view name) const {
    static const std::vector<const Listed*> nothing;
    const auto group = groups_.find(name);
    return group == groups_.end() ? nothing : group->second.in_order;
  }

 private:
  struct Group {
    std::vector<const Listed*> in_order;
    std::unordered_map<std::string_view, const Listed*> by_name;
  };

  const Listed* find(std::string_view within, std::string_view name) const {
    const auto group = groups_.find(within);
    if (group == groups_.end()) return nullptr;
    const auto found = group->second.by_name.find(name);
    return found == group->second.by_name.end() ? nullptr : found->second;
  }

  std::unordered_map<std::string_view, Group> groups_;  ///< The names are those in the listing, which outlives this.
};

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
std::string with_what_is_in_it(const Index& listing, const Listed& one) {
  std::string names;
  if (!one.name.empty())
    for (const auto* other : listing.within(one.name)) names += (names.empty() ? "" : ", ") + other->name;
  return whole_name(one) + (names.empty() ? "" : " (" + names + ")");
}

/// Returns the names of one kind that both listings have, in the order of `listing`.
std::vector<std::string_view> order(const Index& listing, const Index& other, std::string_view kind,
                                    std::string_view within) {
  std::vector<std::string_view> names;
  for (const auto* one : listing.within(within))
    if (one->name.starts_with(kind) && other.find(*one) != nullptr) names.emplace_back(one->name);
  return names;
}

bool other_order(const Index& before, const Index& after, std::string_view kind, std::string_view within) {
  return order(before, after, kind, within) != order(after, before, kind, within);
}

}  // namespace

std::vector<std::string> difference(const Listing& before, const Listing& after) {
  const Index old_ones(before), new_ones(after);
  std::vector<std::string> changes;
  for (const auto& now : after) {
    const auto* const old = old_ones.find(now);
    if (old == nullptr) {
      if (now.within.empty() || old_ones.has_group(now.within))
        changes.push_back(with_what_is_in_it(new_ones, now) + " added");
      continue;
    }
    for (const auto& key : now.keys) {
      const auto* const old_key = find(*old, key.key);
      if (old_key == nullptr)
        changes.push_back(clause(now, key.key + " is new: " + key.value));
      else if (differ(*old_key, key))
        changes.push_back(change_of_key(now, *old_key, key));
    }
    if (!now.name.empty() && other_order(old_ones, new_ones, "replica ", now.name))
      changes.push_back(clause(now, "its replicas stand in another order"));
  }
  for (const auto& old : before) {
    const bool alone = old.within.empty() || new_ones.has_group(old.within);
    if (new_ones.find(old) == nullptr && alone) changes.push_back(with_what_is_in_it(old_ones, old) + " removed");
  }
  if (other_order(old_ones, new_ones, "pool ", "")) changes.emplace_back("the pools are tried in another order");
  if (other_order(old_ones, new_ones, "slo ", "")) changes.emplace_back("the slos stand in another order");
  return changes;
}

std::vector<std::string> difference(const Settings& before, const Settings& after) {
  return difference(listing_of(before), listing_of(after));
}

std::vector<std::string> needs_restart(const Listing& before, const Listing& after) {
  std::vector<std::string> changes;
  const Index old_ones(before);
  for (const auto& now : after) {
    const auto* const old = old_ones.find(now);
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
  const Index old_ones(before);
  for (const auto& now : after) {
    const auto* const old = old_ones.find(now);
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
