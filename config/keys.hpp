// Secrets of the settings: the file of clients' keys, secret files, variables of the environment.
//
// Reads the file of clients' keys that `server.api_keys` names: a [[key]] for each, with its name and its hash.
//
// The file holds no key, so that who reads it can use none. No error shows a hash or a key either, wherever it stands
// by mistake, and neither can be a name. What stands for the hash is not shown at all: it may be a key of any kind.
#pragma once

#include <fcntl.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"

namespace weir::config {

using KeysResult = std::variant<std::vector<ClientKey>, std::vector<SettingsError>>;

/// Reads keys from text; errors give `file` as the name and come all at once, but for a syntax error. No two keys have
/// the same name or the same hash, and there is at least one: else nobody could enter.
KeysResult load_keys(std::string_view toml, const std::string& file);

/// Adds keys to the report's listing. Their table is always there, so that a key that comes or goes is told by its
/// name.
void list_keys(const SharedList<ClientKey>& keys, Report& report);

/// The model that a key may use has fewer bytes than this. weir cuts a longer name in a request, and two cut names
/// could be equal.
inline constexpr std::size_t longest_key_model = 127;
inline constexpr double least_share = 0.1, most_share = 10;

// Knows what a client's key and its hash look like, to keep them out of names and errors.

/// True for 64 hex digits, and for what `weir key new` makes: `weir-` and 43 characters of base64url.
bool looks_like_key_or_hash(std::string_view text);

/// Returns the text with the rest of each hash or key replaced by "...": of a hash 8 digits stay, of a key `weir-`. A
/// part of one counts if it has 32 characters, because errors cut what is long.
std::string without_keys_and_hashes(std::string_view text);

// Reads a secret from the settings or from a file of its own beside them: weir's key for a replica, the admin token.
// Problems never show it.

/// Reads the secret itself, in quotes.
struct SecretText {
  std::string_view what;  ///< Problems call it so: "the replica's key".
  Parsed<std::string> operator()(const toml::node& node) const;
  std::string type() const { return "text"; }
};

/// Takes the path of a file that holds only the secret, and reads the file here. The newline at its end is no part of
/// the secret.
struct SecretFile {
  std::string_view what;
  Parsed<std::string> operator()(const toml::node& node) const;
  std::string type() const { return "file"; }
};

/// Returns a sentence for each of Settings::secret_files that any user of this machine may read or alter.
std::vector<std::string> exposed_secrets(const std::vector<std::string>& files);

// Files that commands write for whoever runs them: they hold figures of a service, names of its keys, or keys.

/// Makes a new file readable for its owner alone, whatever the umask. A file that is there keeps its mode, which its
/// owner chose. To be called before a stream opens the file; the stream tells of errors.
inline void begin_private(const std::string& path) {
  // A pipe without a reader would keep its writer waiting.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, S_IRUSR | S_IWUSR);
  if (file >= 0) ::close(file);
}

// Reads a file of settings or of keys into memory.

/// A kind of file, with the words for the sentence that says the way out. The limit is far above any real file. It
/// keeps a wrong path (a log, a device) from filling the memory.
struct KindOfFile {
  std::string_view holds, usual_name;
  std::size_t most_mib;
};
inline constexpr KindOfFile file_of_settings{"settings", "weir.toml", 1}, file_of_keys{"keys", "keys.toml", 16};

/// Returns the whole file, or why it cannot be read.
Parsed<std::string> read_text_file(const std::string& path, const KindOfFile& kind);

// Puts variables of the environment into settings: `${NAME}` in any string value stands for the variable's value.
//
// Only `${` is special, and `$${` stands for `${` itself. So settings that were written without variables keep their
// meaning. The value that comes in is taken as it is: it is no TOML, and no `${` in it counts.

/// Replaces the variables in every string of the table and of all that is in it; keys stay as they are. A variable that
/// is not set and a `${` that names none are errors. They name the key and the variable, and never show the value,
/// which may be a secret. What a value was put together from is noted in the report. It reads the process's
/// environment.
void put_environment(toml::table& root, Report& report);

}  // namespace weir::config
