// Reads one TOML table key by key, and refuses the keys that no code has asked for in the end.
//
// The keys that are asked for are the known ones, and each has its text where it is asked for. So there is no second
// list of keys that could differ from the code that reads them. A run of the readers with a Reference in the report
// describes every key: then each table is there, and empty. In the same way a run over settings that were read lists
// the value of every key.
#pragma once

#include <toml++/toml.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "config/values.hpp"

namespace weir::config {

/// The text of a key or a table in the reference, in Markdown: one to three short sentences. A key without a text does
/// not compile.
class About {
 public:
  template <std::size_t size>
  consteval About(const char (&text)[size], bool is_required = false)
      : text_(text, size - 1), is_required_(is_required) {
    if (size < 2) throw "the text is missing";
  }
  /// The same text, of a key that has to be there.
  constexpr About(const About& other, bool is_required) : text_(other.text_), is_required_(is_required) {}
  constexpr std::string_view text() const { return text_; }
  constexpr bool is_required() const { return is_required_; }

 private:
  std::string_view text_;
  bool is_required_;
};

/// Stands for the text of a key whose file has no generated reference: experiments of weir-lab.
inline constexpr About described_elsewhere{"Its guide describes it."};

struct ReferenceKey {
  std::string name;
  std::string value;          ///< The kind of its values, with range or words: "time, 1ms to 24h".
  std::string initial_value;  ///< As it is written in the file; "" if the key is off unless it is set.
  bool is_required = false;
  std::string text;
  bool operator==(const ReferenceKey&) const = default;
};

struct ReferenceTable {
  std::string title;  ///< As it is written in the file: "[limits]", "[[pool.replica]]".
  std::string text;
  std::vector<ReferenceKey> keys;
};

using Reference = std::vector<ReferenceTable>;

/// Returns all tables of a settings file.
Reference settings_reference();

/// Returns the tables of the file that `server.api_keys` names.
Reference keys_reference();

/// Stands for a table that is not in the file.
inline const toml::table no_table;

/// Collects the errors of one file as they are found.
class Report {
 public:
  explicit Report(std::string file, Reference* reference = nullptr) : file_(std::move(file)), reference_(reference) {}
  /// The readers list the values of their keys in the last table of the listing, in place of reading a file.
  explicit Report(Listing& listing) : reference_(nullptr), listing_(&listing) {}
  /// Returns what the readers describe their keys to; null where they do not.
  Reference* reference() const { return reference_; }
  /// Returns where the readers list their keys; null where they do not.
  Listing* listing() const { return listing_; }
  /// False in a run that describes or lists keys: then no table is in the file.
  bool reads_file() const { return reference_ == nullptr && listing_ == nullptr; }
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
  Listing* listing_ = nullptr;
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
      : report(report), title_(std::move(title)), table_(table) {}

  Report& report;

  /// Reads `key` into `value` if it is there; `kind` is as in config/values.hpp. Returns the node if it was there and
  /// right, so that rules about more than one value can blame it. The reference has the value that was there before,
  /// the kind and the text.
  template <class T, class Kind>
  const toml::node* read(std::string_view key, T& value, const Kind& kind, const About& about);

  /// Reads a value that no error may show.
  template <class T, class Kind>
  const toml::node* read_secret(std::string_view key, T& value, const Kind& kind, const About& about);

  /// Reads a key that has to be there; `why` says what it is for.
  template <class T, class Kind>
  const toml::node* require(std::string_view key, T& value, const Kind& kind, std::string_view why, const About& about);

  /// Reads `name`, which every table of a kind has, and no two the same. `why` says what it is for. A listing has it as
  /// the table's own.
  template <class Kind>
  const toml::node* read_name(std::string& name, const Kind& kind, Places& taken, std::string_view why,
                              const About& about, std::string_view why_unique = "names are unique in the file");

  /// Says whether an error may show the value.
  enum class Shown : bool { no, yes };

  /// Reads a list of such values; a single value stands for a list of one. Calls `accept(node, value)` for each right
  /// one. `values` has those that stand where the key is absent.
  template <class T, class Kind, class Accept>
  const toml::node* read_list(std::string_view key, const std::vector<T>& values, const Kind& kind,
                              const Accept& accept, const About& about, Shown shown = Shown::yes);

  /// Returns the table that stands at `key` as [key]; an empty one if there is none. The text describes the table.
  const toml::table& table(std::string_view key, const About& about);

  /// Returns the tables that stand at `key` as [[key]].
  std::vector<const toml::table*> tables(std::string_view key, const About& about);

  /// Lists a value that was read from more than one key; nothing where a file is read. `written` is "" for none.
  void list(std::string_view key, std::string written, std::optional<std::string> secret = {});

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

  /// Blames a name that is none of these, and says which was meant, or which there are. Returns whether it is one.
  bool is_one_of(std::string_view key, const toml::node& value, std::string_view name,
                 std::span<const std::string_view> names, std::string_view what);

  /// Refuses the keys that are left, after the caller has asked for everything that is known.
  void refuse_the_rest();

 private:
  template <class T, class Kind>
  const toml::node* read_or(Shown shown, std::string_view key, T& value, const Kind& kind, const About& about);
  void refuse(Shown shown, std::string_view key, const toml::node& value, const Problem& problem) {
    shown == Shown::yes ? blame(key, value, problem.text) : blame_secret(key, value, problem.text);
  }
  const toml::node* find(std::string_view key);
  void describe(std::string_view key, const std::string& kind, const std::string& initial, const About& about);
  void describe_table(std::string_view key, const std::string& title, const About& about);
  std::string prefix() const { return title_.empty() ? std::string() : title_ + ' '; }
  std::string header_of(std::string_view key, std::string_view open, std::string_view close) const;

  std::string title_;
  const toml::table& table_;
  std::vector<std::string_view> known_;
};

/// Reads a secret that stands at `key`, or in a file of its own at `file_key`; not in both. Problems call it `what`
/// and, where both are there, say `why_not_both`. Returns the node, if one was there and right.
const toml::node* read_secret_or_file(TableReader& table, std::string_view key, std::string_view file_key,
                                      std::string& secret, std::string_view what, std::string_view why_not_both,
                                      const About& about, const About& about_file);

namespace detail {

/// Writes a value as the file has it; "" if it stands for none.
template <class Kind, class T>
std::string written(const Kind& kind, const T& value) {
  if constexpr (requires { kind.written(value); }) return kind.written(value);
  if constexpr (requires { kind.written(*value); }) return value ? kind.written(*value) : std::string();
  return {};
}

/// Returns a value for people, without the quotes of the file; "" in quotes stays.
inline std::string unquoted(std::string written) {
  if (written != "\"\"") std::erase(written, '"');
  return written;
}

/// Returns the bytes of a secret, which a listing has for comparison alone.
template <class T>
std::string bytes_of(const T& secret) {
  return {secret.begin(), secret.end()};
}

}  // namespace detail

template <class T, class Kind>
const toml::node* TableReader::read(std::string_view key, T& value, const Kind& kind, const About& about) {
  if (report.listing() != nullptr) list(key, detail::unquoted(detail::written(kind, value)));
  return read_or(Shown::yes, key, value, kind, about);
}

template <class T, class Kind>
const toml::node* TableReader::read_secret(std::string_view key, T& value, const Kind& kind, const About& about) {
  if (report.listing() != nullptr) list(key, detail::unquoted(detail::written(kind, value)), detail::bytes_of(value));
  return read_or(Shown::no, key, value, kind, about);
}

template <class T, class Kind>
const toml::node* TableReader::read_or(Shown shown, std::string_view key, T& value, const Kind& kind,
                                       const About& about) {
  if constexpr (requires { kind.type(); }) {
    if (report.reference() != nullptr) describe(key, kind.type(), detail::written(kind, value), about);
  }
  const auto* node = find(key);
  if (!node) return nullptr;
  auto parsed = kind(*node);
  if (const auto* problem = std::get_if<Problem>(&parsed)) {
    refuse(shown, key, *node, *problem);
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

template <class Kind>
const toml::node* TableReader::read_name(std::string& name, const Kind& kind, Places& taken, std::string_view why,
                                         const About& about, std::string_view why_unique) {
  if (report.listing() != nullptr) return nullptr;
  const auto* const node = require("name", name, kind, why, about);
  if (node != nullptr) refuse_taken("name", *node, name, taken, why_unique);
  return node;
}

/// TableReader::is_one_of for the names of tables. Nothing is blamed where all of them have wrong names, which are
/// errors already.
template <class Named>
bool names_one_of(TableReader& table, std::string_view key, const toml::node& value, std::string_view name,
                  const std::vector<Named>& all, std::string_view what) {
  std::vector<std::string_view> names;
  for (const auto& one : all)
    if (!one.name.empty()) names.push_back(one.name);
  return (!names.empty() || all.empty()) && table.is_one_of(key, value, name, names, what);
}

template <class T, class Kind, class Accept>
const toml::node* TableReader::read_list(std::string_view key, const std::vector<T>& values, const Kind& kind,
                                         const Accept& accept, const About& about, Shown shown) {
  if (!report.reads_file()) {
    std::string all, secret;
    for (const auto& one : values) {
      all += (all.empty() ? "" : ", ") + detail::written(kind, one);
      if constexpr (std::is_same_v<T, std::string>) secret += one + '\n';
    }
    if constexpr (requires { kind.type(); }) describe(key, "list: " + kind.type(), '[' + all + ']', about);
    list(key, detail::unquoted('[' + all + ']'), shown == Shown::no ? std::optional(secret) : std::nullopt);
  }
  const auto* node = find(key);
  if (!node) return nullptr;
  const auto element = [&](const toml::node& one) {
    auto parsed = kind(one);
    if (const auto* problem = std::get_if<Problem>(&parsed)) {
      refuse(shown, key, one, *problem);
    } else {
      accept(one, std::get<0>(std::move(parsed)));
    }
  };
  if (const auto* several = node->as_array()) {
    for (const auto& one : *several) element(one);
  } else {
    element(*node);
  }
  return node;
}

// Blames a value of a settings file for what only the program at work can find out.

/// Returns an error about `key` of the table [`table`], as load_file() would give it. The file is read again; without
/// the key there, or if it cannot be read any more, no line is named.
SettingsError blame(const std::string& file, const std::string& table, std::string_view key, std::string_view problem);

}  // namespace weir::config
