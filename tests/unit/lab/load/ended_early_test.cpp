#include "lab/load/ended_early.hpp"

#include <gtest/gtest.h>

#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

Result answer(std::uint64_t wanted, std::uint64_t told) {
  Result result = made_result({.events = 3, .output_tokens = told});
  result.output_target = wanted;
  return result;
}

TEST(EndedEarly, CountsAnswersThatTheirEngineSaysWereShorter) {
  EndedEarly early;
  early.add(answer(5, 5));
  early.add(answer(5, 6));
  early.add(answer(5, 0));  // Its engine told nothing.
  Result failed = answer(5, 4);
  failed.outcome = "reset";
  early.add(failed);
  EXPECT_EQ(early.warning(), std::nullopt);
  early.add(answer(5, 4));
  EXPECT_EQ(early.warning()->substr(0, 16), "1 of 3 answers h");
}

}  // namespace
}  // namespace weir::lab::load
