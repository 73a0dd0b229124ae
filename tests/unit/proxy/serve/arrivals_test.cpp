#include "proxy/serve/arrivals.hpp"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <stdexcept>
#include <thread>


namespace weir::proxy::serve {
namespace {

TEST(Arrivals, StartsAFewInATurnOfTheLoop) {
  boost::asio::io_context loop{1};
  std::size_t started = 0, before_the_token = 0;
  Arrivals arrivals(loop, [&](NewClient) { ++started; });
  for (std::size_t i = 0; i < 3 * Arrivals::at_once + 1; ++i) arrivals.add(NewClient());
  boost::asio::post(loop, [&] { before_the_token = started; });
  loop.poll();
  EXPECT_EQ(before_the_token, Arrivals::at_once);
  EXPECT_EQ(started, 3 * Arrivals::at_once + 1);
  arrivals.add(NewClient());
  loop.restart();
  loop.poll();
  EXPECT_EQ(started, 3 * Arrivals::at_once + 2) << "one that comes when all have started";
}

TEST(Arrivals, StartsAllThatAnotherThreadHandsOver) {
  constexpr std::size_t all = 1000;
  boost::asio::io_context loop{1};
  std::size_t started = 0;
  auto work = boost::asio::make_work_guard(loop);
  Arrivals arrivals(loop, [&](NewClient) {
    if (++started == all) work.reset();
  });
  std::thread control([&] {
    for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  });
  loop.run();
  control.join();
  EXPECT_EQ(started, all);
}

TEST(Arrivals, OneThatCannotBeStartedTakesNoOtherAlong) {
  boost::asio::io_context loop{1};
  std::size_t tried = 0, failures = 0;
  Arrivals arrivals(loop, [&](NewClient) {
    if (tried++ % 3 == 0) throw std::runtime_error("a test");
  });
  constexpr std::size_t all = 2 * Arrivals::at_once + 1;
  for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  for (bool over = false; !over;) {
    try {
      loop.run();
      over = true;
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  EXPECT_EQ(tried, all);
  EXPECT_EQ(failures, 2u) << "the loop is told of each turn that failed";
}

}  // namespace
}  // namespace weir::proxy::serve
