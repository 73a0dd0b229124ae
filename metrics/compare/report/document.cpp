#include "metrics/compare/report/document.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "config/values.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/text.hpp"
#include "metrics/utf8.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::compare::report {
namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, &begins_code_point));
}

std::string_view colour_of(std::string_view cell) {
  if (cell == "better") return "\x1b[32m";
  if (cell == "worse") return "\x1b[31m";
  if (cell == "inconclusive") return "\x1b[33m";
  return {};
}

/// Returns the first `count` code points of a text.
std::string_view first_of(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size() && (count > 0 || !begins_code_point(text[end]))) count -= begins_code_point(text[end++]);
  return text.substr(0, end);
}

/// Breaks a text into lines of so many columns: at blanks, but not between a number and its %, and within words that
/// are longer than a line.
std::vector<std::string> lines_of(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines{""};
  std::size_t column = 0;
  bool first = true;
  while (!text.empty()) {
    auto blank = text.find(' ');
    while (blank != std::string_view::npos && text.substr(blank + 1).starts_with('%'))
      blank = text.find(' ', blank + 1);
    auto word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (!first && column + 1 + width(word) > columns) {
      lines.emplace_back();
      column = 0;
    } else if (!first) {
      lines.back() += ' ';
      ++column;
    }
    for (; column + width(word) > columns; column = 0) {
      const auto part = first_of(word, columns - column);
      lines.back() += part;
      word.remove_prefix(part.size());
      lines.emplace_back();
    }
    lines.back() += word;
    column += width(word);
    first = false;
  }
  return lines;
}

/// Lines behind the first begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  for (const auto& line : lines_of(text, widest_line - indent)) {
    if (!out.empty()) out += '\n' + std::string(indent, ' ');
    out += line;
  }
  return out;
}

std::string padded(std::string_view line, std::size_t to, bool left, std::string_view paint) {
  std::string text;
  text += paint;
  text += line;
  if (!paint.empty()) text += "\x1b[0m";
  const std::string blanks(to - std::min(width(line), to), ' ');
  return left ? text + blanks : blanks + text;
}

constexpr std::size_t between_columns = 2, narrowest_column = 8;

/// Returns how wide each column is: as its cells, but the widest give way until all of them fit.
std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths(table.header.size());
  const auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  };
  measure(table.header);
  for (const auto& row : table.rows) measure(row);
  const std::size_t room = widest_line - between_columns * (widths.size() - 1);
  for (std::size_t sum = std::accumulate(widths.begin(), widths.end(), std::size_t{0}); sum > room; --sum)
    --*std::ranges::max_element(widths);
  return widths;
}

std::string drawn(const Table& table, bool colour) {
  const auto widths = column_widths(table);
  std::string out;
  const auto draw = [&](const std::vector<std::string>& row) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(lines_of(row[i], widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t at = 0; at < height; ++at) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += std::string(between_columns, ' ');
        line += padded(at < cells[i].size() ? cells[i][at] : "", widths[i], i == 0,
                       colour ? colour_of(row[i]) : std::string_view());
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
  };
  draw(table.header);
  for (const auto& row : table.rows) draw(row);
  return out;
}

/// Cuts a table whose columns cannot stand beside each other into several.
std::vector<Table> beside(const Table& table) {
  constexpr std::size_t most = (widest_line + between_columns) / (narrowest_column + between_columns);
  if (table.header.size() <= most) return {table};
  std::vector<Table> parts;
  for (std::size_t from = 1; from < table.header.size(); from += most - 1) {
    const auto cut = [&](const std::vector<std::string>& row) {
      std::vector<std::string> cells{row.front()};
      for (std::size_t i = from; i < std::min(row.size(), from + most - 1); ++i) cells.push_back(row[i]);
      return cells;
    };
    Table part{cut(table.header), {}};
    for (const auto& row : table.rows) part.rows.push_back(cut(row));
    parts.push_back(std::move(part));
  }
  return parts;
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
void Document::folded(std::string_view text, std::string_view about) {
  parts_.emplace_back(Heading{config::one_line(text), std::string(about), true});
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

std::vector<std::string> Document::folded_headings() const {
  std::vector<std::string> headings;
  for (const auto& part : parts_) {
    const auto* heading = std::get_if<Heading>(&part);
    if (heading && heading->folded) headings.push_back(heading->text);
  }
  return headings;
}

std::string Document::text_of(const Part& part, bool colour) {
  if (const auto* paragraph = std::get_if<Paragraph>(&part)) return wrapped(paragraph->text, 0) + '\n';
  if (const auto* item = std::get_if<Item>(&part)) return "- " + wrapped(item->text, 2) + '\n';
  if (const auto* heading = std::get_if<Heading>(&part)) {
    const auto text = wrapped(heading->text, 0);
    if (colour) return "\x1b[1m" + text + "\x1b[0m\n";
    return text + '\n' + std::string(std::min(width(heading->text), widest_line), '-') + '\n';
  }
  std::string out;
  for (const auto& table : beside(std::get<Table>(part))) out += (out.empty() ? "" : "\n") + drawn(table, colour);
  return out;
}

std::string Document::markdown_of(const Part& part) {
  if (const auto* heading = std::get_if<Heading>(&part)) return "## " + in_markdown(heading->text) + '\n';
  if (const auto* paragraph = std::get_if<Paragraph>(&part)) return in_markdown(paragraph->text) + '\n';
  if (const auto* item = std::get_if<Item>(&part)) return "- " + in_markdown(item->text) + '\n';
  const auto& table = std::get<Table>(part);
  std::string out = row_in_markdown(table.header) + '|';
  for (std::size_t i = 0; i < table.header.size(); ++i) out += i == 0 ? "---|" : "---:|";
  out += '\n';
  for (const auto& row : table.rows) out += row_in_markdown(row);
  return out;
}

std::string Document::written(Style style, Detail detail) const {
  std::string out;
  bool folded = false, item_before = false;
  for (const Part& part : parts_) {
    if (const auto* heading = std::get_if<Heading>(&part)) folded = heading->folded && detail == Detail::brief;
    if (folded) continue;
    // Items of one list stand together.
    const bool item = std::holds_alternative<Item>(part);
    if (!out.empty() && !(item && item_before)) out += '\n';
    item_before = item;
    out += style == Style::markdown ? markdown_of(part) : text_of(part, style == Style::colour);
  }
  return out;
}

std::string Document::json() const {
  wire::JsonWriter json;
  json.open('[');
  for (const auto& part : parts_) {
    json.open('{');
    if (const auto* heading = std::get_if<Heading>(&part)) {
      json.key("heading").text(heading->text).key("about").text(heading->about);
      if (heading->folded) json.key("folded").boolean(true);
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

std::string short_number(double value) {
  if (!std::isfinite(value)) return unknown_cell;
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string short_number(const std::optional<double>& value, double factor) {
  return value ? short_number(*value * factor) : unknown_cell;
}

std::string share(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f} %", 100 * *value) : unknown_cell;
}

std::string change(statistics::Figure figure, const std::optional<double>& value) {
  if (!value) return unknown_cell;
  if (figure == statistics::Figure::stalls) return with_sign(*value, 1);
  return std::abs(*value) < 1 ? signed_percent(*value) : with_sign(100 * *value, 0) + " %";
}

std::string change(statistics::Figure figure, const std::optional<statistics::Interval>& interval) {
  if (!interval) return unknown_cell;
  return change(figure, std::optional(interval->low)) + " to " + change(figure, std::optional(interval->high));
}

std::string with_interval(const std::optional<statistics::Measured>& measured, double factor) {
  if (!measured) return unknown_cell;
  std::string text = short_number(measured->value * factor);
  if (const auto& interval = measured->interval; interval && interval->low >= 0)
    text += " (" + short_number(interval->low * factor) + " to " + short_number(interval->high * factor) + ')';
  return text;
}

std::string figure(statistics::Figure figure, const std::optional<double>& value) {
  if (!value) return unknown_cell;
  if (figure == statistics::Figure::output_tokens) return short_number(*value);
  if (figure == statistics::Figure::stalls) return short_number(*value);
  return *value < 1 ? short_number(1e3 * *value) + " ms" : fmt::format("{:.2f} s", *value);
}

std::string quantiles(const statistics::Distribution& distribution, double factor) {
  if (distribution.count == 0) return unknown_cell;
  std::string text;
  for (const auto& one : {distribution.p50, distribution.p90, distribution.p95, distribution.p99})
    text += (text.empty() ? "" : " / ") + short_number(one, factor);
  return text + " (" + std::to_string(distribution.count) + ')';
}

}  // namespace weir::metrics::compare::report
