// Pieces of Markdown that the pages share.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace weir::proxy::reference {

inline std::string code(std::string_view text) { return text.empty() ? std::string() : '`' + std::string(text) + '`'; }

/// Returns a row of a table.
template <class... Cells>
std::string row(const Cells&... cells) {
  std::string line = "|";
  (line.append(" ").append(cells).append(" |"), ...);
  return line + '\n';
}

/// Returns a text in lines of so many bytes at most, each with `indent` in front of it.
inline std::string wrapped(std::string_view text, std::size_t width = 120, std::string_view indent = "") {
  std::string lines;
  while (!text.empty()) {
    auto end = text.size() <= width ? text.size() : text.rfind(' ', width);
    if (end == text.npos) end = std::min(text.find(' '), text.size());
    lines.append(indent).append(text.substr(0, end)).append("\n");
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

/// Returns the words in code, with commas.
inline std::string list_of(std::span<const std::string_view> words) {
  std::string all;
  for (const auto word : words) all += (all.empty() ? "" : ", ") + code(word);
  return all;
}

/// Returns names that stand with commas in one text, each in code.
inline std::string list_of(std::string_view names) {
  std::string all;
  while (!names.empty()) {
    const auto end = std::min(names.find(", "), names.size());
    all += (all.empty() ? "" : ", ") + code(names.substr(0, end));
    names.remove_prefix(std::min(names.size(), end + 2));
  }
  return all;
}

}  // namespace weir::proxy::reference
