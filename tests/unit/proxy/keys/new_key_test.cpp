#include "proxy/keys/new_key.hpp"

#include <gtest/gtest.h>

#include <set>

#include "config/keys.hpp"
#include "proxy/keys/client_keys.hpp"

namespace weir::proxy::keys {
namespace {

TEST(RandomKey, HasAPrefixAnd256BitsInBase64url) {
  std::set<std::string> all;
  std::set<char> letters;
  for (int i = 0; i < 200; ++i) {
    const auto key = random_key();
    EXPECT_EQ(key.size(), 5u + 43u);
    EXPECT_TRUE(key.starts_with("weir-"));
    for (const char c : key.substr(5)) {
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') << key;
      letters.insert(c);
    }
    all.insert(key);
  }
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(letters.size(), 64u) << "8600 letters that are all alike likely miss none";
}

TEST(LinesOfAKey, AreReadBackAsWhatWasWanted) {
  NewKey wanted;
  wanted.name = "alice";
  wanted.models = {"org/m", "a \"quoted\" \\ one"};
  wanted.max_in_flight = 7;
  wanted.share = 0.25;
  for (const bool all : {true, false}) {
    if (!all) wanted = {.name = "alice", .models = {}, .max_in_flight = {}, .share = {}, .append_to = ""};
    const auto lines = lines_of(wanted, "the-key");
    EXPECT_EQ(lines.find("the-key"), std::string::npos);
    const auto result = config::load_keys(lines, "keys.toml");
    const auto* const keys = std::get_if<std::vector<config::ClientKey>>(&result);
    ASSERT_NE(keys, nullptr) << lines;
    ASSERT_EQ(keys->size(), 1u);
    const auto& key = keys->front();
    EXPECT_EQ(key.name, "alice");
    EXPECT_EQ(key.sha256, sha256("the-key"));
    EXPECT_EQ(key.models, wanted.models);
    EXPECT_EQ(key.max_in_flight, wanted.max_in_flight);
    EXPECT_EQ(key.share, wanted.share.value_or(1));
  }
}

}  // namespace
}  // namespace weir::proxy::keys
