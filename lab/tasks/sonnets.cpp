#include "lab/tasks/sonnets.hpp"

#include <vector>

namespace weir::lab::tasks {

extern const std::string_view sonnets_text;  ///< The build makes it of sonnets.txt.

std::span<const std::string_view> sonnet_lines() {
  static const std::vector<std::string_view> lines = [] {
    std::vector<std::string_view> out;
    for (std::string_view left = sonnets_text; !left.empty();) {
      const std::size_t end = left.find('\n');
      out.push_back(left.substr(0, end));
      left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    }
    return out;
  }();
  return lines;
}

}  // namespace weir::lab::tasks
