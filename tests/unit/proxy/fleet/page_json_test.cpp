#include "proxy/fleet/page_json.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace weir::proxy::fleet {
namespace {

TEST(PageJson, HasNullForNumbersThatNothingHolds) {
  const struct {
    std::string_view json, tamed;
  } rows[]{
      {R"({"a":1,"b":[2,-3.5e2]})", R"({"a":1,"b":[2,-3.5e2]})"},
      {R"([18446744073709551615,18446744073709551616])", "[18446744073709551615,null]"},
      {R"([-9223372036854775808,-9223372036854775809])", "[-9223372036854775808,null]"},
      {R"([1e308,1e400,-1e400,123456789012345678901234567890])", "[1e308,null,null,null]"},
      {R"({"1e400":"1e400 \"1e400","c":1e400})", R"({"1e400":"1e400 \"1e400","c":null})"},
      {R"(["\\",1e400,"unfinished)", R"(["\\",null,"unfinished)"},
      {R"("\)", R"("\)"},
      {"", ""},
  };
  for (const auto& row : rows) EXPECT_EQ(without_huge_numbers(row.json), row.tamed);
}

TEST(PageJson, IsReadThoughANumberIsHuge) {
  for (const char* const huge :
       {"18446744073709551616", "1e400", "-1e400", "-9223372036854775809", "-99999999999999999999"}) {
    simdjson::dom::parser parser;
    const std::string page = std::string(R"({"seed":)") + huge + R"(,"tokens":100})";
    std::uint64_t tokens = 0;
    EXPECT_FALSE(parse_page(parser, page)["tokens"].get(tokens)) << huge;
    EXPECT_EQ(tokens, 100u);
  }
  simdjson::dom::parser parser;
  EXPECT_TRUE(parse_page(parser, {}).error());
  EXPECT_TRUE(parse_page(parser, R"({"tokens":01})").error());
  EXPECT_TRUE(parse_page(parser, R"({"tokens":1e400)").error());
}

}  // namespace
}  // namespace weir::proxy::fleet
