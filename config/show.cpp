#include "config/show.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "config/controls.hpp"
#include "config/url.hpp"

namespace weir::config {
namespace {

constexpr std::size_t longest_shown = 80;  // These bytes are enough for a URL, and keep an error on one line.

std::string_view cut(std::string_view text) {
  if (text.size() <= longest_shown) return text;
  std::size_t length = longest_shown;
  const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80; };
  while (length > 0 && continues(length)) --length;  // The cut must not be within a UTF-8 character.
  return text.substr(0, length);
}

std::string in_quotes(std::string_view text) {
  const auto shown = cut(text);
  return '"' + one_line(shown) + (shown.size() < text.size() ? "...\"" : "\"");
}

std::string number(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string result(text.data(), end);
  if (result.find_first_not_of("-0123456789") == std::string::npos)
    result += ".0";  // This keeps 1.0 from being shown
                     // as 1.
  return result;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto control = control_size(text);
    if (control > 0)
      append_escaped(result, text, control, true);
    else
      result += text.front();
    text.remove_prefix(std::max<std::size_t>(control, 1));
  }
  return result;
}

std::string show_text(std::string_view text) { return in_quotes(without_credentials(text)); }

std::string show(const toml::node& value) {
  if (const auto* text = value.as_string()) return show_text(text->get());
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* floating = value.as_floating_point()) return number(floating->get());
  if (const auto* boolean = value.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* list = value.as_array()) return list->empty() ? "[]" : "[...]";
  return value.is_table() ? "{...}" : "a date or time";
}

std::string show_key(std::string_view key) {
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  const bool is_bare =
      !key.empty() && key.size() <= longest_shown && key.find_first_not_of(bare) == std::string_view::npos;
  return is_bare ? std::string(key) : in_quotes(without_credentials(key));
}

}  // namespace weir::config
