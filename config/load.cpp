#include "config/load.hpp"

#include <toml++/toml.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "config/pools.hpp"
#include "config/sections.hpp"
#include "config/show.hpp"
#include "config/slos.hpp"
#include "config/table_reader.hpp"

namespace weir::config {
namespace {

/// Far above any settings; keeps a wrong path (a log, a device) from filling the memory.
constexpr std::size_t kLargestFile = std::size_t{1024} * 1024;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// The whole file, or why not.
std::variant<std::string, SettingsError> read_file(const std::string& path) {
  const auto unreadable = [&](const std::string& why) {
    return SettingsError{path, 0, 0, "cannot read settings file: " + why};
  };
  const auto system_says = [](int error) { return std::error_code(error, std::generic_category()).message(); };

  const File file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) return unreadable(system_says(errno));
  std::string text;
  std::array<char, 16'384> part;
  while (const auto length = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), length);
    if (text.size() > kLargestFile) return unreadable("it is larger than 1 MiB");
  }
  if (std::ferror(file.get()) != 0) return unreadable(system_says(errno));
  return text;
}

/// toml++ mostly begins with "Error while parsing ...", and quotes what it saw as it is.
std::string syntax_message(std::string_view description) {
  constexpr std::string_view start = "Error ";
  const bool usual = description.starts_with(start);
  return one_line(usual ? "syntax error " + std::string(description.substr(start.size()))
                        : "syntax error: " + std::string(description));
}

Settings read_settings(const toml::table& root, Report& report) {
  Settings settings;
  TableReader file("", root, report);
  const auto listeners = read_sections(file, settings, report);
  settings.pools = read_pools(file, listeners, settings, report);
  const auto* pools = root.get("pool");
  if (!pools || (pools->is_array() && pools->as_array()->empty())) {
    report.add({}, "no [[pool]] in the file; add one with a name, and with a [[pool.replica]] with name and url");
  }
  settings.slos = read_slos(file, settings.pools, report);
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
    return std::vector{SettingsError{file, at.line, at.column, syntax_message(error.description())}};
  }
}

}  // namespace weir::config
