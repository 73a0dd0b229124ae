// Where a command writes besides its table: a file, standard output, or nowhere.
#pragma once

#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace weir::lab {

/// Writes to a file, to standard output for "-", or nowhere for "". Throws std::runtime_error if the file cannot be
/// opened.
class Sink {
 public:
  explicit Sink(const std::string& path) : to_stdout_(path == "-") {
    if (path.empty() || to_stdout_) return;
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

/// Throws std::invalid_argument if more than one of these outputs, given as option and path, is to be standard output,
/// where they would run together.
inline void refuse_mixed(std::initializer_list<std::pair<std::string_view, std::string_view>> outputs) {
  std::string_view first;
  for (const auto& [option, path] : outputs) {
    if (path != "-") continue;
    if (!first.empty()) {
      throw std::invalid_argument(
          std::string(first) + " and " + std::string(option) +
          " are both \"-\", and would run together on standard output; give one of them a file");
    }
    first = option;
  }
}

/// Says so if not all of a command's reports and logs were `written` whole. Returns `written`.
inline bool said_unless(bool written, std::string_view command) {
  if (!written) std::cerr << command << ": a report or log could not be written whole; is the disk full?\n";
  return written;
}

}  // namespace weir::lab
