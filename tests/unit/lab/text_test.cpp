#include <gtest/gtest.h>

#include "lab/text.hpp"

namespace weir::lab {
namespace {

TEST(JsonFields, AreReadByTypeAndOfTwoTheLastCounts) {
  const auto object = object_of(R"({"a":1,"b":-2.5,"c":"text","d":true,"e":null,"a":7})");
  ASSERT_TRUE(object);
  EXPECT_EQ(count_of(*object, "a"), 7u);
  EXPECT_EQ(number_of(*object, "b"), -2.5);
  EXPECT_EQ(count_of(*object, "b"), 0u) << "it is negative";
  EXPECT_EQ(text_at(*object, "c"), "text");
  EXPECT_TRUE(flag_at(*object, "d"));
  EXPECT_EQ(number_of(*object, "c"), std::nullopt);
  EXPECT_EQ(text_at(*object, "a"), "");
  EXPECT_FALSE(flag_at(*object, "e") || flag_at(*object, "f"));
  for (const char* const text : {"", "[1]", "nonsense", "{} {}"}) {
    EXPECT_FALSE(object_of(text)) << text;
    EXPECT_EQ(object_or_empty(text).size(), 0u) << text;
  }
}

}  // namespace
}  // namespace weir::lab
