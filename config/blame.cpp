#include "config/blame.hpp"

#include <toml++/toml.h>

#include "config/environment.hpp"
#include "config/table_reader.hpp"
#include "config/text_file.hpp"

namespace weir::config {

SettingsError blame(const std::string& file, const std::string& table, std::string_view key, std::string_view problem) {
  const auto title = '[' + table + ']';
  const auto text = read_text_file(file, file_of_settings);
  if (const auto* const toml = std::get_if<std::string>(&text)) {
    try {
      auto root = toml::parse(*toml, std::string_view(file));
      Report report(file);
      put_environment(root, report);
      const auto* const found = root.get_as<toml::table>(table);
      if (const auto* const node = found == nullptr ? nullptr : found->get(key)) {
        TableReader(title, *found, report).blame(key, *node, problem);
        return report.take().back();
      }
    } catch (const toml::parse_error&) {
      // The file was written meanwhile.
    }
  }
  return {file, 0, 0, title + ' ' + std::string(key) + ": " + std::string(problem)};
}

}  // namespace weir::config
