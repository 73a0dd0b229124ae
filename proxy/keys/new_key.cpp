#include "proxy/keys/new_key.hpp"

#include <fcntl.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "config/keys.hpp"
#include "config/secret.hpp"
#include "config/values.hpp"
#include "proxy/keys/client_keys.hpp"

namespace weir::proxy::keys {
namespace {

constexpr int failed = 1, wrong_key = 2;
constexpr std::size_t longest_key = 4096;

std::string base64url(const std::array<unsigned char, 32>& bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0, count = 0;
  for (const auto byte : bytes) {
    bits = bits << 8 | byte;
    for (count += 8; count >= 6; count -= 6) text += letters[bits >> (count - 6) & 63];
  }
  return text + letters[bits << (6 - count) & 63];
}

/// Writes text as a TOML string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return config::one_line(out) + '"';
}

int say(const std::string& problem) {
  std::fprintf(stderr, "weir key new: %s\n", problem.c_str());
  return failed;
}

std::string system_says(int error) { return std::error_code(error, std::generic_category()).message(); }

/// Writes at the end of the file, in one call, so that two that append at the same time do not mix their lines.
int append(const std::string& path, const std::string& lines) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return say("cannot write " + path + ": " + system_says(errno));
  const auto written = ::write(file, lines.data(), lines.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(lines.size());
  if (::close(file) == 0 && whole) return 0;
  return say("cannot write all of " + path + ": " + system_says(error) + "; look at its last lines");
}

/// Returns the file's text; nothing, after an error message, if it cannot be read.
std::optional<std::string> known_in(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return std::string();
  auto text = config::read_text_file(path, config::file_of_keys);
  if (const auto* problem = std::get_if<config::Problem>(&text)) {
    say("cannot read " + path + ": " + problem->text);
    return std::nullopt;
  }
  auto& known = std::get<std::string>(text);
  if (!known.empty() && !known.ends_with('\n')) known += '\n';
  return known;
}

/// Returns whether the file would be right with these lines. Every error is told.
bool would_be_right(const std::string& text, const std::string& file) {
  const auto keys = config::load_keys(text, file);
  const auto* const errors = std::get_if<std::vector<config::SettingsError>>(&keys);
  if (errors == nullptr) return true;
  for (const auto& error : *errors) std::fprintf(stderr, "%s\n", error.text().c_str());
  return false;
}

}  // namespace

std::string random_key() {
  std::array<unsigned char, 32> bytes;
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw std::runtime_error("the system gives no random numbers");
  return "weir-" + base64url(bytes);
}

std::string lines_of(const NewKey& wanted, const std::string& key) {
  std::string lines = "[[key]]\nname = " + quoted(wanted.name) + "\nsha256 = \"" + hex(sha256(key)) + "\"\n";
  if (!wanted.models.empty()) {
    lines += "models = [";
    for (const auto& model : wanted.models) lines += (lines.ends_with('[') ? "" : ", ") + quoted(model);
    lines += "]\n";
  }
  if (wanted.max_in_flight) lines += "max_in_flight = " + std::to_string(*wanted.max_in_flight) + '\n';
  if (wanted.share) lines += "share = " + config::format_number(*wanted.share) + '\n';
  return lines;
}

int make_key(const NewKey& wanted) {
  std::string key;
  try {
    key = random_key();
  } catch (const std::runtime_error& error) {
    return say(error.what());
  }
  const auto known = known_in(wanted.append_to);
  if (!known) return failed;
  const auto lines = lines_of(wanted, key);
  const auto file = wanted.append_to.empty() ? std::string("the new key") : wanted.append_to;
  if (!would_be_right(*known + lines, file)) return wrong_key;
  if (!wanted.append_to.empty()) {
    // A file whose last line has no end gets one.
    std::error_code ignored;
    const auto size = std::filesystem::file_size(wanted.append_to, ignored);
    const bool begins_line = ignored || size == known->size();
    const auto whole = (begins_line ? "" : "\n") + std::string(known->empty() ? "" : "\n") + lines;
    if (const int status = append(wanted.append_to, whole); status != 0) return status;
  }
  std::printf("%s\n", key.c_str());
  std::fflush(stdout);
  std::fprintf(stderr, "\nThis is the key of %s. It is shown this once, and weir knows only its hash.\n",
               wanted.name.c_str());
  if (wanted.append_to.empty())
    std::fprintf(stderr, "Put these lines into the file that api_keys in [server] names, and reload weir:\n\n%s",
                 lines.c_str());
  else
    std::fprintf(stderr, "Its hash stands in %s. Reload weir, and the key is good.\n", wanted.append_to.c_str());
  return 0;
}

int print_hash() {
  std::string key;
  std::array<char, 1024> part;
  while (const auto size = std::fread(part.data(), 1, part.size(), stdin)) {
    key.append(part.data(), size);
    if (key.size() > longest_key + 2) break;
  }
  if (key.ends_with('\n')) key.pop_back();
  if (key.ends_with('\r')) key.pop_back();
  const bool printable = std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || key.size() > longest_key || !printable) {
    std::fprintf(stderr,
                 "weir key hash: standard input must hold one key and nothing else: 1 to 4096 printable ASCII "
                 "characters without blanks\n");
    return wrong_key;
  }
  std::printf("%s\n", hex(sha256(key)).c_str());
  return 0;
}

}  // namespace weir::proxy::keys
