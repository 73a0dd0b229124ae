#include "proxy/net/completion.hpp"

#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "proxy/net/awaitable.hpp"
#include "tests/unit/no_memory.hpp"

namespace weir::proxy::net {
namespace {

TEST(Completion, TellsWhatIsKeptOnce) {
  Completion<int> completion;
  EXPECT_FALSE(completion);
  std::vector<int> told;
  completion.keep([&](int news) { told.push_back(news); });
  EXPECT_TRUE(completion);
  completion.resume(1);
  EXPECT_FALSE(completion);
  EXPECT_EQ(told, std::vector{1});
}

TEST(Completion, MayBeKeptAnewByWhoIsTold) {
  Completion<int> completion;
  std::vector<int> told;
  completion.keep([&](int news) {
    told.push_back(news);
    completion.keep([&](int next) { told.push_back(10 * next); });
  });
  completion.resume(1);
  ASSERT_TRUE(completion) << "the handler of the next operation is lost";
  completion.resume(2);
  EXPECT_EQ(told, (std::vector{1, 20}));
}

TEST(Completion, TellsLaterFromItsExecutor) {
  boost::asio::io_context context;
  Completion<int> completion;
  std::vector<int> told;
  completion.keep(boost::asio::bind_executor(context, [&](int news) { told.push_back(news); }));
  completion.tell(3);
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(completion);
  context.poll();
  EXPECT_EQ(told, std::vector{3});
}

TEST(Completion, GoesWithItsOwner) {
  std::vector<int> told;
  const auto alive = std::make_shared<int>(0);
  {
    Completion<int> first;
    first.keep([&, alive](int news) { told.push_back(news); });
    Completion<int> second(std::move(first));
    EXPECT_FALSE(first);
    first.keep([&, alive](int news) { told.push_back(10 * news); });
    first = std::move(second);
    EXPECT_EQ(alive.use_count(), 2) << "the handler before is gone";
    EXPECT_FALSE(second);
    first.resume(1);
    EXPECT_EQ(alive.use_count(), 1);
    second.keep([alive](int) {});
  }
  EXPECT_EQ(told, std::vector{1});
  EXPECT_EQ(alive.use_count(), 1);
}

#ifndef WEIR_SANITIZED
TEST(Completion, NeedsNoMemory) {
  boost::asio::io_context context;
  Completion<> completion;
  bool over = false, failed = false;
  boost::asio::co_spawn(
      context,
      [&]() -> Awaitable<void> {
        co_await boost::asio::async_initiate<decltype(use_awaitable), void()>(
            [&](auto handler) {
              no_memory::fail_at(0);
              completion.keep(std::move(handler));
              failed = no_memory::has_failed();
            },
            use_awaitable);
        over = true;
      },
      boost::asio::detached);
  context.poll();
  EXPECT_FALSE(failed);
  ASSERT_TRUE(completion);
  completion.resume();
  EXPECT_TRUE(over);
}

TEST(Completion, TellsThoughThereIsNoMemoryForAMoment) {
  bool failed = true;
  for (std::size_t nth = 0; failed; ++nth) {
    boost::asio::io_context context;
    Completion<int> completion;
    std::vector<int> told;
    told.reserve(1);
    completion.keep(boost::asio::bind_executor(context, [&told](int news) { told.push_back(news); }));
    no_memory::fail_at(nth);
    completion.tell(3);
    failed = no_memory::has_failed();
    EXPECT_TRUE(told.empty());
    context.poll();
    EXPECT_EQ(told, std::vector{3}) << "the handler is lost, allocation " << nth;
    ASSERT_LT(nth, 100u);
  }
}

TEST(Completion, ThatWasToldGoesWithItsContext) {
  const auto alive = std::make_shared<int>(0);
  {
    boost::asio::io_context context;
    Completion<> completion;
    completion.keep(boost::asio::bind_executor(context, [alive] {}));
    completion.tell();
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}
#endif

}  // namespace
}  // namespace weir::proxy::net
