// How far a drain is, in words, and how it ends.
#include "proxy/serve/shutdown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <thread>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;

TEST(ShutdownProgress, SaysHowManyAreLeftAndHowOldTheyAre) {
  EXPECT_EQ(shutdown_progress({12, 8, std::chrono::seconds(34)}),
            "12 connections are left, 8 requests on them, the oldest for 34 s");
  EXPECT_EQ(shutdown_progress({1, 1, std::chrono::seconds(3)}),
            "1 connection is left, 1 request on it, the oldest for 3 s");
  EXPECT_EQ(shutdown_progress({2, 0, {}}), "2 connections are left, 0 requests on them");
}

TEST(ShutdownStep, WaitsThenCutsThenStops) {
  const struct {
    std::size_t left;
    bool late, cutting;
    ShutdownStep step;
  } rows[]{
      {0, false, false, ShutdownStep::stop}, {0, true, false, ShutdownStep::stop},  {0, false, true, ShutdownStep::stop},
      {0, true, true, ShutdownStep::stop},   {1, false, false, ShutdownStep::wait}, {1, true, false, ShutdownStep::cut},
      {1, false, true, ShutdownStep::wait},  {1, true, true, ShutdownStep::stop},   {9, true, false, ShutdownStep::cut},
  };
  for (const auto& row : rows)
    EXPECT_EQ(shutdown_step(row.left, row.late, row.cutting), row.step)
        << row.left << " left, late " << row.late << ", cutting " << row.cutting;
}

/// The control thread is one of its own, and the test plays the loop.
class ShutdownEnd : public testing::Test {
 protected:
  ShutdownEnd() {
    proxy.plan[0] = {says(sse_head() + chunk(token("a")))};
    for (int i = 0; i < 50; ++i) clients.push_back(proxy.client(post(chat(true))));
    proxy.run();
    drain.on_begin = [this] { ++begun; };
  }
  void start() {
    control = std::thread([this] { status = drain.run(); });
  }
  /// Plays the loop from the cut to the end.
  void end() {
    while (!proxy.shared.cutting.load()) std::this_thread::yield();
    proxy.tick(Clock::now());
    control.join();
  }
  void throw_on_control_thread() {
    asio::post(context, [] { throw std::runtime_error("what a test throws"); });
  }
  void expect_all_told() {
    EXPECT_EQ(begun, 1) << "whoever is to know that weir ends is told once, whatever ends it";
    EXPECT_EQ(proxy.log_lines().size(), clients.size());
    EXPECT_EQ(proxy.exposition.requests().all, clients.size());
    for (const auto& client : clients) {
      EXPECT_TRUE(client->closed());
      EXPECT_THAT(client->got, testing::HasSubstr("limits.drain"));
    }
  }

  ScriptedProxy proxy;
  std::vector<std::shared_ptr<net::Peer>> clients;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  Listeners listeners{context, {}, [](Audience, net::UniqueFd) {}};
  const ServiceManager manager;
  Shutdown drain{context, proxy.shared, {}, listeners, manager};
  std::thread control;
  int status = -1, begun = 0;
};

TEST_F(ShutdownEnd, WaitsForAllThatItCuts) {
  asio::post(context, [this] {
    drain.signalled("SIGTERM");
    drain.signalled("SIGTERM");
    drain.signalled("SIGTERM");
  });
  start();
  end();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(drain.story(), "SIGTERM, then SIGTERM: 50 connections cut");
  expect_all_told();
}

TEST_F(ShutdownEnd, AfterAnErrorOnTheControlThreadIsInGoodOrderAndNoSuccess) {
  throw_on_control_thread();
  start();
  end();
  EXPECT_EQ(status, 1);
  EXPECT_EQ(drain.story(), "an error (what a test throws): 50 connections cut");
  expect_all_told();
}

TEST_F(ShutdownEnd, AfterAnErrorWithinADrainIsTheSame) {
  asio::post(context, [this] { drain.signalled("SIGTERM"); });
  throw_on_control_thread();
  start();
  end();
  EXPECT_EQ(status, 1);
  expect_all_told();
}

}  // namespace
}  // namespace weir::proxy::serve
