// A coroutine that nobody awaits says how it ended, and a part of weir goes on.
#include "proxy/fleet/keep_running.hpp"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <stdexcept>

#include "proxy/net/channel.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::milliseconds;

net::Awaitable<void> work(boost::asio::io_context& context, bool fails) {
  net::Timer timer(context);
  timer.expires_after(milliseconds(0));
  co_await timer.async_wait(net::use_awaitable);
  if (fails) throw std::runtime_error("a broken map");
}

TEST(KeepTicking, APartGoesOnAfterEachException) {
  boost::asio::io_context context;
  InternalErrors errors;
  int ticks = 0;
  const auto tick = [&] {
    if (++ticks <= 3) throw std::runtime_error("a broken map");
    if (ticks == 5) context.stop();
  };
  keep_ticking(context, errors, Part::resolver, milliseconds(0), tick, milliseconds(0));
  context.run();
  EXPECT_EQ(ticks, 5);
  EXPECT_EQ(errors.counted(Part::resolver), 3u);
  EXPECT_EQ(errors.counted(Part::prober), 0u);
}

TEST(KeepTicking, APartThatFailsPauses) {
  boost::asio::io_context context;
  InternalErrors errors;
  int ticks = 0;
  const auto tick = [&] {
    if (++ticks == 3) throw std::runtime_error("a broken map");
  };
  keep_ticking(context, errors, Part::prober, milliseconds(0), tick, std::chrono::hours(1));
  while (errors.counted(Part::prober) == 0) context.run_one();
  context.poll();
  EXPECT_EQ(ticks, 3) << "and the context that ends first ends the part";
}

TEST(Unawaited, AnExceptionIsCountedAndLoggedAndAnEndIsNot) {
  boost::asio::io_context context;
  InternalErrors errors;
  Said said;
  spdlog::set_pattern("%v");
  const Unawaited unawaited(errors, Part::session, "its connection is closed");
  boost::asio::co_spawn(context, work(context, true), unawaited);
  boost::asio::co_spawn(context, work(context, false), unawaited);
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

}  // namespace
}  // namespace weir::proxy::fleet
