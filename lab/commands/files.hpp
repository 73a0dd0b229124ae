// Reads the files that commands are given. A file that cannot be read is a std::runtime_error with a sentence
// (lab/exit_status.hpp).
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "lab/json_fields.hpp"

namespace weir::lab::commands {

/// Opens `path`; the sentence calls it `what`, such as "the request log ".
inline std::ifstream opened(const std::string& what, const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + what + path);
  return file;
}

inline std::string text_in(std::istream& file) { return {std::istreambuf_iterator<char>(file), {}}; }

/// Returns the report of `weir-lab load --json` that is in a file, valid until the next JSON is read.
inline JsonObject report_in(std::istream&& file, const std::string& path) {
  const auto report = object_of(text_in(file));
  if (!report) throw std::runtime_error(path + " is no report of `weir-lab load --json`");
  return *report;
}

}  // namespace weir::lab::commands
