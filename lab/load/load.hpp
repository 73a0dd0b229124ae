// `weir-lab load` sends streamed requests to an OpenAI or TGI service and prints what a client sees.
#pragma once

#include <string>

#include "lab/load/measure.hpp"

namespace weir::lab::load {

/// Where the results go besides the table: files; "-" means standard output, in place of the table; "" means nowhere.
struct LoadOutput {
  std::string json;  ///< The report goes there.
  std::string log;   ///< Each request writes a line there.
};

/// Runs until done or SIGINT/SIGTERM, then prints the table. Returns the exit status: 0; 1 if no request succeeded or a
/// file could not be written; 2 if the settings are wrong.
int run_load(const LoadSettings& settings, const LoadOutput& output);

}  // namespace weir::lab::load
