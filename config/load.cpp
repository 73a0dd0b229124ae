#include "config/load.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "config/keys.hpp"
#include "config/pools.hpp"
#include "config/rollouts.hpp"
#include "config/sections.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

Settings read_settings(const toml::table& root, Report& report) {
  Settings settings;
  TableReader file("", root, report);
  const auto listeners = read_sections(file, settings, report);
  ReplicaReading replicas(listeners, settings, report);
  Defaults defaults;
  defaults.clients_have_keys = !settings.server.api_keys.empty();
  defaults.health = read_health({"[health]",
                                 file.table("health",
                                            "How weir finds out whether a replica can take requests: "
                                            "[guide](../guides/troubleshoot.md). A pool may set keys for itself in "
                                            "`[pool.health]`."),
                                 report},
                                {});
  defaults.engine = read_engine({"[engine]",
                                 file.table("engine",
                                            "Pages of the engines that weir reads: metrics, version, models and "
                                            "limits. A pool may set keys for itself in `[pool.engine]`."),
                                 report},
                                defaults.health, {});
  settings.pools = read_pools(file, replicas, defaults, report);
  const auto* pools = root.get("pool");
  if (!pools || (pools->is_array() && pools->as_array()->empty())) {
    report.add({}, "no [[pool]] in the file; add one with a name, and with a [[pool.replica]] with name and url");
  }
  settings.slos = read_slos(file, settings.pools, report);
  settings.shadows = read_shadows(file, replicas, settings.pools, defaults, report);
  settings.rollouts = read_rollouts(file, settings, report);
  replicas.refuse_names_of_expanded();
  file.refuse_the_rest();
  settings.secret_files.assign(report.secret_files().begin(), report.secret_files().end());
  return settings;
}

}  // namespace

Reference settings_reference() {
  Reference reference;
  Report report("", &reference);
  read_settings({}, report);
  // The table of a shadow's `set` has no keys of its own: it is a value.
  std::erase_if(reference, [](const ReferenceTable& table) { return table.keys.empty(); });
  return reference;
}

Listing listing_of(Settings settings) {
  Listing listing(1);
  Report report(listing);
  TableReader file("", no_table, report);
  read_sections(file, settings, report);
  list_keys(settings.server.keys, report);
  const std::vector<Listener> none;
  ReplicaReading replicas(none, settings, report);
  list_pools(settings.pools, replicas, report);
  list_shadows(settings.shadows, replicas, report);
  list_slos(settings.slos, report);
  list_rollouts(settings, report);
  return listing;
}

std::string SettingsError::text() const {
  if (line == 0) return file + ": " + message;
  return file + ':' + std::to_string(line) + ':' + std::to_string(column) + ": " + message;
}

LoadResult load_file(const std::string& path) {
  const auto text = read_text_file(path, file_of_settings);
  if (const auto* problem = std::get_if<Problem>(&text))
    return std::vector{SettingsError{path, 0, 0, "cannot read settings file: " + problem->text}};
  return load_text(std::get<std::string>(text), path);
}

LoadResult load_text(std::string_view toml, const std::string& file) {
  try {
    toml::table root = toml::parse(toml, std::string_view(file));
    Report report(file);
    put_environment(root, report);
    auto settings = read_settings(root, report);
    if (!report.empty()) return report.take();
    return settings;
  } catch (const toml::parse_error& error) {
    return std::vector{syntax_error(file, error)};
  }
}

namespace {

/// What toml++ says of a mistake, and what helps. The first that fits counts.
constexpr struct {
  std::string_view says, way_out;
} ways_out[] = {
    {"header: cannot redefine", "a table stands in the file once; each of several has two brackets, such as [[pool]]"},
    {"cannot redefine", "it is there already; remove one, or write the header of the next table between them"},
    {"escape sequence", "in double quotes \\ begins an escape; write a path in single quotes or with /"},
    {"unicode scalar", "in double quotes \\ begins an escape; write a path in single quotes or with /"},
    {"parsing string", "a text ends in the line in which it begins, with the same quote"},
    {"parsing literal string", "a text ends in the line in which it begins, with the same quote"},
    {"table header", "the header of a table stands alone in its line: [server], [[pool]]"},
    {"expected '='", "a line is KEY = VALUE"},
    {"root table", "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #"},
    {"expected comma or closing", "put a comma between the values of a list, and ] behind the last"},
    {"comment or whitespace", "nothing but a comment behind # may follow a value"},
    {"expected value, saw", "a value is missing behind the =; an empty text is \"\""},
    {"utf-8", "save the file as UTF-8"},
    {"while parsing", "text stands in quotes, and so do addresses and numbers with a unit; true and false do not"},
};

std::string_view way_out(std::string_view description) {
  for (const auto& one : ways_out)
    if (description.find(one.says) != std::string_view::npos) return one.way_out;
  return {};
}

}  // namespace

SettingsError syntax_error(const std::string& file, const toml::parse_error& error) {
  constexpr std::string_view start = "Error ";  // toml++ mostly begins with "Error while parsing ...".
  const auto said = error.description();
  std::string message = said.starts_with(start) ? "syntax error " + std::string(said.substr(start.size()))
                                                : "syntax error: " + std::string(said);
  if (const auto advice = way_out(said); !advice.empty()) message.append("; ").append(advice);
  const auto at = error.source().begin;
  return {file, at.line, at.column, without_keys_and_hashes(one_line(message))};
}

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
