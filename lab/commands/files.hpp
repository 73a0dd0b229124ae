// Reads the files that commands are given. A file that cannot be read is a std::invalid_argument, and one that holds
// something else a std::runtime_error, with a sentence.
#pragma once

#include <istream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "lab/json_fields.hpp"
#include "lab/source.hpp"

namespace weir::lab::commands {

inline std::string text_in(std::istream& file) { return {std::istreambuf_iterator<char>(file), {}}; }

/// Returns the report of `weir-lab load --json` that is in a file, valid until the next JSON is read.
inline JsonObject report_in(const std::string& path) {
  auto file = opened("the report ", path);
  const auto report = object_of(text_in(file));
  if (!report) throw std::runtime_error(path + " is no report of `weir-lab load --json`");
  return *report;
}

}  // namespace weir::lab::commands
