// Headings, sentences and tables, which text for a terminal, Markdown and the HTML page show alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir::metrics::compare::report {

/// The first column is aligned left, the others right.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool operator==(const Table&) const = default;
};

/// How much of a document is shown: without what is folded, or all of it.
enum class Detail { brief, full };
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

  /// Tables break within their cells, and names at any place, so that each line fits. A table of many columns is drawn
  /// as several, each with the first column.
  std::string plain(Detail detail = Detail::full) const { return text(false, detail); }
  /// Headings are bold, and the words of verdicts have colours.
  std::string coloured(Detail detail = Detail::full) const { return text(true, detail); }
  std::string markdown(Detail detail = Detail::full) const;
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
  std::string text(bool colour, Detail detail) const;
  /// Returns the parts that are shown.
  std::vector<const Part*> shown(Detail detail) const;
  std::vector<Part> parts_;
};

}  // namespace weir::metrics::compare::report
