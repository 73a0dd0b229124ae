#include "config/api_key.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace weir::config {
namespace {

constexpr std::size_t longest_key = 4096;

/// True for what goes into a header as it is. No key has a blank; weir itself writes the one in "Bearer KEY".
bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= longest_key &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

constexpr std::string_view key_is =
    "1 to 4096 printable ASCII characters without blanks, and without the word \"Bearer\", which weir adds";

/// Reads at most one byte more than a key and its newline may have. Returns nothing if the system refuses; errno says
/// why.
std::optional<std::string> begin_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat status {};
  std::array<char, longest_key + 3> part{};
  std::optional<std::string> text(std::in_place);
  if (::fstat(file, &status) != 0) text.reset();
  if (text && !S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    text.reset();
  }
  while (text && text->size() < part.size()) {
    const auto read = ::read(file, part.data(), part.size() - text->size());
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) text.reset();
    if (read <= 0) break;
    text->append(part.data(), static_cast<std::size_t>(read));
  }
  const int error = errno;
  ::close(file);
  errno = error;
  return text;
}

}  // namespace

Parsed<std::string> api_key(const toml::node& node) {
  if (const auto* text = node.as_string(); text && is_key(text->get())) return text->get();
  return Problem{"must be the replica's key in quotes: " + std::string(key_is)};
}

Parsed<std::string> api_key_file(const toml::node& node) {
  const auto* path = node.as_string();
  if (!path || path->get().empty() || path->get().find('\0') != std::string::npos) {
    return Problem{"must be the path of a file in quotes, which holds the replica's key and nothing else"};
  }
  auto text = begin_of(path->get());
  if (!text) {
    const auto why = errno == EINVAL ? std::string("it is no regular file")
                                     : std::error_code(errno, std::generic_category()).message();
    return Problem{"cannot read this file: " + why +
                   "; give the path of a file that weir may read, from the root or from where weir is started"};
  }
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  if (is_key(*text)) return std::move(*text);
  return Problem{std::string(text->empty() ? "the file is empty" : "the file holds something else than one key") +
                 "; put the replica's key into it, in one line: " + std::string(key_is)};
}

}  // namespace weir::config
