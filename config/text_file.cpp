#include "config/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

namespace weir::config {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Returns why a path cannot be such a file, or "" if it may be. The path is checked before it is opened, because a
/// pipe would keep its reader waiting.
std::string not_a_file(const std::string& path, const KindOfFile& kind) {
  namespace fs = std::filesystem;
  const auto write_them = "; write the " + std::string(kind.holds) + " to a file and name that";
  if (path == "-") return "standard input is not read" + write_them;
  std::error_code error;
  switch (fs::status(path, error).type()) {
    case fs::file_type::directory:
      return "it is a directory; name the file in it, such as \"" + (fs::path(path) / kind.usual_name).string() + '"';
    case fs::file_type::fifo:
      return "it is a pipe" + write_them;
    case fs::file_type::character:
    case fs::file_type::block:
      return "it is a device" + write_them;
    case fs::file_type::socket:
      return "it is a socket" + write_them;
    default:
      return {};  // If the file is not there, opening it gives the best error.
  }
}

}  // namespace

Parsed<std::string> read_text_file(const std::string& path, const KindOfFile& kind) {
  const auto system_says = [](int error) { return Problem{std::error_code(error, std::generic_category()).message()}; };
  if (auto why = not_a_file(path, kind); !why.empty()) return Problem{std::move(why)};
  const File file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) return system_says(errno);
  std::string text;
  std::array<char, 16'384> part;
  while (const auto length = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), length);
    if (text.size() > kind.most_mib * 1024 * 1024)
      return Problem{"it is larger than " + std::to_string(kind.most_mib) + " MiB"};
  }
  if (std::ferror(file.get()) != 0) return system_says(errno);
  return text;
}

}  // namespace weir::config
