// Reads any text as a file of clients' keys. It is taken, with names and hashes that are all different, or every error
// says where it is and what is wrong, in order, and shows no hash.
//
// An input is the text.
#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "config/keys.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace weir::config;
using weir::fuzz::must;

/// Returns the hashes that stand in the text as values, and nowhere else: a name of a key of the file is shown.
std::vector<std::string_view> hashes_in(std::string_view text) {
  constexpr std::string_view before = "sha256 = \"";
  constexpr std::size_t digits = 64;
  std::vector<std::string_view> hashes;
  for (auto at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    const auto hash = text.substr(at + before.size(), digits);
    const bool is_one = hash.size() == digits && hash.find_first_not_of("0123456789abcdef") == hash.npos;
    if (is_one && text.find(hash) == text.rfind(hash)) hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const KeysResult loaded = load_keys(text, "keys.toml"), again = load_keys(text, "keys.toml");
  must(loaded.index() == again.index(), "the same text is taken again");
  if (const auto* keys = std::get_if<std::vector<ClientKey>>(&loaded)) {
    must(*keys == std::get<std::vector<ClientKey>>(again), "the same text says the same");
    must(!keys->empty(), "somebody can enter");
    std::set<std::string> names;
    std::set<std::array<std::uint8_t, 32>> hashes;
    for (const ClientKey& key : *keys) {
      must(!key.name.empty() && names.insert(key.name).second, "a name is a key's own");
      must(hashes.insert(key.sha256).second, "a hash is a key's own");
      must(key.share >= least_share && key.share <= most_share, "a share is within its bounds");
      for (const auto& model : key.models) must(model.size() <= longest_key_model, "a model is not cut in a request");
    }
    return 0;
  }
  const auto& errors = std::get<std::vector<SettingsError>>(loaded);
  must(!errors.empty(), "a refusal has an error");
  const auto hashes = hashes_in(text);
  std::pair<unsigned, unsigned> before{0, 0};
  for (const SettingsError& error : errors) {
    must(error.file == "keys.toml" && error.line <= lines, "an error names its place");
    must(std::pair(error.line, error.column) >= before, "errors are in order");
    before = {error.line, error.column};
    must(!error.message.empty() && error.message.find('\n') == std::string::npos, "an error is one line");
    for (const auto hash : hashes) must(error.message.find(hash) == std::string::npos, "an error shows no hash");
  }
  return 0;
}
