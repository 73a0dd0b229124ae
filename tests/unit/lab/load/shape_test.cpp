#include "lab/load/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::lab::load {
namespace {

TEST(Shape, OfRetrievalHasALongPromptAndAShortAnswer) {
  ASSERT_TRUE(shape("rag"));
  EXPECT_EQ(shape("rag")->input_tokens, 3000);
  EXPECT_EQ(shape("rag")->output_tokens, 200);
  EXPECT_FALSE(shape("ragg"));
}

TEST(Shape, EachIsDescribedWithItsLengths) {
  for (const Shape& one : shapes()) {
    EXPECT_THAT(describe_shapes(),
                testing::HasSubstr(std::string(one.name) + " " + std::to_string(static_cast<int>(one.input_tokens)) +
                                   " in and " + std::to_string(static_cast<int>(one.output_tokens)) + " out"));
  }
}

}  // namespace
}  // namespace weir::lab::load
