// Writes what a running weir knows of its replicas as a table of at most 100 columns.
#pragma once

#include <string>

namespace weir::proxy::control {

inline constexpr std::size_t status_columns = 100;

/// `answer` is that of GET /api/replicas. Throws std::exception if it is something else.
std::string status_table(const std::string& answer, bool colours);

}  // namespace weir::proxy::control
