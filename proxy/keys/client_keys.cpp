#include "proxy/keys/client_keys.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "config/keys.hpp"
#include "config/values.hpp"

namespace weir::proxy::keys {
namespace {

metrics::SipKey random_sip_key() {
  metrics::SipKey key;
  static_assert(sizeof key == 16);
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(&key), sizeof key) != 1)
    throw std::runtime_error("the system gives no random numbers for the look-up of clients' keys");
  return key;
}

/// A head has room for more, and to hash it would cost a tenth of a millisecond.
constexpr std::size_t longest = 4096;

std::uint64_t place_of(const metrics::SipKey& secret, const Sha256& hash) {
  return metrics::sip_hash(secret, {reinterpret_cast<const char*>(hash.data()), hash.size()});
}

/// Returns the key in this table whose secret has this hash; null if there is none.
template <class Table>
auto* found_in(Table& keys, const metrics::SipKey& secret, const Sha256& hash) {
  const auto [begin, end] = keys.equal_range(place_of(secret, hash));
  const auto found = std::find_if(begin, end, [&](const auto& one) {
    return ::CRYPTO_memcmp(one.second.settings.sha256.data(), hash.data(), hash.size()) == 0;
  });
  return found == end ? nullptr : &found->second;
}

}  // namespace

bool ClientKey::may_use(std::string_view model) const {
  return settings.models.empty() || std::ranges::find(settings.models, model) != settings.models.end();
}

std::uint32_t ClientKey::of_earlier_secrets() const {
  std::uint32_t requests = 0;
  for (const auto* one : earlier) requests += one->requests.load(std::memory_order_relaxed);
  return requests;
}

ClientKeys::ClientKeys(config::SharedList<config::ClientKey> keys, const ClientKeys* before)
    : settings_(std::move(keys)), secret_(random_sip_key()) {
  for (const auto& settings : settings_) {
    auto use = before == nullptr ? nullptr : before->use_of(settings.sha256);
    keys_.emplace(place_of(secret_, settings.sha256),
                  ClientKey{settings, use ? std::move(use) : std::make_shared<KeyUse>()});
  }
  if (before != nullptr) remember(*before);
  for (const auto& [hash, gone] : gone_)
    if (auto* const key = found_in(keys_, secret_, gone.counts_for)) key->earlier.push_back(gone.use.get());
}

/// Takes over the secrets that are none of these keys'.
void ClientKeys::remember(const ClientKeys& before) {
  std::unordered_map<std::string_view, const Sha256*> named;
  for (const auto& settings : settings_) named.emplace(settings.name, &settings.sha256);
  for (const auto& [place, old] : before.keys_) {
    const auto& hash = old.settings.sha256;
    if (key_of(hash) != nullptr) continue;
    const auto same_name = named.find(old.settings.name);
    const bool has_new_secret = same_name != named.end() && before.key_of(*same_name->second) == nullptr;
    gone_.emplace(hash, Gone{old.use, has_new_secret ? *same_name->second : hash});
  }
  for (const auto& [hash, old] : before.gone_) {
    const bool only_here = old.use.use_count() == 1;
    if (only_here || key_of(hash) != nullptr) continue;
    const auto left_now = gone_.find(old.counts_for);
    gone_.emplace(hash, Gone{old.use, left_now == gone_.end() ? old.counts_for : left_now->second.counts_for});
  }
}

const ClientKey* ClientKeys::find(std::string_view credential) const {
  if (credential.empty() || credential.size() > longest) return nullptr;
  return key_of(sha256(credential));
}

const ClientKey* ClientKeys::key_of(const Sha256& hash) const { return found_in(keys_, secret_, hash); }

std::shared_ptr<KeyUse> ClientKeys::use_of(const Sha256& hash) const {
  if (const auto* const key = key_of(hash)) return key->use;
  const auto gone = gone_.find(hash);
  return gone == gone_.end() ? nullptr : gone->second.use;
}

KeySlot::KeySlot(const ClientKey* key) {
  if (key == nullptr) return;
  const auto before = key->use->requests.fetch_add(1, std::memory_order_relaxed);
  if (key->settings.max_in_flight && before + key->of_earlier_secrets() >= *key->settings.max_in_flight) {
    key->use->requests.fetch_sub(1, std::memory_order_relaxed);
    got_ = false;
  } else {
    use_ = key->use;
  }
}

KeySlot::~KeySlot() {
  if (use_) use_->requests.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

template <auto free>
struct Freed {
  void operator()(auto* one) const { free(one); }
};

template <class One>
One* there(One* one) {
  if (one == nullptr) throw std::bad_alloc();
  return one;
}

/// OpenSSL looks its function up by name for each call of SHA256(), and makes a context. Both cost more than the hash.
EVP_MD_CTX& context_of_thread() {
  // A failed initialisation is tried again by the next call.
  static const std::unique_ptr<EVP_MD, Freed<::EVP_MD_free>> function(
      there(::EVP_MD_fetch(nullptr, "SHA256", nullptr)));
  thread_local const std::unique_ptr<EVP_MD_CTX, Freed<::EVP_MD_CTX_free>> context(there(::EVP_MD_CTX_new()));
  if (::EVP_DigestInit_ex2(context.get(), function.get(), nullptr) != 1) throw std::bad_alloc();
  return *context;
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256 hash;
  auto& context = context_of_thread();
  if (::EVP_DigestUpdate(&context, bytes.data(), bytes.size()) != 1 ||
      ::EVP_DigestFinal_ex(&context, hash.data(), nullptr) != 1)
    throw std::bad_alloc();
  return hash;
}

std::string hex(const Sha256& hash) {
  std::string digits;
  for (const auto byte : hash) digits += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return digits;
}

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
