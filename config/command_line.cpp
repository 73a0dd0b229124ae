#include "config/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>
#include <vector>

#include "config/nearest.hpp"
#include "config/show.hpp"

namespace weir::config {
namespace {

using Words = std::vector<std::string>;

Words commands_of(const CLI::App& app) {
  Words names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

Words options_of(const CLI::App& app) {
  Words names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const Words& known) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  if (const auto meant = nearest(word, candidates); !meant.empty()) return "did you mean " + std::string(meant) + "?";
  std::string list = "known here are";
  for (const auto& one : known) list += (one == known.front() ? " " : ", ") + one;
  return list;
}

/// Returns the required option that is missing.
const CLI::Option* missing_option(const CLI::App& app) {
  for (const auto* option : app.get_options()) {
    if (option->get_required() && option->count() == 0 && !option->get_lnames().empty()) return option;
  }
  return nullptr;
}

/// Tells where an unknown word stands: in front of the command, or behind it.
struct WrongWord {
  const CLI::App* app;
  const CLI::App* command;  ///< The command that was given, if any.
  std::string word;
};

std::string sentence(const WrongWord& wrong, const std::string& path) {
  const auto& [app, command, word] = wrong;
  const auto told = path + ": \"" + one_line(word) + "\" ";
  if (!word.starts_with('-')) {
    const auto commands = commands_of(*app);
    if (!commands.empty()) return told + "is no command; " + did_you_mean(word, commands);
    if (const auto* option = missing_option(*app)) {
      return told + "belongs to no option; did you mean --" + option->get_lnames().front() + ' ' + one_line(word) + '?';
    }
    return told + "belongs to no option; " + did_you_mean(word, options_of(*app));
  }
  const auto name = word.substr(0, word.find('='));
  if (command && command != app && command->get_option_no_throw(name)) {
    return told + "stands behind its command: " + path + ' ' + command->get_name() + ' ' + one_line(word);
  }
  return told + "is no option; " + did_you_mean(name, options_of(*app));
}

}  // namespace

std::string wrong_word(const CLI::App& app) {
  const auto given = app.get_subcommands();
  const CLI::App* command = given.empty() ? nullptr : given.front();
  if (const auto words = app.remaining(); !words.empty()) {
    return sentence({&app, command, words.front()}, app.get_name());
  }
  for (std::string path = app.get_name(); command;) {
    path += ' ' + command->get_name();
    if (const auto words = command->remaining(); !words.empty())
      return sentence({command, command, words.front()}, path);
    const auto inner = command->get_subcommands();
    command = inner.empty() ? nullptr : inner.front();
  }
  return {};
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // A required option may be missed only because its name is the wrong word.
    const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const bool by_words = kind == CLI::ExitCodes::ExtrasError || kind == CLI::ExitCodes::RequiredError;
    const auto told = by_words ? wrong_word(app) : std::string();
    if (told.empty()) return app.exit(error) == 0 ? 0 : wrong_usage;
    std::fprintf(stderr, "%s\nRun with --help for what is known, with examples.\n", told.c_str());
    return wrong_usage;
  }
}

}  // namespace weir::config
