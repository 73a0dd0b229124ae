#include "config/table_reader.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "config/key_shape.hpp"
#include "config/nearest.hpp"
#include "config/secret.hpp"
#include "config/show.hpp"

namespace weir::config {

void Report::add(toml::source_position at, const std::string& message) {
  errors_.push_back({file_, at.line, at.column, without_keys_and_hashes(message)});
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
  std::string path(title_);
  std::erase_if(path, [](char c) { return c == '[' || c == ']'; });
  if (!path.empty()) path += '.';
  return std::string(open) + path + std::string(key) + std::string(close);
}

const toml::table& TableReader::table(std::string_view key) {
  static const toml::table nothing;
  const auto* node = find(key);
  if (!node) return nothing;
  if (const auto* found = node->as_table()) return *found;
  blame(key, *node, "must be a table; write " + header_of(key, "[", "]") + " on a line of its own");
  return nothing;
}

std::vector<const toml::table*> TableReader::tables(std::string_view key) {
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

std::string in_line(const toml::node& node) { return "in line " + std::to_string(node.source().begin.line); }

void TableReader::blame(std::string_view key, const toml::node& value, std::string_view problem) {
  if (report_.is_given_up(value)) return;
  report_.add(value.source().begin,
              prefix() + std::string(key) + " = " + report_.shown(value) + ": " + std::string(problem));
}

void TableReader::blame_secret(std::string_view key, const toml::node& value, std::string_view problem) {
  if (report_.is_given_up(value)) return;
  report_.add(value.source().begin, prefix() + std::string(key) + ": " + std::string(problem));
}

void TableReader::refuse_taken(std::string_view key, const toml::node& value, std::string name, Places& taken,
                               std::string_view why) {
  const auto [first, is_new] = taken.try_emplace(std::move(name), &value);
  if (!is_new) blame(key, value, "is taken " + in_line(*first->second) + "; " + std::string(why));
}

void TableReader::refuse_gone(std::string_view key, std::string_view instead) {
  const auto* const node = table_.get(key);
  if (node == nullptr) return;
  gone_.emplace_back(key);
  report_.add(node->source().begin, prefix() + std::string(key) + ": is no setting any more; " + std::string(instead));
}

void TableReader::blame_table(std::string_view problem) {
  report_.add(table_.source().begin, title_ + ": " + std::string(problem));
}

void TableReader::refuse_the_rest() {
  for (const auto& [key, value] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
    if (std::find(gone_.begin(), gone_.end(), key.str()) != gone_.end()) continue;
    // The value is not shown: it may be a secret that another version of weir uses.
    auto message = prefix() + show_key(key.str()) + ": unknown key; ";
    if (const auto meant = nearest(key.str(), known_); !meant.empty()) {
      message += "did you mean " + std::string(meant) + "?";
    } else {
      message += "known here are";
      for (const auto known : known_) message += (known == known_.front() ? " " : ", ") + std::string(known);
    }
    report_.add(key.source().begin, std::move(message));
  }
}

const toml::node* TableReader::read_secret_or_file(std::string_view key, std::string_view file_key, std::string& secret,
                                                   std::string_view what, std::string_view why_not_both) {
  const auto* const written = read_secret(key, secret, SecretText{what});
  const auto* const in_file = read_secret(file_key, secret, SecretFile{what});
  if (in_file != nullptr && has(key)) blame_secret(file_key, *in_file, why_not_both);
  if (written != nullptr) report_.note_secret(*written);
  if (in_file != nullptr) report_.note_secret_file(in_file->ref<std::string>());
  return written != nullptr ? written : in_file;
}

}  // namespace weir::config
