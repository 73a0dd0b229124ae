// The reference of the settings, collected by the very code that reads them: each key has its text where it is read,
// and a describing run of the readers notes table, key, kind, initial value and text. So there is no second list of
// keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace weir::config
