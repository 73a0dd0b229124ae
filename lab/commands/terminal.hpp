// What a terminal is shown and a file is not.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace weir::lab::commands {

/// True if standard output may have colours (https://no-color.org).
inline bool coloured() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace weir::lab::commands
