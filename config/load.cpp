#include "config/load.hpp"

#include <toml++/toml.h>

#include "config/engine.hpp"
#include "config/environment.hpp"
#include "config/health.hpp"
#include "config/nesting.hpp"
#include "config/pools.hpp"
#include "config/rollouts.hpp"
#include "config/sections.hpp"
#include "config/shadows.hpp"
#include "config/slos.hpp"
#include "config/syntax.hpp"
#include "config/table_reader.hpp"
#include "config/text_file.hpp"

namespace weir::config {
namespace {

Settings read_settings(const toml::table& root, Report& report) {
  Settings settings;
  TableReader file("", root, report);
  const auto listeners = read_sections(file, settings, report);
  ReplicaReading replicas(listeners, settings, report);
  const Defaults defaults{
      read_health({"[health]",
                   file.table("health",
                              "How weir finds out whether a replica can take requests: "
                              "[guide](../guides/troubleshoot.md). A pool may set keys for "
                              "itself in `[pool.health]`."),
                   report},
                  {}),
      read_engine(file.table("engine",
                             "Pages of the engines that weir reads: metrics, version, models and limits. A "
                             "pool may set keys for itself in "
                             "`[pool.engine]`."),
                  report, settings.engine_names),
      !settings.server.api_keys.empty()};
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
  if (auto deep = too_deep(toml))
    return std::vector{SettingsError{file, deep->line, deep->column, std::move(deep->message)}};
  try {
    toml::table root = toml::parse(toml, std::string_view(file));
    Report report(file);
    put_environment(root, report);
    auto settings = read_settings(root, report);
    if (!report.empty()) return report.take();
    return settings;
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    return std::vector{
        SettingsError{file, at.line, at.column, syntax_message(toml, {at.line, at.column}, error.description())}};
  }
}

}  // namespace weir::config
