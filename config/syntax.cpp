#include "config/syntax.hpp"

#include <algorithm>
#include <array>

#include "config/key_shape.hpp"
#include "config/show.hpp"
#include "config/url.hpp"

namespace weir::config {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Returns line `number` of the text, without its end.
std::string_view line_of(std::string_view toml, unsigned number) {
  for (; number > 1; --number) {
    const auto end = toml.find('\n');
    if (end == std::string_view::npos) return {};
    toml.remove_prefix(end + 1);
  }
  return toml.substr(0, toml.find('\n'));
}

/// Returns the part of a line that stands before a column.
std::string_view before(std::string_view line, unsigned column) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  std::size_t length = 0;
  for (unsigned passed = 0; length < line.size(); ++length) {
    if (begins(line[length]) && ++passed == column) break;
  }
  return line.substr(0, length);
}

/// Returns the bare key that a text ends with; "KEY" if there is none.
std::string key_at_end(std::string_view text) {
  text = trimmed(text);
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const auto other = text.find_last_not_of(bare);
  const auto key = text.substr(other == std::string_view::npos ? 0 : other + 1);
  return key.empty() || key.size() > 64 ? "KEY" : std::string(key);
}

/// Returns the text between the first ' and the next one: toml++ names tables and keys so.
std::string_view named_in(std::string_view description) {
  const auto begin = description.find('\'');
  if (begin == std::string_view::npos) return {};
  const auto name = description.substr(begin + 1);
  return name.substr(0, name.find('\''));
}

/// An error, in its line.
struct Mistake {
  std::string_view toml;
  SyntaxPlace at;
  std::string_view line;
  std::string_view description;

  bool says(std::string_view words) const { return contains(description, words); }
};

/// Returns the word with which a value begins, in small letters.
std::string first_word(std::string_view value) {
  return lower(value.substr(0, value.find_first_of(" \t\r,]}#")));
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string unquoted_value(const Mistake& mistake) {
  const auto upto = before(mistake.line, mistake.at.column);
  const auto equals = upto.rfind('=');
  if (equals == std::string_view::npos) return "text stands in quotes: \"...\"";
  const auto key = key_at_end(upto.substr(0, equals));
  const auto value = trimmed(mistake.line.substr(equals + 1));
  if (value.starts_with('=')) return "one = is enough: " + key + " = ...";
  const bool in_list = value.starts_with('[');
  const auto word = first_word(trimmed(in_list ? value.substr(1) : value));
  if (is_one_of(word, {"true", "false", "yes", "no", "on", "off"})) {
    return "write " + key + " = true or " + key + " = false, in small letters and without quotes";
  }
  if (is_one_of(word, {"null", "none", "nil"})) return "TOML has no such value; leave the line out";
  if (word.starts_with("\u201c") || word.starts_with("\u201d") || word.starts_with("\u2018") ||
      word.starts_with("\u2019")) {
    return "these quotes are typographic ones; write straight ones: " + key + " = \"...\"";
  }
  return "text stands in quotes, and so do addresses and numbers with a unit: " + key +
         (in_list ? " = [\"...\", \"...\"]" : " = \"...\"");
}

std::string unclosed_text(const Mistake& mistake) {
  const auto line = trimmed(mistake.line);
  if (line.ends_with("\\\"")) {
    return "the \\ before the last quote makes it a part of the text; write a path in single quotes or with /, or end "
           "it "
           "with \\\\";
  }
  if (!mistake.says("end-of-file") && before(mistake.line, mistake.at.column).size() < mistake.line.size() &&
      mistake.line.substr(before(mistake.line, mistake.at.column).size()) != "\r") {
    return "remove the control character, or write it as an escape such as \\t";
  }
  const auto opening = line.find_first_of("\"'");
  const std::string quote(1, opening == std::string_view::npos ? '"' : line[opening]);
  return "the closing quote is missing: " + key_at_end(line.substr(0, line.find('='))) + " = " + quote + "..." + quote;
}

/// Several tables of these names may exist, each below a header of its own with two brackets.
constexpr std::array<std::string_view, 3> list_tables = {"pool", "pool.replica", "slo"};

std::string wrong_table(const Mistake& mistake) {
  const std::string name(named_in(mistake.description));
  if (std::find(list_tables.begin(), list_tables.end(), name) == list_tables.end()) {
    return "put its keys together under one [" + name + "]";
  }
  std::string advice = "each of several begins with two brackets: write [[" + name + "]] every time";
  if (name == "pool") advice += ", and above its [[pool.replica]]";
  return advice;
}

std::string key_twice(const Mistake& mistake) {
  const auto name = named_in(mistake.description);
  unsigned first = 0;  // The key stands on this line, below the header of the mistake's table.
  auto rest = mistake.toml;
  for (unsigned line = 1; line < mistake.at.line; ++line) {
    const auto text = trimmed(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
    if (text.starts_with('[')) first = 0;
    if (text.starts_with(name) && trimmed(text.substr(name.size())).starts_with('=')) first = line;
  }
  if (first == 0) return "it is there already; remove one";
  return "it stands in line " + std::to_string(first) +
         " already; remove one, or write the header of the next table, such as [[pool.replica]], between them";
}

std::string missing_equals(const Mistake& mistake) {
  const auto line = trimmed(mistake.line);
  if (line.starts_with("- "))
    return "this is YAML; in TOML a list of tables is written [[pool]], with KEY = VALUE below";
  const auto upto = before(mistake.line, mistake.at.column);
  const bool colon = mistake.line.substr(upto.size()).starts_with(':');
  auto key_text = trimmed(line.substr(0, line.find_first_of(colon ? ":" : " \t")));
  if (key_text.starts_with('"')) key_text = key_text.substr(1, key_text.find('"', 1) - 1);
  const auto key = key_at_end(key_text);
  return colon ? "a key and its value are parted by = instead of a colon: " + key + " = ..."
               : "a = is missing between key and value: " + key + " = ...";
}

std::string not_a_key(const Mistake& mistake) {
  const auto line = trimmed(mistake.line);
  if (line.starts_with('/') || line.starts_with(';')) return "a comment begins with #";
  if (line.starts_with('{')) return "this is JSON; in TOML each line is KEY = VALUE, below the header of its table";
  return "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #";
}

/// Returns what to do, or "" if toml++'s words suffice.
std::string way_out(const Mistake& mistake) {
  if (mistake.says("while parsing table header")) {
    if (mistake.says("cannot redefine")) return wrong_table(mistake);
    if (mistake.says("saw ']'") || mistake.says("expected ']'")) {
      return "a header has as many brackets behind its name as before it: [server], [[pool]]";
    }
    return mistake.says("comment or whitespace") ? "the header of a table stands alone in its line" : "";
  }
  if (mistake.says("cannot redefine")) return key_twice(mistake);
  if (mistake.says("escape sequence") || mistake.says("unicode scalar")) {
    return "in double quotes \\ begins an escape; write a path in single quotes or with /, or each \\ twice";
  }
  if (mistake.says("parsing string") || mistake.says("parsing literal string")) return unclosed_text(mistake);
  if (mistake.says("expected '='")) return missing_equals(mistake);
  if (mistake.says("expected value, saw")) return "a value is missing behind the =; an empty text is \"\"";
  if (mistake.says("root table")) return not_a_key(mistake);
  if (mistake.says("inline table") && mistake.line.find('}') == std::string_view::npos) {
    return "what begins with { ends with } in the same line; write a longer table below a header";
  }
  if (mistake.says("expected comma or closing ']'")) {
    return "put a comma between the values of a list, a quote on both sides of each text, and ] behind the last";
  }
  if (mistake.says("expected a comment or whitespace")) return "nothing but a comment behind # may follow a value";
  if (mistake.says("parsing array")) return "a list that begins with [ ends with ]";
  if (mistake.says("utf-8")) return "save the file as UTF-8";
  if (mistake.says("leading zeroes")) return "write the number without them";
  for (const auto* kind : {"value", "boolean", "floating-point", "decimal integer", "time", "date"}) {
    if (mistake.says("while parsing " + std::string(kind) + ":")) return unquoted_value(mistake);
  }
  return "";
}

}  // namespace

std::string syntax_message(std::string_view toml, SyntaxPlace at, std::string_view description) {
  constexpr std::string_view start = "Error ";  // toml++ mostly begins with "Error while parsing ...".
  const bool usual = description.starts_with(start);
  std::string message = usual ? "syntax error " + std::string(description.substr(start.size()))
                              : "syntax error: " + std::string(description);
  const auto advice = way_out({toml, at, line_of(toml, at.line), description});
  if (!advice.empty()) message += "; " + advice;
  return without_keys_and_hashes(one_line(message));
}

}  // namespace weir::config
