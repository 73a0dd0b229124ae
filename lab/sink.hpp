// Where a command writes besides its table: a file, standard output, or nowhere.
#pragma once

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

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

/// Says so if not all of a command's reports and logs were `written` whole. Returns `written`.
inline bool said_unless(bool written, std::string_view command) {
  if (!written) std::cerr << command << ": a report or log could not be written whole; is the disk full?\n";
  return written;
}

}  // namespace weir::lab
