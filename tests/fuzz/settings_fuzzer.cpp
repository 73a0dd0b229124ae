// Reads any text as a settings file. It is taken, or every error says where it is and what is wrong, in order, and
// shows neither a client's key nor its hash, wherever they stand; and the same text always says the same. What is taken
// is listed without a whole hash.
//
// An input is the text.
#include <algorithm>
#include <utility>
#include <variant>

#include "config/load.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/key_shapes.hpp"

namespace {

using namespace weir::config;
using weir::fuzz::must;
using weir::fuzz::shows_a_secret;

bool is_one_line(const std::string& text) {
  return text.find_first_of(std::string_view("\0\n\r\t\x1b", 5)) == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const LoadResult loaded = load_text(text, "f.toml"), again = load_text(text, "f.toml");
  must(loaded.index() == again.index(), "the same text is taken again");
  if (const auto* settings = std::get_if<Settings>(&loaded)) {
    must(*settings == std::get<Settings>(again), "the same text says the same");
    must(!settings->pools.empty(), "settings have a pool");
    const Listing listing = listing_of(*settings);
    for (const auto& listed : listing)
      for (const auto& key : listed.keys)
        must(key.key != "exclude_keys" || !shows_a_secret(key.value), "a listing shows no whole hash");
    must(difference(listing, listing_of(std::get<Settings>(again))).empty(), "equal settings do not differ");
    return 0;
  }
  const auto& errors = std::get<std::vector<SettingsError>>(loaded);
  must(!errors.empty(), "a refusal has an error");
  std::pair<unsigned, unsigned> before{0, 0};
  for (const SettingsError& error : errors) {
    must(!error.file.empty(), "an error names its file");
    must(!error.message.empty() && is_one_line(error.message), "an error is one line");
    must(error.text().starts_with(error.file), "an error begins with its place");
    must(!shows_a_secret(error.message), "an error shows neither a key nor a hash");
    if (error.file != "f.toml") continue;  // It is of a file that the text names.
    must(error.line <= lines, "an error's line is in the file");
    must(std::pair(error.line, error.column) >= before, "errors are in order");
    before = {error.line, error.column};
  }
  return 0;
}
