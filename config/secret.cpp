#include "config/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "config/values.hpp"

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
  struct stat status{};
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
    struct stat status{};
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

namespace {

constexpr std::string_view opening = "${";

bool is_variable(std::string_view name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", digits = "0123456789";
  return !name.empty() && digits.find(name.front()) == std::string_view::npos &&
         name.find_first_not_of(std::string(letters) + std::string(digits)) == std::string_view::npos;
}

class Replacing {
 public:
  explicit Replacing(Report& report) : report_(report) {}

  /// `title` is the table's, as errors name it.
  void table(toml::table& table, const std::string& path, bool in_list) {
    const auto title = path.empty() ? "" : in_list ? "[[" + path + "]] " : '[' + path + "] ";
    for (auto&& [key, value] : table) {
      const std::string name(key.str());
      visit(value, title + show_key(name), path.empty() ? name : path + '.' + name, false);
    }
  }

 private:
  void visit(toml::node& node, const std::string& shown_key, const std::string& path, bool in_list) {
    if (auto* const inner = node.as_table()) return table(*inner, path, in_list);
    if (auto* const list = node.as_array()) {
      for (auto& one : *list) visit(one, shown_key, path, true);
      return;
    }
    auto* const text = node.as_string();
    if (text == nullptr || text->get().find(opening) == std::string::npos) return;
    if (auto put = put_together(node, text->get(), shown_key)) {
      report_.note_written(node, text->get());
      text->get() = std::move(*put);
    } else {
      report_.give_up(node);
    }
  }

  std::optional<std::string> put_together(const toml::node& node, std::string_view text, const std::string& key) {
    const auto refuse = [&](const std::string& problem) { report_.add(node.source().begin, key + ": " + problem); };
    std::string out;
    bool right = true;
    while (!text.empty()) {
      const auto at = text.find(opening);
      const auto before = text.substr(0, at);
      out.append(before);
      if (at == std::string_view::npos) break;
      text.remove_prefix(at + opening.size());
      if (before.ends_with('$')) {
        out.append("{");
        continue;
      }
      const auto end = text.find('}');
      const auto name = text.substr(0, end);
      if (end == std::string_view::npos || !is_variable(name)) {
        refuse(
            "holds a \"${\" that names no variable of the environment; write \"${NAME}\" with letters, digits and _, "
            "or "
            "\"$${\" for a \"${\" that stands for itself");
        return std::nullopt;
      }
      text.remove_prefix(end + 1);
      const std::string variable(name);
      if (const char* const value = std::getenv(variable.c_str())) {
        out.append(value);
      } else {
        refuse("the environment has no variable " + variable +
               "; set it where weir is started, or write the value here");
        right = false;
      }
    }
    return right ? std::optional(out) : std::nullopt;
  }

  Report& report_;
};

}  // namespace

void put_environment(toml::table& root, Report& report) { Replacing(report).table(root, "", false); }

}  // namespace weir::config
