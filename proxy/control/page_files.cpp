#include "proxy/control/page_files.hpp"

#include <algorithm>

namespace weir::proxy::control {

const live::page::File* page_file(std::string_view path) {
  const auto all = live::page::files();
  const auto found = std::ranges::find(all, path, &live::page::File::path);
  return found == all.end() ? nullptr : &*found;
}

bool names_tag(std::string_view if_none_match, std::string_view tag) {
  const auto opaque = [](std::string_view one) { return one.starts_with("W/") ? one.substr(2) : one; };
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!if_none_match.empty()) {
    const auto comma = std::min(if_none_match.find(','), if_none_match.size());
    auto one = if_none_match.substr(0, comma);
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
    while (!one.empty() && is_blank(one.front())) one.remove_prefix(1);
    while (!one.empty() && is_blank(one.back())) one.remove_suffix(1);
    if (one == "*" || opaque(one) == opaque(tag)) return true;
  }
  return false;
}

}  // namespace weir::proxy::control
