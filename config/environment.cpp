#include "config/environment.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "config/show.hpp"

namespace weir::config {
namespace {

constexpr std::string_view opening = "${";

bool is_variable(std::string_view name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", digits = "0123456789";
  return !name.empty() && digits.find(name.front()) == std::string_view::npos &&
         name.find_first_not_of(std::string(letters) + std::string(digits)) == std::string_view::npos;
}

class Replacing {
 public:
  explicit Replacing(Report& report) : report_(report) {}

  /// `title` is the table's, as errors name it.
  void table(toml::table& table, const std::string& path, bool in_list) {
    const auto title = path.empty() ? "" : in_list ? "[[" + path + "]] " : '[' + path + "] ";
    for (auto&& [key, value] : table) {
      const std::string name(key.str());
      visit(value, title + show_key(name), path.empty() ? name : path + '.' + name, false);
    }
  }

 private:
  void visit(toml::node& node, const std::string& shown_key, const std::string& path, bool in_list) {
    if (auto* const inner = node.as_table()) return table(*inner, path, in_list);
    if (auto* const list = node.as_array()) {
      for (auto& one : *list) visit(one, shown_key, path, true);
      return;
    }
    auto* const text = node.as_string();
    if (text == nullptr || text->get().find(opening) == std::string::npos) return;
    if (auto put = put_together(node, text->get(), shown_key)) {
      report_.note_written(node, text->get());
      text->get() = std::move(*put);
    } else {
      report_.give_up(node);
    }
  }

  std::optional<std::string> put_together(const toml::node& node, std::string_view text, const std::string& key) {
    const auto refuse = [&](const std::string& problem) { report_.add(node.source().begin, key + ": " + problem); };
    std::string out;
    bool right = true;
    while (!text.empty()) {
      const auto at = text.find(opening);
      const auto before = text.substr(0, at);
      out.append(before);
      if (at == std::string_view::npos) break;
      text.remove_prefix(at + opening.size());
      if (before.ends_with('$')) {
        out.append("{");
        continue;
      }
      const auto end = text.find('}');
      const auto name = text.substr(0, end);
      if (end == std::string_view::npos || !is_variable(name)) {
        refuse(
            "holds a \"${\" that names no variable of the environment; write \"${NAME}\" with letters, digits and _, "
            "or "
            "\"$${\" for a \"${\" that stands for itself");
        return std::nullopt;
      }
      text.remove_prefix(end + 1);
      const std::string variable(name);
      if (const char* const value = std::getenv(variable.c_str())) {
        out.append(value);
      } else {
        refuse("the environment has no variable " + variable +
               "; set it where weir is started, or write the value here");
        right = false;
      }
    }
    return right ? std::optional(out) : std::nullopt;
  }

  Report& report_;
};

}  // namespace

void put_environment(toml::table& root, Report& report) { Replacing(report).table(root, "", false); }

}  // namespace weir::config
