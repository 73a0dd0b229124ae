// What counts as a key or a hash, and what is left of it in a text.
#include "config/key_shape.hpp"

#include <gtest/gtest.h>

namespace weir::config {
namespace {

const std::string hash = "0123456789abcdefABCDEF9876543210fedcba0123456789abcdef0123456789";
const std::string key = "weir-0123456789_abcdefghijklmnopq-ABCDEFGHIJKLMN";

TEST(KeyShape, IsThatOfAWholeKeyOrHash) {
  EXPECT_TRUE(looks_like_key_or_hash(hash));
  EXPECT_TRUE(looks_like_key_or_hash(key));
  for (const auto& other : {hash + "0", hash.substr(1), hash.substr(1) + "g", key + "0", key.substr(1),
                            key.substr(0, 47), "Weir-" + key.substr(5), "weir-" + key.substr(6) + "=",
                            std::string("alice"), std::string("weir-frontend"), std::string()})
    EXPECT_FALSE(looks_like_key_or_hash(other)) << other;
}

TEST(KeyShape, IsCutWhereverItStands) {
  const struct {
    std::string text, shown;
  } rows[]{
      {"", ""},
      {"a name", "a name"},
      {hash, "01234567..."},
      {key, "weir-..."},
      {"x = \"" + hash + "\": " + key + ".", "x = \"01234567...\": weir-...."},
      {hash + hash, "01234567..."},
      {hash + "...\"", "01234567...\""},
      {"z" + hash + "z", "z01234567...z"},
      {"z" + key + " " + key, "zweir-... weir-..."},
      {"weir-" + hash, "weir-..."},
      {hash.substr(0, 32), "01234567..."},
      {hash.substr(0, 31), hash.substr(0, 31)},
      {key.substr(0, 5 + 32), "weir-..."},
      {key.substr(0, 5 + 31), key.substr(0, 5 + 31)},
      {"ab" + key, "abweir-..."},
  };
  for (const auto& [text, shown] : rows) EXPECT_EQ(without_keys_and_hashes(text), shown);
}

}  // namespace
}  // namespace weir::config
