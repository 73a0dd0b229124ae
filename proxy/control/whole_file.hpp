// Writes a file so that a crash at any time leaves the old one or the new one.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace weir::proxy::control {

/// Writes the file of that name in the directory, first beside it as NAME.new. The text has reached the disk when the
/// call returns. Returns "", or the system's word for why it is not written; then nothing is left of it.
std::string write_whole(const std::string& directory, std::string_view name, std::string_view text, mode_t mode);

/// Writes over the file of that name where it lies, which a full disk allows as long as the text needs no more blocks.
/// A crash meanwhile leaves a damaged file. Returns what write_whole returns; then the file may be damaged, too.
std::string write_over(const std::string& directory, std::string_view name, std::string_view text);

}  // namespace weir::proxy::control
