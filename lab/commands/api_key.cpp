#include "lab/commands/api_key.hpp"

#include <CLI/CLI.hpp>
#include <utility>
#include <variant>

#include "config/secret.hpp"

namespace weir::lab::commands {

std::string read_api_key(const std::string& option, const std::string& path) {
  auto read = config::SecretFile{"the replica's key"}(toml::value<std::string>(path));
  if (const auto* problem = std::get_if<config::Problem>(&read)) {
    throw CLI::ValidationError(option, "\"" + path + "\": " + problem->text);
  }
  return std::get<std::string>(std::move(read));
}

}  // namespace weir::lab::commands
