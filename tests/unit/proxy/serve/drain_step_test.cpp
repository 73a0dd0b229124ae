#include "proxy/serve/drain_step.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::serve {
namespace {

TEST(DrainStep, WaitsThenCutsThenStops) {
  const struct {
    std::size_t left;
    bool late, cutting;
    DrainStep step;
  } rows[]{
      {0, false, false, DrainStep::stop}, {0, true, false, DrainStep::stop},  {0, false, true, DrainStep::stop},
      {0, true, true, DrainStep::stop},   {1, false, false, DrainStep::wait}, {1, true, false, DrainStep::cut},
      {1, false, true, DrainStep::wait},  {1, true, true, DrainStep::stop},   {9, true, false, DrainStep::cut},
  };
  for (const auto& row : rows)
    EXPECT_EQ(drain_step(row.left, row.late, row.cutting), row.step)
        << row.left << " left, late " << row.late << ", cutting " << row.cutting;
}

}  // namespace
}  // namespace weir::proxy::serve
