#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "metrics/memory.hpp"

namespace weir::metrics {
namespace {

struct Large : Recycled<Large> {
  int filled[1000] = {};
};
struct Other : Recycled<Other> {
  int filled[1000] = {};
};

TEST(Recycled, GivesTheNextObjectTheMemoryOfTheOneThatWent) {
  auto first = std::make_unique<Large>();
  const void* const memory = first.get();
  first.reset();
  const auto other = std::make_unique<Other>();
  EXPECT_NE(static_cast<const void*>(other.get()), memory) << "memory of another class";
  const auto second = std::make_unique<Large>();
  EXPECT_EQ(static_cast<const void*>(second.get()), memory);
  const auto third = std::make_unique<Large>();
  EXPECT_NE(static_cast<const void*>(third.get()), memory) << "in use";
}

TEST(Recycled, KeepsTheMemoryOfSeveral) {
  std::set<const void*> memory;
  std::unique_ptr<Large> objects[Large::most_kept];
  for (auto& object : objects) object = std::make_unique<Large>();
  for (auto& object : objects) memory.insert(object.get());
  for (auto& object : objects) object.reset();
  for (auto& object : objects) object = std::make_unique<Large>();
  for (const auto& object : objects) EXPECT_TRUE(memory.contains(object.get()));
}

// AddressSanitizer sees whether memory is lost, or given back twice.
TEST(Recycled, TakesObjectsOfOtherThreadsAndAnyNumberOfThem) {
  std::unique_ptr<Large> objects[Large::most_kept + 3];
  for (auto& object : objects) object = std::make_unique<Large>();
  std::thread([&] {
    for (auto& object : objects) object.reset();
    EXPECT_NE(std::make_unique<Large>(), nullptr);
  }).join();
}

}  // namespace
}  // namespace weir::metrics
