// Formats words and figures for the tables of the lab, and reads numbers.
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/controls.hpp"
#include "config/keys.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/fields.hpp"

namespace weir::lab {

using metrics::counted;
using metrics::with_sign;

/// Returns how a line of a file begins, for an error: without letters that a terminal would obey.
inline std::string beginning_of(std::string_view line) { return config::printable(line.substr(0, 100)); }

/// True for the first line of a file that gzip has made.
inline bool is_compressed(std::string_view first_line) { return first_line.starts_with("\x1f\x8b"); }
inline constexpr std::string_view compressed_file = "the file is compressed: unpack it first, with gunzip";

/// Returns the number that all of a text is. `base` is for whole numbers.
template <class Number>
std::optional<Number> number_in(std::string_view text, auto... base) {
  Number number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return failed == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Opens the files that a command reads.

/// Opens `path`. The sentence of the std::invalid_argument where it cannot be read calls it `what`, as in "the trace ".
inline std::ifstream opened(const std::string& what, const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::error_code unknown;
  if (!file) throw std::invalid_argument("cannot read " + what + path + ": " + std::strerror(errno));
  if (std::filesystem::is_directory(path, unknown))  // It opens, and has no line.
    throw std::invalid_argument("cannot read " + what + path + ": it is a directory; name the file in it");
  return file;
}

// Where a command writes besides its table: a file, standard output, or nowhere.

/// Writes to a file, to standard output for "-", or nowhere for "". Throws std::runtime_error if the file cannot be
/// opened.
class Sink {
 public:
  explicit Sink(const std::string& path) : to_stdout_(path == "-") {
    if (path.empty() || to_stdout_) return;
    config::begin_private(path);
    file_.open(path, std::ios::trunc);
    if (!file_) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
  explicit operator bool() const { return to_stdout_ || file_.is_open(); }
  bool to_stdout() const { return to_stdout_; }
  std::ostream& stream() { return to_stdout_ ? std::cout : file_; }
  bool flush() { return !stream().flush().fail(); }

 private:
  bool to_stdout_;
  std::ofstream file_;
};

/// A file that a command reads or writes: its option, and its path. "" is none.
using NamedFile = std::pair<std::string_view, std::string>;

/// Returns where a file is, or will be: a link may name one that is not there yet.
inline std::filesystem::path place_of(std::filesystem::path path) {
  constexpr int most_links = 40;  // As the kernel follows.
  std::error_code error;
  for (int i = 0; i < most_links && !exists(path, error) && is_symlink(path, error); ++i)
    path = path.parent_path() / read_symlink(path, error);
  return weakly_canonical(path, error);
}

/// True if two paths lead to one file, which may not be there yet. Devices and pipes keep nothing, so they are none.
inline bool is_one_file(const std::string& one, const std::string& other) {
  namespace fs = std::filesystem;
  if (one.empty() || other.empty()) return false;
  std::error_code error;
  if (fs::exists(one, error)) return fs::is_regular_file(one, error) && fs::equivalent(one, other, error);
  const auto place = place_of(one);
  return !place.empty() && place == place_of(other);
}

/// Throws std::invalid_argument if an output is also one of the inputs, which would be lost, or another output: two
/// would run together, in a file as on standard output. To be called before a Sink opens any of them.
inline void refuse_mixed(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  // Standard output may go to a file.
  const auto file_of = [](const std::string& path) { return path == "-" ? "/dev/stdout" : path; };
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto& [option, path] = *output;
    for (const auto& [what, input] : inputs) {
      if (is_one_file(file_of(path), input))
        throw std::invalid_argument(std::string(option) + ": " + path + " is " + std::string(what) +
                                    ", and would be lost; name another file");
    }
    for (auto before = outputs.begin(); before != output; ++before) {
      const bool on_stdout = path == "-" && before->second == "-";
      if (!on_stdout && !is_one_file(file_of(path), file_of(before->second))) continue;
      throw std::invalid_argument(std::string(before->first) + " and " + std::string(option) + " are both " +
                                  (on_stdout
                                       ? "\"-\", and would run together on standard output; give one of them a file"
                                       : file_of(path) + ", and would run together; name another file"));
    }
  }
}

/// Says so if not all of a command's reports and logs were `written` whole. Returns `written`.
inline bool said_unless(bool written, std::string_view command) {
  if (!written) std::cerr << command << ": a report or log could not be written whole; is the disk full?\n";
  return written;
}

using metrics::wire::count_of;
using metrics::wire::field;
using metrics::wire::flag_at;
using metrics::wire::json_in;
using metrics::wire::JsonArray;
using metrics::wire::JsonObject;
using metrics::wire::JsonValue;
using metrics::wire::number_of;
using metrics::wire::object_of;
using metrics::wire::object_or_empty;
using metrics::wire::text_at;
using metrics::wire::value_at;

}  // namespace weir::lab
