// Reads one TOML table key by key, and refuses the keys that no code has asked for in the end.
//
// The keys that are asked for are the known ones, and each has its text where it is asked for. So there is no second
// list of keys that could differ from the code that reads them. A run of the readers with a Reference in the report
// describes every key: then each table is there, and empty.
#pragma once

#include <toml++/toml.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "config/parsed.hpp"
#include "config/reference.hpp"

namespace weir::config {

/// Collects the errors of one file as they are found.
class Report {
 public:
  explicit Report(std::string file, Reference* reference = nullptr) : file_(std::move(file)), reference_(reference) {}
  /// Returns what the readers describe their keys to; null where they read a file.
  Reference* reference() const { return reference_; }
  /// Keys and hashes of clients in the message are cut: somebody may have put one where something else belongs.
  void add(toml::source_position at, const std::string& message);
  /// Adds the errors of another file that this one names. They come last.
  void add_all(std::vector<SettingsError> of_other_file);
  /// Says what stood in the file where a value was put together from the environment. Errors show that.
  void note_written(const toml::node& value, std::string written) { written_[&value] = std::move(written); }
  /// Says that the value could not be put together. It has its error, and gets no other.
  void give_up(const toml::node& value) { given_up_.insert(&value); }
  bool is_given_up(const toml::node& value) const { return given_up_.contains(&value); }
  /// Returns the value as an error shows it.
  std::string shown(const toml::node& value) const;
  /// Notes that a file holds a secret; or that this value is one, so that the file itself holds it unless it comes from
  /// the environment.
  void note_secret_file(const std::string& path) { secret_files_.insert(path); }
  void note_secret(const toml::node& value) {
    if (!written_.contains(&value)) secret_files_.insert(file_);
  }
  const std::set<std::string>& secret_files() const { return secret_files_; }
  bool empty() const { return errors_.empty() && of_other_files_.empty(); }
  /// Returns the errors in order of line and column.
  std::vector<SettingsError> take();

 private:
  std::string file_;
  Reference* reference_;
  std::vector<SettingsError> errors_, of_other_files_;
  std::map<const toml::node*, std::string> written_;
  std::set<const toml::node*> given_up_;
  std::set<std::string> secret_files_;
};

/// Tells where each name of a kind stands in the file.
using Places = std::map<std::string, const toml::node*, std::less<>>;

/// Returns "in line 7".
std::string in_line(const toml::node& node);

/// A TableReader lives as long as its table is read; the table and the report outlive it.
class TableReader {
 public:
  /// Errors name the table by `title`, as it is written in the file: "[limits]", "[[pool]]"; "" for the whole file.
  TableReader(std::string title, const toml::table& table, Report& report)
      : title_(std::move(title)), table_(table), report_(report) {}

  /// Reads `key` into `value` if it is there; `kind` is as in config/values.hpp. Returns the node if it was there and
  /// right, so that rules about more than one value can blame it. The reference has the value that was there before,
  /// the kind and the text.
  template <class T, class Kind>
  const toml::node* read(std::string_view key, T& value, const Kind& kind, const About& about);

  /// Reads a value that no error may show.
  template <class T, class Kind>
  const toml::node* read_secret(std::string_view key, T& value, const Kind& kind, const About& about);

  /// Reads a secret that stands at `key`, or in a file of its own at `file_key`; not in both. Problems call it `what`
  /// and, where both are there, say `why_not_both`. Returns the node, if one was there and right.
  const toml::node* read_secret_or_file(std::string_view key, std::string_view file_key, std::string& secret,
                                        std::string_view what, std::string_view why_not_both, const About& about,
                                        const About& about_file);

  /// Notes that the file at this path holds a secret.
  void note_secret_file(const std::string& path) { report_.note_secret_file(path); }

  /// Reads a key that has to be there; `why` says what it is for.
  template <class T, class Kind>
  const toml::node* require(std::string_view key, T& value, const Kind& kind, std::string_view why, const About& about);

  /// Reads a list of such values; a single value stands for a list of one. Calls `accept(node, value)` for each right
  /// one. `initial` has the values that stand where the key is absent, or is `no_list` where absence is no empty list.
  template <class List, class Kind, class Accept>
  const toml::node* read_list(std::string_view key, const List& initial, const Kind& kind, const Accept& accept,
                              const About& about);

  /// Reads a list of values that no error may show.
  template <class List, class Kind, class Accept>
  const toml::node* read_secret_list(std::string_view key, const List& initial, const Kind& kind, const Accept& accept,
                                     const About& about);

  /// Returns the table that stands at `key` as [key]; an empty one if there is none. The text describes the table.
  const toml::table& table(std::string_view key, const About& about);

  /// Returns the tables that stand at `key` as [[key]].
  std::vector<const toml::table*> tables(std::string_view key, const About& about);

  /// Refuses a key that earlier versions had; `instead` says what to do.
  void refuse_gone(std::string_view key, std::string_view instead);

  /// True if the key is in the file, right or wrong.
  bool has(std::string_view key) const { return table_.contains(key); }

  /// Reports "TITLE KEY = VALUE: problem", at the value.
  void blame(std::string_view key, const toml::node& value, std::string_view problem);

  /// Reports "TITLE KEY: problem", at the value, without the value.
  void blame_secret(std::string_view key, const toml::node& value, std::string_view problem);

  /// Reports "TITLE: problem", at the table's head.
  void blame_table(std::string_view problem);

  /// Notes that `name` stands at `value`, and blames `value` if another one has it; `why` says what a name is for.
  void refuse_taken(std::string_view key, const toml::node& value, std::string name, Places& taken,
                    std::string_view why);

  /// Refuses the keys that are left, after the caller has asked for everything that is known.
  void refuse_the_rest();

 private:
  using Blame = void (TableReader::*)(std::string_view key, const toml::node& value, std::string_view problem);

  template <class T, class Kind>
  const toml::node* read_or(Blame blame_it, std::string_view key, T& value, const Kind& kind, const About& about);
  template <class List, class Kind, class Accept>
  const toml::node* read_list_or(Blame blame_it, std::string_view key, const List& initial, const Kind& kind,
                                 const Accept& accept, const About& about);
  const toml::node* find(std::string_view key);
  void describe(std::string_view key, const std::string& kind, const std::string& initial, const About& about);
  void describe_table(std::string_view key, const std::string& title, const About& about);
  std::string prefix() const { return title_.empty() ? std::string() : title_ + ' '; }
  std::string header_of(std::string_view key, std::string_view open, std::string_view close) const;

  std::string title_;
  const toml::table& table_;
  Report& report_;
  std::vector<std::string_view> known_;
  std::vector<std::string> gone_;
};

/// Stands for the initial value of a list that is not empty where its key is absent, but any.
struct NoList {};
inline constexpr NoList no_list;

namespace detail {

/// Writes a value as the file has it; "" if it stands for none.
template <class Kind, class T>
std::string written(const Kind& kind, const T& value) {
  if constexpr (requires { kind.written(value); }) return kind.written(value);
  if constexpr (requires { kind.written(*value); }) return value ? kind.written(*value) : std::string();
  return {};
}

template <class Kind, class List>
std::string list_written(const Kind& kind, const List& values) {
  std::string all;
  if constexpr (!std::is_same_v<List, NoList>) {
    for (const auto& one : values) all += (all.empty() ? "" : ", ") + written(kind, one);
    all = '[' + all + ']';
  }
  return all;
}

}  // namespace detail

template <class T, class Kind>
const toml::node* TableReader::read(std::string_view key, T& value, const Kind& kind, const About& about) {
  return read_or(&TableReader::blame, key, value, kind, about);
}

template <class T, class Kind>
const toml::node* TableReader::read_secret(std::string_view key, T& value, const Kind& kind, const About& about) {
  return read_or(&TableReader::blame_secret, key, value, kind, about);
}

template <class T, class Kind>
const toml::node* TableReader::read_or(Blame blame_it, std::string_view key, T& value, const Kind& kind,
                                       const About& about) {
  if constexpr (requires { kind.type(); }) {
    if (report_.reference() != nullptr) describe(key, kind.type(), detail::written(kind, value), about);
  }
  const auto* node = find(key);
  if (!node) return nullptr;
  auto parsed = kind(*node);
  if (const auto* problem = std::get_if<Problem>(&parsed)) {
    (this->*blame_it)(key, *node, problem->text);
    return nullptr;
  }
  value = std::get<0>(std::move(parsed));
  return node;
}

template <class T, class Kind>
const toml::node* TableReader::require(std::string_view key, T& value, const Kind& kind, std::string_view why,
                                       const About& about) {
  const auto* node = read(key, value, kind, About(about, true));
  if (!has(key)) blame_table(std::string(key) + " is missing; " + std::string(why));
  return node;
}

template <class List, class Kind, class Accept>
const toml::node* TableReader::read_list(std::string_view key, const List& initial, const Kind& kind,
                                         const Accept& accept, const About& about) {
  return read_list_or(&TableReader::blame, key, initial, kind, accept, about);
}

template <class List, class Kind, class Accept>
const toml::node* TableReader::read_secret_list(std::string_view key, const List& initial, const Kind& kind,
                                                const Accept& accept, const About& about) {
  return read_list_or(&TableReader::blame_secret, key, initial, kind, accept, about);
}

template <class List, class Kind, class Accept>
const toml::node* TableReader::read_list_or(Blame blame_it, std::string_view key, const List& initial, const Kind& kind,
                                            const Accept& accept, const About& about) {
  if constexpr (requires { kind.type(); }) {
    if (report_.reference() != nullptr)
      describe(key, "list: " + kind.type(), detail::list_written(kind, initial), about);
  }
  const auto* node = find(key);
  if (!node) return nullptr;
  const auto element = [&](const toml::node& one) {
    auto parsed = kind(one);
    if (const auto* problem = std::get_if<Problem>(&parsed)) {
      (this->*blame_it)(key, one, problem->text);
    } else {
      accept(one, std::get<0>(std::move(parsed)));
    }
  };
  if (const auto* list = node->as_array()) {
    for (const auto& one : *list) element(one);
  } else {
    element(*node);
  }
  return node;
}

}  // namespace weir::config
