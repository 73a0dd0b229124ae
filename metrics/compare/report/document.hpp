// Headings, sentences and tables, which text for a terminal, Markdown and the HTML page show alike.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::report {

/// The first column is aligned left, the others right.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool operator==(const Table&) const = default;
};

/// How much of a document is shown: without what is folded, or all of it.
enum class Detail { brief, full };
/// With `colour`, headings are bold, and the words of verdicts have colours.
enum class Style { plain, colour, markdown };
/// No line of a text is longer.
inline constexpr std::size_t widest_line = 100;

/// Control characters in what is added are shown as escapes, because names come from logs.
class Document {
 public:
  /// `about` tells the HTML page which chart belongs under this heading; "" is none.
  void heading(std::string_view text, std::string_view about = {});
  /// The same of a part that a reader unfolds: it ends at the next heading.
  void folded(std::string_view text, std::string_view about = {});
  void paragraph(std::string_view text);
  void item(std::string_view text);  ///< Items that follow each other are a list.
  void table(Table table);

  /// Tables of a text break within their cells, and names at any place, so that each line fits. A table of many columns
  /// is drawn as several, each with the first column.
  std::string written(Style style, Detail detail = Detail::full) const;
  /// An array of parts: {"heading","about"} (and "folded": true), {"paragraph"}, {"item"} or
  /// {"table":{"header","rows"}}.
  std::string json() const;
  bool empty() const { return parts_.empty(); }
  /// Returns the headings of what is folded.
  std::vector<std::string> folded_headings() const;

 private:
  struct Heading {
    std::string text, about;
    bool folded = false;
  };
  struct Paragraph {
    std::string text;
  };
  struct Item {
    std::string text;
  };
  using Part = std::variant<Heading, Paragraph, Item, Table>;
  static std::string text_of(const Part& part, bool colour);
  static std::string markdown_of(const Part& part);
  std::vector<Part> parts_;
};

// Figures as the cells of a report's tables. What is not known is unknown_cell.

inline constexpr auto unknown_cell = "-";

/// Writes three digits that count: 0.0123, 4.56, 789, 12345.
std::string short_number(double value);
std::string short_number(const std::optional<double>& value, double factor = 1);

/// "97.31 %"
std::string share(const std::optional<double>& value);
/// "+8.1 %", or "+7.0 % to +9.2 %"; of stalls seconds per 1000 requests, "+2.1".
std::string change(statistics::Figure figure, const std::optional<double>& value);
std::string change(statistics::Figure figure, const std::optional<statistics::Interval>& interval);

/// Leaves out an interval that begins below 0, where the figure cannot lie.
std::string with_interval(const std::optional<statistics::Measured>& measured, double factor = 1);
/// Writes a figure in the unit that suits it: "27.2 ms", "1.50 s" or "104"; of stalls "12.3".
std::string figure(statistics::Figure figure, const std::optional<double>& value);
/// Writes the quantiles, and how many values they are of.
std::string quantiles(const statistics::Distribution& distribution, double factor);

}  // namespace weir::metrics::compare::report
