// Opens the files that a command reads.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace weir::lab {

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

}  // namespace weir::lab
