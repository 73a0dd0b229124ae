#include "proxy/net/completion.hpp"

#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <vector>

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

}  // namespace
}  // namespace weir::proxy::net
