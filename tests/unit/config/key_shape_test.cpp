// The shape of a key or a hash, and what is left of it in a text.
#include "config/key_shape.hpp"

#include <gtest/gtest.h>

namespace weir::config {
namespace {

const std::string hash = "0123456789abcdefABCDEF9876543210fedcba0123456789abcdef0123456789";
const std::string whole_key = "weir-0123456789_abcdefghijklmnopq-ABCDEFGHIJKLMN";

TEST(KeyShape, IsThatOfAWholeKeyOrHash) {
  EXPECT_TRUE(looks_like_key_or_hash(hash));
  EXPECT_TRUE(looks_like_key_or_hash(whole_key));
  for (const auto& other : {hash + "0", hash.substr(1), hash.substr(1) + "g", whole_key + "0", whole_key.substr(1),
                            whole_key.substr(0, 47), "Weir-" + whole_key.substr(5), "weir-" + whole_key.substr(6) + "=",
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
      {whole_key, "weir-..."},
      {"x = \"" + hash + "\": " + whole_key + ".", "x = \"01234567...\": weir-...."},
      {hash + hash, "01234567..."},
      {hash + "...\"", "01234567...\""},
      {"z" + hash + "z", "z01234567...z"},
      {"z" + whole_key + " " + whole_key, "zweir-... weir-..."},
      {"weir-" + hash, "weir-..."},
      {hash.substr(0, 32), "01234567..."},
      {hash.substr(0, 31), hash.substr(0, 31)},
      {whole_key.substr(0, 5 + 32), "weir-..."},
      {whole_key.substr(0, 5 + 31), whole_key.substr(0, 5 + 31)},
      {"ab" + whole_key, "abweir-..."},
  };
  for (const auto& [text, shown] : rows) EXPECT_EQ(without_keys_and_hashes(text), shown);
}

}  // namespace
}  // namespace weir::config
