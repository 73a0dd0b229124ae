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

}  // namespace
}  // namespace weir::proxy::net
