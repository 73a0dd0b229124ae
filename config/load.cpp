#include "config/load.hpp"

#include <toml++/toml.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "config/engine.hpp"
#include "config/health.hpp"
#include "config/pools.hpp"
#include "config/sections.hpp"
#include "config/shadows.hpp"
#include "config/slos.hpp"
#include "config/syntax.hpp"
#include "config/table_reader.hpp"

namespace weir::config {
namespace {

/// This is far above any settings. It keeps a wrong path (a log, a device) from filling the memory.
constexpr std::size_t largest_file = std::size_t{1024} * 1024;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Returns why a path cannot be settings, or "" if it may be. The path is checked before it is opened, because a pipe
/// would keep its reader waiting.
std::string not_a_file(const std::string& path) {
  namespace fs = std::filesystem;
  if (path == "-") return "standard input is not read; write the settings to a file and name that";
  std::error_code error;
  switch (fs::status(path, error).type()) {
    case fs::file_type::directory:
      return "it is a directory; name the file in it, such as \"" + (fs::path(path) / "weir.toml").string() + '"';
    case fs::file_type::fifo:
      return "it is a pipe; write the settings to a file and name that";
    case fs::file_type::character:
    case fs::file_type::block:
      return "it is a device; write the settings to a file and name that";
    case fs::file_type::socket:
      return "it is a socket; write the settings to a file and name that";
    default:
      return {};  // If the file is not there, opening it gives the best error.
  }
}

/// Returns the whole file, or why it could not be read.
std::variant<std::string, SettingsError> read_file(const std::string& path) {
  const auto unreadable = [&](const std::string& why) {
    return SettingsError{path, 0, 0, "cannot read settings file: " + why};
  };
  const auto system_says = [](int error) { return std::error_code(error, std::generic_category()).message(); };

  if (const auto why = not_a_file(path); !why.empty()) return unreadable(why);
  const File file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) return unreadable(system_says(errno));
  std::string text;
  std::array<char, 16'384> part;
  while (const auto length = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), length);
    if (text.size() > largest_file) return unreadable("it is larger than 1 MiB");
  }
  if (std::ferror(file.get()) != 0) return unreadable(system_says(errno));
  return text;
}

Settings read_settings(const toml::table& root, Report& report) {
  Settings settings;
  TableReader file("", root, report);
  const auto listeners = read_sections(file, settings, report);
  ReplicaReading replicas(listeners, settings, report);
  const Defaults defaults{read_health({"[health]", file.table("health"), report}, {}),
                          read_engine(file.table("engine"), report, settings.engine_names)};
  settings.pools = read_pools(file, replicas, defaults, report);
  const auto* pools = root.get("pool");
  if (!pools || (pools->is_array() && pools->as_array()->empty())) {
    report.add({}, "no [[pool]] in the file; add one with a name, and with a [[pool.replica]] with name and url");
  }
  settings.slos = read_slos(file, settings.pools, report);
  settings.shadows = read_shadows(file, replicas, settings.pools, defaults, report);
  replicas.refuse_names_of_expanded();
  file.refuse_the_rest();
  return settings;
}

}  // namespace

std::string SettingsError::text() const {
  if (line == 0) return file + ": " + message;
  return file + ':' + std::to_string(line) + ':' + std::to_string(column) + ": " + message;
}

LoadResult load_file(const std::string& path) {
  auto text = read_file(path);
  if (auto* error = std::get_if<SettingsError>(&text)) return std::vector{std::move(*error)};
  return load_text(std::get<std::string>(text), path);
}

LoadResult load_text(std::string_view toml, const std::string& file) {
  try {
    const toml::table root = toml::parse(toml, std::string_view(file));
    Report report(file);
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
