// Lines of thirteen of Shakespeare's sonnets (18, 29, 30, 33, 55, 60, 65, 71, 73, 104, 106, 116 and 130), which are in
// the public domain. sonnets.txt is part of the program.
#pragma once

#include <span>
#include <string_view>

namespace weir::lab::tasks {

/// No line is empty, and no two are alike.
std::span<const std::string_view> sonnet_lines();

}  // namespace weir::lab::tasks
