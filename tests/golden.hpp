// Golden files: whole outputs in tests/data/golden that tests compare theirs with.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

namespace weir::tests {

/// Expects the text that the golden file `name` has. With WEIR_UPDATE_GOLDEN=1 in the environment the text is written
/// there instead; `git diff tests/data/golden` then shows what a change does to all outputs.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = WEIR_TEST_DATA "/golden/" + name;
  if (std::getenv("WEIR_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::istringstream said(text);
  std::string golden, line;
  for (int number = 1;; ++number) {
    const bool more_golden = static_cast<bool>(std::getline(file, golden));
    const bool more_said = static_cast<bool>(std::getline(said, line));
    if (!more_golden && !more_said) return;
    if (more_golden != more_said || golden != line) {
      ADD_FAILURE() << path << ':' << number << ": " << (more_golden ? golden : "(its end)")
                    << "\nis now: " << (more_said ? line : "(its end)")
                    << "\nIf that is right, run this test with WEIR_UPDATE_GOLDEN=1, and look at git diff.";
      return;
    }
  }
}

/// Expects that each text of a golden file has the answers that stand below it, each behind "=> ". A line that is a
/// name of `parts` stands for that part; lines that begin with "# == " are headings.
template <class Answer>
void expect_golden_answers(const std::string& name, const std::map<std::string, std::string>& parts,
                           const Answer& answers_to) {
  std::ifstream file(WEIR_TEST_DATA "/golden/" + name);
  std::string all, text;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=> ")) {
      if (text.empty()) continue;
      for (const auto& one : answers_to(std::exchange(text, ""))) all += "=> " + one + '\n';
      continue;
    }
    all += line + '\n';
    if (text.empty() && (line.empty() || line.starts_with("# == "))) continue;
    const auto part = parts.find(line);
    text += part == parts.end() ? line + '\n' : part->second;
  }
  expect_golden(name, all);
}

/// Returns the lines of a text that the other one has not.
inline std::string lines_beside(const std::string& text, const std::string& other) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);)
    if (('\n' + other).find('\n' + line + '\n') == other.npos) all += line + '\n';
  return all;
}

/// Returns JSON with a member a line.
inline std::string legible(const std::string& json) {
  static const std::regex member(R"(,("[a-z_0-9]+":))");
  return std::regex_replace(json, member, ",\n$1") + '\n';
}

}  // namespace weir::tests
