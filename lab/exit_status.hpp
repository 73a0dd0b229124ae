// How a command of the lab ends: what went wrong as a sentence on standard error, and the exit status.
#pragma once

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace weir::lab {

/// Returns what `run` returns, which is an exit status. After std::invalid_argument it is 2: what was asked for is
/// wrong; after any other exception 1. `command` is "weir-lab load".
template <class Run>
int exit_status(std::string_view command, const Run& run) {
  try {
    return run();
  } catch (const std::invalid_argument& e) {
    std::cerr << command << ": " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << command << ": " << e.what() << "\n";
    return 1;
  }
}

/// Says so if not all of a command's reports and logs were `written` whole. Returns `written`.
inline bool said_unless(bool written, std::string_view command) {
  if (!written) std::cerr << command << ": a report or log could not be written whole; is the disk full?\n";
  return written;
}

}  // namespace weir::lab
