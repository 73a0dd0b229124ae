#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

void Writer::add(std::vector<Line>& lines, std::string_view text, Style style, std::size_t indent) const {
  const auto width = columns_ > indent + 10 ? columns_ - indent : columns_;
  for (std::size_t part = 0; part == 0 || !text.empty(); ++part) {
    auto size = text.size();
    if (wraps_ && size > width) {
      size = text.rfind(' ', width);
      if (size == text.npos || size == 0) size = width;
    }
    lines.push_back(line());
    lines.back().put(columns_ > width ? indent : 0, text.substr(0, size), style);
    text.remove_prefix(size);
    while (wraps_ && text.starts_with(' ')) text.remove_prefix(1);
    if (!wraps_) break;
  }
}

}  // namespace weir::proxy::top
