#include "config/table_reader.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "config/command_line.hpp"
#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

/// Returns "pool.replica.tls" for "[[pool.replica]] tls", as errors call it, and for "[pool.replica.tls]".
std::string name_of_table(std::string_view title) {
  std::string name(title);
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  std::ranges::replace(name, ' ', '.');
  return name;
}

/// Returns "limits" for "[limits]", "health" for "[pool.health]", "tls" for "[[pool.replica]] tls".
std::string last_name_of(std::string_view title) {
  const auto name = name_of_table(title);
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

void Report::add(toml::source_position at, const std::string& message) {
  if (reads_file()) errors_.push_back({file_, at.line, at.column, without_keys_and_hashes(message)});
}

std::vector<SettingsError> Report::take() {
  const auto place = [](const SettingsError& error) { return std::tie(error.line, error.column); };
  std::stable_sort(errors_.begin(), errors_.end(),
                   [&](const SettingsError& a, const SettingsError& b) { return place(a) < place(b); });
  errors_.insert(errors_.end(), std::make_move_iterator(of_other_files_.begin()),
                 std::make_move_iterator(of_other_files_.end()));
  return std::move(errors_);
}

void Report::add_all(std::vector<SettingsError> of_other_file) {
  of_other_files_.insert(of_other_files_.end(), std::make_move_iterator(of_other_file.begin()),
                         std::make_move_iterator(of_other_file.end()));
}

std::string Report::shown(const toml::node& value) const {
  const auto found = written_.find(&value);
  return found == written_.end() ? show(value) : show_text(found->second);
}

const toml::node* TableReader::find(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

/// Writes a key of this table as the header of a table: [limits], [[pool.replica]].
std::string TableReader::header_of(std::string_view key, std::string_view open, std::string_view close) const {
  auto path = name_of_table(title_);
  if (!path.empty()) path += '.';
  return std::string(open) + path + std::string(key) + std::string(close);
}

void TableReader::describe(std::string_view key, const std::string& kind, const std::string& initial,
                           const About& about) {
  if (report.reference() == nullptr) return;
  const auto title = name_of_table(title_);
  for (auto& table : *report.reference())
    if (name_of_table(table.title) == title)
      table.keys.push_back({std::string(key), kind, initial, about.is_required(), std::string(about.text())});
}

void TableReader::describe_table(std::string_view key, const std::string& title, const About& about) {
  if (report.reference() == nullptr) return;
  describe(key, title.starts_with("[[") ? "tables" : "table", "", about);
  report.reference()->push_back({title, std::string(about.text()), {}});
}

const toml::table& TableReader::table(std::string_view key, const About& about) {
  describe_table(key, header_of(key, "[", "]"), about);
  const auto* node = find(key);
  if (!node) return no_table;
  if (const auto* found = node->as_table()) return *found;
  blame(key, *node, "must be a table; write " + header_of(key, "[", "]") + " on a line of its own");
  return no_table;
}

std::vector<const toml::table*> TableReader::tables(std::string_view key, const About& about) {
  describe_table(key, header_of(key, "[[", "]]"), about);
  if (report.reference() != nullptr) return {&no_table};
  std::vector<const toml::table*> result;
  const auto* node = find(key);
  if (!node) return result;
  const auto* list = node->as_array();
  const auto refuse = [&](const toml::node& at) {
    blame(key, at, "must be a list of tables; write " + header_of(key, "[[", "]]") + " on a line of its own");
  };
  if (!list) {
    refuse(*node);
    return result;
  }
  for (const auto& one : *list) {
    if (const auto* found = one.as_table()) {
      result.push_back(found);
    } else {
      refuse(one);
    }
  }
  return result;
}

bool TableReader::is_one_of(std::string_view key, const toml::node& value, std::string_view name,
                            std::span<const std::string_view> names, std::string_view what) {
  if (std::ranges::find(names, name) != names.end()) return true;
  auto problem = "is no " + std::string(what) + "; ";
  if (const auto meant = nearest(name, names); !meant.empty()) {
    problem += "did you mean \"" + std::string(meant) + "\"?";
  } else {
    problem += names.empty() ? "there is none" : "there are";
    for (const auto one : names) problem += (one == names.front() ? " \"" : ", \"") + std::string(one) + '"';
  }
  blame(key, value, problem);
  return false;
}

std::string in_line(const toml::node& node) { return "in line " + std::to_string(node.source().begin.line); }

void TableReader::blame(std::string_view key, const toml::node& value, std::string_view problem) {
  if (report.is_given_up(value)) return;
  report.add(value.source().begin,
             prefix() + std::string(key) + " = " + report.shown(value) + ": " + std::string(problem));
}

void TableReader::blame_secret(std::string_view key, const toml::node& value, std::string_view problem) {
  if (report.is_given_up(value)) return;
  report.add(value.source().begin, prefix() + std::string(key) + ": " + std::string(problem));
}

void TableReader::refuse_taken(std::string_view key, const toml::node& value, std::string name, Places& taken,
                               std::string_view why) {
  const auto [first, is_new] = taken.try_emplace(std::move(name), &value);
  if (!is_new) blame(key, value, "is taken " + in_line(*first->second) + "; " + std::string(why));
}

void TableReader::list(std::string_view key, std::string written, std::optional<std::string> secret) {
  if (report.listing() == nullptr) return;
  // Tables of which there are several have names of their own in the listing.
  auto name = title_.ends_with("]]") ? std::string() : last_name_of(title_) + '.';
  if (written.empty()) written = "none";
  report.listing()->back().keys.push_back({name.append(key), std::move(written), std::move(secret)});
}

void TableReader::blame_table(std::string_view problem) {
  report.add(table_.source().begin, title_ + ": " + std::string(problem));
}

void TableReader::refuse_the_rest() {
  for (const auto& [key, value] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
    if (const auto now = what_holds_now(last_name_of(title_), key.str()); !now.empty()) {
      report.add(key.source().begin,
                 prefix() + std::string(key.str()) + ": is no setting any more; " + std::string(now));
      continue;
    }
    // The value is not shown: it may be a secret that another version of weir uses.
    auto message = prefix() + show_key(key.str()) + ": unknown key; ";
    if (const auto meant = nearest(key.str(), known_); !meant.empty()) {
      message += "did you mean " + std::string(meant) + "?";
    } else {
      message += "known here are";
      for (const auto known : known_) message += (known == known_.front() ? " " : ", ") + std::string(known);
    }
    report.add(key.source().begin, message);
  }
}

const toml::node* read_secret_or_file(TableReader& table, std::string_view key, std::string_view file_key,
                                      std::string& secret, std::string_view what, std::string_view why_not_both,
                                      const About& about, const About& about_file) {
  if (table.report.listing() != nullptr) {
    table.list(key, secret.empty() ? "" : "hidden", secret);
    return nullptr;
  }
  const auto* const written = table.read_secret(key, secret, SecretText{what}, about);
  const auto* const in_file = table.read_secret(file_key, secret, SecretFile{what}, about_file);
  if (in_file != nullptr && table.has(key)) table.blame_secret(file_key, *in_file, why_not_both);
  if (written != nullptr) table.report.note_secret(*written);
  if (in_file != nullptr) table.report.note_secret_file(in_file->ref<std::string>());
  return written != nullptr ? written : in_file;
}

SettingsError blame(const std::string& file, const std::string& table, std::string_view key, std::string_view problem) {
  const auto title = '[' + table + ']';
  const auto text = read_text_file(file, file_of_settings);
  if (const auto* const toml = std::get_if<std::string>(&text)) {
    try {
      auto root = toml::parse(*toml, std::string_view(file));
      Report report(file);
      put_environment(root, report);
      const auto* const found = root.get_as<toml::table>(table);
      if (const auto* const node = found == nullptr ? nullptr : found->get(key)) {
        TableReader(title, *found, report).blame(key, *node, problem);
        return report.take().back();
      }
    } catch (const toml::parse_error&) {
      // The file was written meanwhile.
    }
  }
  return {file, 0, 0, title + ' ' + std::string(key) + ": " + std::string(problem)};
}

}  // namespace weir::config
