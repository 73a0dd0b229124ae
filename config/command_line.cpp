#include "config/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/address.hpp"
#include "config/values.hpp"

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

std::string sentence(const CLI::App& app, const std::string& path, const std::string& word) {
  const auto told = path + ": \"" + one_line(word) + "\" is no ";
  if (word.starts_with('-')) return told + "option; " + did_you_mean(word.substr(0, word.find('=')), options_of(app));
  const auto commands = commands_of(app);
  return told + (commands.empty() ? "option; " + did_you_mean(word, options_of(app))
                                  : "command; " + did_you_mean(word, commands));
}

/// Returns the command whose words were read last, with those that lead to it.
std::string path_of(const CLI::App& app) {
  std::string path = app.get_name();
  for (auto given = app.get_subcommands(); !given.empty(); given = given.front()->get_subcommands())
    path += ' ' + given.front()->get_name();
  return path;
}

/// True if a word stands where a command is expected, and is none.
bool has_unknown_command(const CLI::App& app) {
  const auto* last = &app;
  for (auto given = app.get_subcommands(); !given.empty(); given = last->get_subcommands()) last = given.front();
  const auto words = last->remaining();
  return !commands_of(*last).empty() && !words.empty() && !words.front().starts_with('-');
}

/// Reads `help [COMMAND...]`, `version` and `-V`, which people type as well. Returns the words that they stand for.
std::vector<std::string> usual_words(std::span<const char* const> words) {
  std::vector<std::string> usual(words.begin(), words.end());
  if (usual.empty()) return {"--help"};
  if (usual.size() == 1 && (usual[0] == "version" || usual[0] == "-V")) return {"--version"};
  if (usual[0] == "help") {
    usual.erase(usual.begin());
    usual.emplace_back("--help");
  }
  return usual;
}

/// A variable of a script that is not set must not stand for an option that is left out, nor for 0.
std::string empty_value(const std::string& value) {
  return value.empty() ? "\"\" is no value; give one, or leave the option out" : std::string();
}

/// CLI11 takes -1 for the greatest number there is, as it takes numbers that are greater, and 010 for 8.
std::string no_whole_number(const std::string& value) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_one = error == std::errc() && end == value.data() + value.size();
  if (is_one && (value.size() == 1 || !value.starts_with('0'))) return {};
  return '"' + one_line(value) + "\" is not a whole number from 0 to 18446744073709551615, written as 1000";
}

/// Adds what holds for the values of all options of all commands.
void add_checks(CLI::App& app) {
  for (auto* const option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // A flag.
    const bool is_unsigned = option->get_type_name().starts_with("UINT");
    option->check(empty_value);
    if (is_unsigned) option->check(no_whole_number);
  }
  for (auto* const command : app.get_subcommands([](const CLI::App*) { return true; })) add_checks(*command);
}

}  // namespace

std::string wrong_word(const CLI::App& app) {
  std::string path = app.get_name();
  for (const auto* command = &app;;) {
    if (const auto words = command->remaining(); !words.empty()) return sentence(*command, path, words.front());
    const auto inner = command->get_subcommands();
    if (inner.empty()) return {};
    command = inner.front();
    path += ' ' + command->get_name();
  }
}

int after_output(int status) {
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (whole || status != 0) return status;
  std::fputs("standard output did not take all that was printed; is its disk full?\n", stderr);
  return 1;
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  auto words = usual_words(std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0));
  add_checks(app);
  std::ranges::reverse(words);  // CLI11 takes the first word from the back.
  try {
    app.parse(std::move(words));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const bool is_help = kind == CLI::ExitCodes::Success;
    if (is_help && !has_unknown_command(app)) return after_output(app.exit(error));
    // A required option may be missed only because its name is the wrong word.
    const bool by_words = is_help || kind == CLI::ExitCodes::ExtrasError || kind == CLI::ExitCodes::RequiredError;
    auto told = by_words ? wrong_word(app) : std::string();
    if (told.empty()) told = path_of(app) + ": " + error.what();
    std::fprintf(stderr, "%s\nRun with --help for what is known, with examples.\n", told.c_str());
    return wrong_usage;
  }
}

namespace {

constexpr std::size_t shortest_prefix = 3;
constexpr std::size_t longest_word = 64;  // Known words are shorter. The cost of the distance is the product of both
                                          // lengths.

std::string folded(std::string_view word) {
  auto result = lower(word);
  std::ranges::replace(result, '-', '_');
  return result;
}

/// Computes the optimal string alignment, with three rows of the table at a time.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > longest_word) return {};
  const auto wanted = folded(word);
  std::string_view best, longer;
  std::size_t fewest = word.size() / 3 + 1;
  std::size_t longer_ones = 0;
  for (const auto candidate : candidates) {
    const auto known = folded(candidate);
    if (const auto changes = distance(wanted, known); changes < fewest) {
      fewest = changes;
      best = candidate;
    }
    if (known.starts_with(wanted)) {
      longer = candidate;
      ++longer_ones;
    }
  }
  if (!best.empty()) return best;
  return word.size() >= shortest_prefix && longer_ones == 1 ? longer : std::string_view();
}

}  // namespace weir::config
