#include "config/keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "config/load.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

using Hash = std::array<std::uint8_t, 32>;

/// SHA-256 of no bytes at all, which a slip of the pen hashes: `printf '' | sha256sum`.
constexpr Hash of_nothing{0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                          0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                          0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};

std::optional<std::uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

Parsed<Hash> read_hash(const toml::node& node) {
  const Problem problem{
      "must be the SHA-256 of the key in 64 hex digits, as weir key new and weir key hash print it, and not the key"};
  const auto* text = node.as_string();
  Hash bytes{};
  if (text == nullptr || text->get().size() != 2 * bytes.size()) return problem;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digit(text->get()[2 * i]), low = digit(text->get()[2 * i + 1]);
    if (!high || !low) return problem;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  if (bytes == of_nothing) return Problem{"is the hash of nothing; give that of a key, as weir key new NAME prints it"};
  return bytes;
}

/// Whoever has a hash can try out whether a key that he guesses is the right one, so none is shown whole.
std::string begin_of(const Hash& bytes) {
  std::string hex;
  for (std::size_t i = 0; i < 4; ++i) hex += {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15]};
  return hex + "...";
}

constexpr Reads<Hash> hash{read_hash, "64 hex digits", begin_of};

/// Reads the name of a key. The log has it, so it is neither the key nor its hash.
Parsed<std::string> read_key_name(const toml::node& node) {
  auto parsed = name(node);
  if (const auto* text = std::get_if<std::string>(&parsed); text != nullptr && looks_like_key_or_hash(*text))
    return Problem{"looks like a key or its hash, and the log would show it; name the client: name = \"alice\""};
  return parsed;
}

constexpr Reads<std::string> key_name{read_key_name, "name"};

class KeyReading {
 public:
  explicit KeyReading(Report& report) : report_(report) {}

  /// What the table does not set is as in `otherwise`.
  ClientKey key(const toml::table& source, ClientKey key = {}) {
    TableReader table("[[key]]", source, report_);
    table.read_name(key.name, key_name, names_, "the log names the client by it: name = \"alice\"",
                    "What log and pages call the client. Unique in the file. It must not look like a key or its hash.",
                    "names are unique in the file; while a client changes its key it has two, such as alice and "
                    "alice-2");
    if (const auto* node = table.read_secret(
            "sha256", key.sha256, hash,
            About("SHA-256 of the key's bytes, as `weir key new` prints it: all that weir knows of a key.", true))) {
      const std::string bytes(key.sha256.begin(), key.sha256.end());
      if (const auto [first, is_new] = hashes_.try_emplace(bytes, node); !is_new)
        table.blame_secret("sha256", *node,
                           "is that of the key " + in_line(*first->second) +
                               " as well, and a key has one name; remove "
                               "one of them, or make another key with weir key new NAME");
    }
    if (!table.has("sha256")) table.blame_table("sha256 is missing; weir key new NAME makes a key and prints its hash");
    read_models(table, key);
    table.read("max_in_flight", key.max_in_flight, Whole<std::uint32_t>{1, 1'000'000},
               "The most requests of this key under way or waiting. Beyond it: 429 with `Retry-After`.");
    table.read("share", key.share, Number{least_share, most_share},
               "While requests wait, a key with 2 gets twice as many tokens as one with 1, in pools with `fair_by = "
               "\"key\"`.");
    table.refuse_the_rest();
    return key;
  }

 private:
  static void read_models(TableReader& table, ClientKey& key) {
    const auto* list = table.read_list(
        "models", key.models, Text{longest_key_model},
        [&](const toml::node& node, std::string model) {
          if (std::ranges::find(key.models, model) != key.models.end())
            table.blame("models", node, "is in this list twice; remove one");
          key.models.push_back(std::move(model));
        },
        "Models that the key may use, and that `/v1/models` lists for it; without it all. Other "
        "models, and bodies that engines could read in two ways, get 403.");
    if (list != nullptr && list->is_array() && list->as_array()->empty())
      table.blame("models", *list, "names no model; name those that the key may use, or leave it out for all");
  }

  Report& report_;
  Places names_, hashes_;
};

std::vector<const toml::table*> tables_of_keys(TableReader& file) {
  return file.tables("key", About("Of the file that `server.api_keys` names: a table for each key. `weir key new` "
                                  "makes one: [guide](../guides/keys.md).",
                                  true));
}

}  // namespace

Reference keys_reference() {
  Reference reference;
  Report report("", &reference);
  const toml::table nothing;
  TableReader table("", nothing, report);
  KeyReading reading(report);
  for (const auto* one : tables_of_keys(table)) reading.key(*one);
  return reference;
}

KeysResult load_keys(std::string_view toml, const std::string& file) {
  try {
    const auto root = toml::parse(toml, std::string_view(file));
    Report report(file);
    TableReader table("", root, report);
    KeyReading reading(report);
    std::vector<ClientKey> keys;
    for (const auto* one : tables_of_keys(table)) keys.push_back(reading.key(*one));
    table.refuse_the_rest();
    if (keys.empty() && report.empty())
      report.add({}, "no [[key]] in the file, so that no client could use weir; weir key new NAME makes one");
    if (!report.empty()) return report.take();
    return keys;
  } catch (const toml::parse_error& error) {
    return std::vector{syntax_error(file, error)};
  }
}

void list_keys(const SharedList<ClientKey>& keys, Report& report) {
  const std::string file = "server.api_keys";
  report.listing()->push_back({file, "", {}});
  KeyReading reading(report);
  for (const auto& key : keys) {
    report.listing()->push_back({"key " + key.name, file, {}});
    reading.key(no_table, key);
  }
}

namespace {

constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view key_start = "weir-";
constexpr std::size_t hash_length = 64, key_length = 43, shown_of_hash = 8;
constexpr std::size_t shortest_part = 32;

std::size_t run_of(std::string_view characters, std::string_view text) {
  return std::min(text.find_first_not_of(characters), text.size());
}

bool consists_of(std::string_view characters, std::size_t length, std::string_view text) {
  return text.size() == length && run_of(characters, text) == length;
}

}  // namespace

bool looks_like_key_or_hash(std::string_view text) {
  return consists_of(hex_digits, hash_length, text) ||
         (text.starts_with(key_start) && consists_of(base64url, key_length, text.substr(key_start.size())));
}

std::string without_keys_and_hashes(std::string_view text) {
  std::string result;
  // `shown` characters stay of the next `length`. What was cut before ends with dots already.
  const auto take = [&](std::size_t shown, std::size_t length) {
    result += text.substr(0, shown);
    text.remove_prefix(length);
    if (shown < length && !text.starts_with("...")) result += "...";
  };
  while (!text.empty()) {
    const auto digits = run_of(hex_digits, text);
    const auto key = text.starts_with(key_start) ? run_of(base64url, text.substr(key_start.size())) : 0;
    if (key >= shortest_part) {
      take(key_start.size(), key_start.size() + key);
    } else if (digits >= shortest_part) {
      take(shown_of_hash, digits);
    } else {
      const auto length = std::max<std::size_t>(digits, 1);
      take(length, length);
    }
  }
  return result;
}

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
