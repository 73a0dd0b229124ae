// A coroutine that nobody awaits says how it ended, and a part of weir begins again.
#include "proxy/fleet/keep_running.hpp"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <memory>
#include <stdexcept>

#include "proxy/fleet/model_asking.hpp"
#include "proxy/net/timer.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::milliseconds;

net::Awaitable<void> work(int& begun, int fails, boost::asio::io_context& context) {
  const int attempt = ++begun;
  net::Timer timer(context);
  timer.expires_after(milliseconds(0));
  co_await timer.async_wait(net::use_awaitable);
  if (attempt == 1 && fails > 0) throw std::runtime_error("a broken map");
  if (attempt <= fails) throw std::logic_error("a test");
}

TEST(KeepRunning, APartBeginsAgainAfterEachException) {
  boost::asio::io_context context;
  InternalErrors errors;
  int begun = 0;
  keep_running(
      context, errors, Part::resolver, [&] { return work(begun, 3, context); }, milliseconds(0));
  context.run();
  EXPECT_EQ(begun, 4) << "it fails three times, and ends by itself at the fourth";
  EXPECT_EQ(errors.counted(Part::resolver), 3u);
  EXPECT_EQ(errors.counted(Part::prober), 0u);
}

TEST(KeepRunning, OneThatCannotEvenBeginIsTriedAgain) {
  boost::asio::io_context context;
  InternalErrors errors;
  int tried = 0, begun = 0;
  const auto begin = [&]() -> net::Awaitable<void> {
    if (++tried < 3) throw std::logic_error("a test");
    return work(begun, 0, context);
  };
  keep_running(context, errors, Part::prober, begin, milliseconds(0));
  context.run();
  EXPECT_EQ(tried, 3);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(errors.counted(Part::prober), 2u);
}

TEST(KeepRunning, AContextThatEndsFirstEndsThePart) {
  InternalErrors errors;
  int begun = 0;
  {
    boost::asio::io_context context;
    keep_running(
        context, errors, Part::prober, [&] { return work(begun, 1, context); }, std::chrono::hours(1));
    while (errors.counted(Part::prober) == 0) context.run_one();
  }
  EXPECT_EQ(begun, 1);
}

TEST(Unawaited, AnExceptionIsCountedAndLoggedAndAnEndIsNot) {
  boost::asio::io_context context;
  InternalErrors errors;
  Said said;
  spdlog::set_pattern("%v");
  int begun = 0;
  const Unawaited unawaited(errors, Part::session, "its connection is closed");
  boost::asio::co_spawn(context, work(begun, 1, context), unawaited);
  boost::asio::co_spawn(context, work(begun, 1, context), unawaited);
  context.run();
  EXPECT_EQ(errors.counted(Part::session), 1u);
  EXPECT_EQ(said.take(), "internal error (session): a broken map; its connection is closed. Please report it\n");
}

TEST(NotingFailure, AHandlersExceptionIsCountedAndGoesNoFurther) {
  InternalErrors errors;
  bool done = false;
  noting_failure(errors, Part::prober, "it is lost", [&] { done = true; });
  EXPECT_TRUE(done);
  EXPECT_EQ(errors.counted(Part::prober), 0u);
  EXPECT_NO_THROW(noting_failure(errors, Part::prober, "it is lost", [] { throw std::logic_error("a test"); }));
  EXPECT_EQ(errors.counted(Part::prober), 1u);
}

TEST(AskAll, ThrowsWhatItsTellerThrew) {
  boost::asio::io_context context;
  const auto replica = std::make_shared<Replica>();
  replica->state = std::shared_ptr<ReplicaState>(new ReplicaState{.id = 1});  // Its name is not resolved.
  const Tell tell = [](const Replica&, ModelAnswer) { throw std::runtime_error("a broken list"); };
  std::exception_ptr ended;
  const std::vector<ModelQuestion> questions{{replica, ""}, {replica, ""}};
  boost::asio::co_spawn(context, ask_all(questions, 1000, tell, nullptr),
                        [&](const std::exception_ptr& failure) { ended = failure; });
  context.run();
  EXPECT_TRUE(ended) << "it reaches who awaits the answers, not the context";
}

}  // namespace
}  // namespace weir::proxy::fleet
