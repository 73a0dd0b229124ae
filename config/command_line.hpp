// Parses a program's words on its command line, and suggests the right word for a wrong one.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/values.hpp"

namespace CLI {
class App;
}

namespace weir::config {

inline constexpr int wrong_usage = 2;

/// Returns nothing if the command line is right. Without words it prints help, as for `help`; `help COMMAND`, `version`
/// and `-V` are read as people mean them; to ask for the help of an unknown command is wrong usage. Otherwise help,
/// version or an error has been printed, and the result is the exit status. Callbacks of subcommands run within the
/// call. No option takes "" for a value. An unsigned option takes decimal digits alone, without a zero before them.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

/// Returns the exit status of a program that ends with `status`: 1 in place of 0 where standard output did not take all
/// that was printed, which standard error then says. Nothing may be printed behind it.
int after_output(int status);

/// Returns the sentence about the first word that belongs nowhere, or "" if there is none. It is to be called after
/// `app` has parsed.
std::string wrong_word(const CLI::App& app);

// Finds the known word that is closest to a misspelt one, for "Did you mean ...?".

/// Returns the candidate with the fewest letters added, dropped, changed or swapped with their neighbour; of several
/// the first. Upper and lower case do not differ, nor do `-` and `_`. If that is more than a third of the word, returns
/// the only candidate that begins with it ("warn" for "warning"), or else "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// Checks of the values of command-line options: numbers within a range, and words. CLI11's own checks take "nan" for a
// number of any range, write its ends with six digits behind the point, and show words with the numbers behind them.

namespace detail {

/// Accepts numbers that are `allowed`, which the sentence for any other puts in words.
template <class Number, class Allowed>
CLI::Validator numbers(const std::string& description, Allowed allowed, const std::string& words) {
  return {[allowed, words](std::string& text) {
            Number number{};
            const bool is_allowed = CLI::detail::lexical_cast(text, number) && allowed(number);
            return is_allowed ? std::string() : '"' + one_line(text) + "\" is not " + words;
          },
          description};
}

}  // namespace detail

/// Accepts numbers from `least` to `most`.
template <class Number>
CLI::Validator within(Number least, Number most) {
  const auto text = [](Number number) { return format_number(static_cast<double>(number)); };
  return detail::numbers<Number>(
      CLI::Range(least, most).get_description(), [=](Number number) { return number >= least && number <= most; },
      "from " + text(least) + " to " + text(most));
}

/// Accepts finite numbers above 0.
inline CLI::Validator positive() {
  return detail::numbers<double>(
      "POSITIVE", [](double number) { return number > 0 && number <= std::numeric_limits<double>::max(); },
      "a number above 0");
}

/// Accepts 0 and finite numbers above it.
inline CLI::Validator not_negative() {
  return detail::numbers<double>(
      "NONNEGATIVE", [](double number) { return number >= 0 && number <= std::numeric_limits<double>::max(); },
      "a number of at least 0");
}

/// Takes a word for the value that it stands for. The sentence for any other word has all that there are.
template <class Value>
CLI::Validator word_of(const std::map<std::string, Value>& words) {
  return {[known = CLI::CheckedTransformer(words), words](std::string& word) {
            if (words.contains(word)) return known(word);
            std::string list;
            std::vector<std::string_view> names;
            for (const auto& [name, value] : words) {
              list += (list.empty() ? "" : ", ") + name;
              names.emplace_back(name);
            }
            const auto meant = nearest(word, names);
            return '"' + one_line(word) + "\" is none of " + list +
                   (meant.empty() ? "" : "; did you mean " + std::string(meant) + '?');
          },
          ""};
}

}  // namespace weir::config
