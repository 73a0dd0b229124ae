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

/// Control characters in what is added are shown as escapes, because names come from logs.
class Document {
 public:
  /// `about` tells the HTML page which chart belongs under this heading; "" is none.
  void heading(std::string_view text, std::string_view about = {});
  void paragraph(std::string_view text);
  void item(std::string_view text);  ///< Items that follow each other are a list.
  void table(Table table);

  std::string plain() const { return text(false); }
  /// Headings are bold, and the words of verdicts have colours.
  std::string coloured() const { return text(true); }
  std::string markdown() const;
  /// An array of parts: {"heading","about"}, {"paragraph"}, {"item"} or {"table":{"header","rows"}}.
  std::string json() const;

 private:
  struct Heading {
    std::string text, about;
  };
  struct Paragraph {
    std::string text;
  };
  struct Item {
    std::string text;
  };
  using Part = std::variant<Heading, Paragraph, Item, Table>;
  std::string text(bool colour) const;
  bool stands_apart(const Part& part) const;
  std::vector<Part> parts_;
};

}  // namespace weir::metrics::compare::report
