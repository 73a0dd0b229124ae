// Where a command writes besides its table: a file, standard output, or nowhere.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/private_file.hpp"

namespace weir::lab {

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
      throw std::invalid_argument(
          std::string(before->first) + " and " + std::string(option) + " are both " +
          (on_stdout ? "\"-\", and would run together on standard output; give one of them a file"
                     : file_of(path) + ", and would run together; name another file"));
    }
  }
}

/// Says so if not all of a command's reports and logs were `written` whole. Returns `written`.
inline bool said_unless(bool written, std::string_view command) {
  if (!written) std::cerr << command << ": a report or log could not be written whole; is the disk full?\n";
  return written;
}

}  // namespace weir::lab
