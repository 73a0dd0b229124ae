#include "config/load.hpp"

#include <toml++/toml.h>

#include <string_view>

#include "config/keys.hpp"
#include "config/pools.hpp"
#include "config/rollouts.hpp"
#include "config/secret.hpp"
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

}  // namespace weir::config
