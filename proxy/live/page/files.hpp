// The files of the page at the admin listener's "/", as the build has put them into the program (embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace weir::proxy::live::page {

struct File {
  std::string_view path;          ///< "/" is the page itself, the others are below "/page/".
  std::string_view content_type;  ///< As the field of that name has it.
  std::string_view tag;           ///< A weak entity tag of the text (RFC 9110, 8.8.3), with its quotes.
  std::string_view text;
};

std::span<const File> files();

/// Return the page of a saved report, one file: its part before the report's data, and its parts behind them.
std::string_view before_saved();
std::span<const std::string_view> behind_saved();

}  // namespace weir::proxy::live::page
