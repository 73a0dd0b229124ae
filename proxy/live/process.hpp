// The kernel's figures of this process, for /api/live.
#pragma once

#include <optional>

namespace weir::proxy::live {

/// Returns the CPU time of all threads since the start, in seconds.
double cpu_seconds();
/// Returns resident memory. It costs the reading of one small file.
std::optional<double> memory_bytes();
/// Returns how many descriptors are open. It costs a walk through them.
std::optional<double> open_descriptors();
std::optional<double> descriptors_limit();

}  // namespace weir::proxy::live
