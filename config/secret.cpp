#include "config/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace weir::config {
namespace {

constexpr std::size_t longest_secret = 4096;

/// True for what goes into a header as it is. No secret has a blank; weir itself writes the one in "Bearer SECRET".
bool is_secret(std::string_view text) {
  return !text.empty() && text.size() <= longest_secret &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

constexpr std::string_view it_is =
    "1 to 4096 printable ASCII characters without blanks, and without the word \"Bearer\", which is added where it is "
    "sent";

/// Reads at most one byte more than a secret and its newline may have. Returns nothing if the system refuses; errno
/// says why.
std::optional<std::string> begin_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat status {};
  std::array<char, longest_secret + 3> part{};
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

/// True if every user may go to the file's directory: on another way they are kept out before the file itself.
bool all_may_enter(const std::filesystem::path& file) {
  std::error_code error;
  for (auto way = std::filesystem::canonical(file, error); !error && way != way.root_path();) {
    way = way.parent_path();
    const auto status = std::filesystem::status(way, error);
    if ((status.permissions() & std::filesystem::perms::others_exec) == std::filesystem::perms::none) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> exposed_secrets(const std::vector<std::string>& files) {
  std::vector<std::string> lines;
  for (const auto& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0 || (status.st_mode & (S_IROTH | S_IWOTH)) == 0 || !all_may_enter(file))
      continue;
    const auto* const verb = (status.st_mode & S_IROTH) == 0   ? "alter"
                             : (status.st_mode & S_IWOTH) == 0 ? "read"
                                                               : "read and alter";
    lines.push_back(file + ": holds a secret, and every user of this machine may " + verb +
                    " it; `chmod o= FILE` ends that");
  }
  return lines;
}

Parsed<std::string> SecretText::operator()(const toml::node& node) const {
  if (const auto* text = node.as_string(); text && is_secret(text->get())) return text->get();
  return Problem{"must be " + std::string(what) + " in quotes: " + std::string(it_is)};
}

Parsed<std::string> SecretFile::operator()(const toml::node& node) const {
  const auto* path = node.as_string();
  if (!path || path->get().empty() || path->get().find('\0') != std::string::npos) {
    return Problem{"must be the path of a file in quotes, which holds " + std::string(what) + " and nothing else"};
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
  if (is_secret(*text)) return std::move(*text);
  return Problem{std::string(text->empty() ? "the file is empty" : "the file holds something else") + "; put " +
                 std::string(what) + " into it, in one line: " + std::string(it_is)};
}

}  // namespace weir::config
