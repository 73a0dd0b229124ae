#include "config/syntax.hpp"

#include <string_view>

#include "config/key_shape.hpp"
#include "config/show.hpp"

namespace weir::config {
namespace {

/// What toml++ says of a mistake, and what helps. The first that fits counts.
constexpr struct {
  std::string_view says, way_out;
} ways_out[] = {
    {"header: cannot redefine", "a table stands in the file once; each of several has two brackets, such as [[pool]]"},
    {"cannot redefine", "it is there already; remove one, or write the header of the next table between them"},
    {"escape sequence", "in double quotes \\ begins an escape; write a path in single quotes or with /"},
    {"unicode scalar", "in double quotes \\ begins an escape; write a path in single quotes or with /"},
    {"parsing string", "a text ends in the line in which it begins, with the same quote"},
    {"parsing literal string", "a text ends in the line in which it begins, with the same quote"},
    {"table header", "the header of a table stands alone in its line: [server], [[pool]]"},
    {"expected '='", "a line is KEY = VALUE"},
    {"root table", "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #"},
    {"expected comma or closing", "put a comma between the values of a list, and ] behind the last"},
    {"comment or whitespace", "nothing but a comment behind # may follow a value"},
    {"expected value, saw", "a value is missing behind the =; an empty text is \"\""},
    {"utf-8", "save the file as UTF-8"},
    {"while parsing", "text stands in quotes, and so do addresses and numbers with a unit; true and false do not"},
};

std::string_view way_out(std::string_view description) {
  for (const auto& one : ways_out)
    if (description.find(one.says) != std::string_view::npos) return one.way_out;
  return {};
}

}  // namespace

SettingsError syntax_error(const std::string& file, const toml::parse_error& error) {
  constexpr std::string_view start = "Error ";  // toml++ mostly begins with "Error while parsing ...".
  const auto said = error.description();
  std::string message = said.starts_with(start) ? "syntax error " + std::string(said.substr(start.size()))
                                                : "syntax error: " + std::string(said);
  if (const auto advice = way_out(said); !advice.empty()) message.append("; ").append(advice);
  const auto at = error.source().begin;
  return {file, at.line, at.column, without_keys_and_hashes(one_line(message))};
}

}  // namespace weir::config
