#include "metrics/compare/report/document.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "config/show.hpp"
#include "metrics/compare/report/json_writer.hpp"
#include "metrics/utf8.hpp"

namespace weir::metrics::compare::report {
namespace {

constexpr std::size_t widest_line = 110;

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, &begins_code_point));
}

std::string_view colour_of(std::string_view cell) {
  if (cell == "better") return "\x1b[32m";
  if (cell == "worse") return "\x1b[31m";
  if (cell == "inconclusive") return "\x1b[33m";
  return {};
}

/// Breaks a text at blanks. Lines behind the first begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const auto word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (!first && column + 1 + width(word) > widest_line) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width(word);
    first = false;
  }
  return out;
}

std::string padded(std::string_view cell, std::size_t to, bool left, bool colour) {
  std::string text;
  const auto paint = colour ? colour_of(cell) : std::string_view();
  text += paint;
  text += cell;
  if (!paint.empty()) text += "\x1b[0m";
  const std::string blanks(to - std::min(width(cell), to), ' ');
  return left ? text + blanks : blanks + text;
}

std::string drawn(const Table& table, bool colour) {
  std::vector<std::size_t> widths(table.header.size());
  const auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  };
  measure(table.header);
  for (const auto& row : table.rows) measure(row);
  std::string out;
  const auto draw = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += padded(row[i], widths[i], i == 0, colour);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  draw(table.header);
  for (const auto& row : table.rows) draw(row);
  return out;
}

/// Escapes what Markdown would take for a mark.
std::string in_markdown(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (std::string_view("|*_`<>[]\\").find(letter) != std::string_view::npos) out += '\\';
    out += letter;
  }
  return out;
}

std::string row_in_markdown(const std::vector<std::string>& row) {
  std::string out = "|";
  for (const auto& cell : row) out += ' ' + in_markdown(cell) + " |";
  return out + '\n';
}

}  // namespace

void Document::heading(std::string_view text, std::string_view about) {
  parts_.emplace_back(Heading{config::one_line(text), std::string(about)});
}
void Document::paragraph(std::string_view text) { parts_.emplace_back(Paragraph{config::one_line(text)}); }
void Document::item(std::string_view text) { parts_.emplace_back(Item{config::one_line(text)}); }

void Document::table(Table table) {
  for (auto& cell : table.header) cell = config::one_line(cell);
  for (auto& row : table.rows) {
    for (auto& cell : row) cell = config::one_line(cell);
  }
  parts_.emplace_back(std::move(table));
}

/// True if an empty line stands before this part. Items of one list stand together.
bool Document::stands_apart(const Part& part) const {
  if (&part == &parts_.front()) return false;
  return !std::holds_alternative<Item>(part) || !std::holds_alternative<Item>(*(&part - 1));
}

std::string Document::text(bool colour) const {
  std::string out;
  for (const auto& part : parts_) {
    if (stands_apart(part)) out += '\n';
    if (const auto* heading = std::get_if<Heading>(&part)) {
      out += (colour ? "\x1b[1m" + heading->text + "\x1b[0m" : heading->text) + '\n';
      if (!colour) out += std::string(width(heading->text), '-') + '\n';
    } else if (const auto* paragraph = std::get_if<Paragraph>(&part)) {
      out += wrapped(paragraph->text, 0) + '\n';
    } else if (const auto* item = std::get_if<Item>(&part)) {
      out += "- " + wrapped(item->text, 2) + '\n';
    } else {
      out += drawn(std::get<Table>(part), colour);
    }
  }
  return out;
}

std::string Document::markdown() const {
  std::string out;
  for (const auto& part : parts_) {
    if (stands_apart(part)) out += '\n';
    if (const auto* heading = std::get_if<Heading>(&part)) {
      out += "## " + in_markdown(heading->text) + '\n';
    } else if (const auto* paragraph = std::get_if<Paragraph>(&part)) {
      out += in_markdown(paragraph->text) + '\n';
    } else if (const auto* item = std::get_if<Item>(&part)) {
      out += "- " + in_markdown(item->text) + '\n';
    } else {
      const auto& table = std::get<Table>(part);
      out += row_in_markdown(table.header) + '|';
      for (std::size_t i = 0; i < table.header.size(); ++i) out += i == 0 ? "---|" : "---:|";
      out += '\n';
      for (const auto& row : table.rows) out += row_in_markdown(row);
    }
  }
  return out;
}

std::string Document::json() const {
  JsonWriter json;
  json.open('[');
  for (const auto& part : parts_) {
    json.open('{');
    if (const auto* heading = std::get_if<Heading>(&part)) {
      json.key("heading").text(heading->text).key("about").text(heading->about);
    } else if (const auto* paragraph = std::get_if<Paragraph>(&part)) {
      json.key("paragraph").text(paragraph->text);
    } else if (const auto* item = std::get_if<Item>(&part)) {
      json.key("item").text(item->text);
    } else {
      const auto& table = std::get<Table>(part);
      json.key("table").open('{').key("header").texts(table.header).key("rows").open('[');
      for (const auto& row : table.rows) json.texts(row);
      json.close(']').close('}');
    }
    json.close('}');
  }
  json.close(']');
  return std::move(json).written();
}

}  // namespace weir::metrics::compare::report
