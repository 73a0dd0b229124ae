// Reads any text as a file of clients' keys. It is taken, with names and hashes that are all different, or every error
// says where it is and what is wrong, in order, and shows neither a key nor a hash, wherever they stand.
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
#include "tests/fuzz/key_shapes.hpp"

namespace {

using namespace weir::config;
using weir::fuzz::base64url;
using weir::fuzz::has_run;
using weir::fuzz::hex_digits;
using weir::fuzz::must;
using weir::fuzz::shows_a_secret;

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void must_be_keys(const std::vector<ClientKey>& keys) {
  must(!keys.empty(), "somebody can enter");
  std::set<std::string> names;
  std::set<std::array<std::uint8_t, 32>> hashes;
  for (const ClientKey& key : keys) {
    must(!key.name.empty() && key.name.size() <= 64 && is_one_line(key.name), "a name can stand in a log");
    must(names.insert(key.name).second, "a name is a key's own");
    must(!has_run(key.name, "", hex_digits, 64), "a name is no hash");
    must(key.name.size() != 48 || !has_run(key.name, "weir-", base64url, 43), "a name is no key");
    must(hashes.insert(key.sha256).second, "a hash is a key's own");
    must(key.share >= least_share && key.share <= most_share, "a share is within its bounds");
    must(!key.max_in_flight || (*key.max_in_flight >= 1 && *key.max_in_flight <= 1'000'000),
         "a key may have some requests, and not any number");
    std::set<std::string> models;
    for (const auto& model : key.models) {
      must(!model.empty() && model.size() <= longest_key_model, "a model is not cut in a request");
      must(models.insert(model).second, "a model is named once");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const KeysResult loaded = load_keys(text, "keys.toml"), again = load_keys(text, "keys.toml");
  must(loaded.index() == again.index(), "the same text is taken again");
  if (const auto* keys = std::get_if<std::vector<ClientKey>>(&loaded)) {
    must(*keys == std::get<std::vector<ClientKey>>(again), "the same text says the same");
    must_be_keys(*keys);
    return 0;
  }
  const auto& errors = std::get<std::vector<SettingsError>>(loaded);
  must(!errors.empty(), "a refusal has an error");
  std::pair<unsigned, unsigned> before{0, 0};
  for (const SettingsError& error : errors) {
    must(error.file == "keys.toml" && error.line <= lines, "an error names its place");
    must(std::pair(error.line, error.column) >= before, "errors are in order");
    before = {error.line, error.column};
    must(!error.message.empty() && is_one_line(error.message), "an error is one line");
    must(!shows_a_secret(error.message), "an error shows neither a key nor a hash");
  }
  return 0;
}
