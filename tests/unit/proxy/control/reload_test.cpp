// A reload takes the whole new settings or nothing, one at a time.
#include "proxy/control/reload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <functional>
#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "tests/unit/proxy/no_memory.hpp"

namespace weir::proxy::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Reload::Result::Kind;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() { spdlog::set_level(spdlog::level::off); }
  ~ReloadTest() override { spdlog::set_level(level_); }

  Reload make() {
    return Reload(
        context, {}, [this] { return load(); },
        [this](const config::Settings& settings) {
          taken.push_back(settings);
          return problems;
        });
  }
  void ask(Reload& reload) {
    reload.run("a test",
               boost::asio::bind_executor(context, [this](const Reload::Told& told) { results.push_back(*told); }));
  }
  /// Asks, and waits for what comes of it: the answer is posted from the loading thread.
  Reload::Result outcome(Reload& reload) {
    ask(reload);
    const auto work = boost::asio::make_work_guard(context);
    context.restart();
    const auto before = results.size();
    while (results.size() == before) context.run_one();
    return results.back();
  }

  boost::asio::io_context context{1};
  config::Settings wanted;
  std::function<config::LoadResult()> load = [this] { return config::LoadResult(wanted); };
  std::vector<config::Settings> taken;
  std::vector<std::string> problems;
  std::vector<Reload::Result> results;

 private:
  const spdlog::level::level_enum level_ = spdlog::get_level();
};

TEST_F(ReloadTest, TakesTheNewSettingsAndSaysWhatChanged) {
  auto reload = make();
  wanted.limits.first_token = config::Seconds(120);
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::done);
  EXPECT_THAT(result.changes, ElementsAre("limits.first_token 300 s -> 120 s"));
  EXPECT_EQ(reload.settings(), wanted);
  EXPECT_THAT(outcome(reload).changes, IsEmpty()) << "it compares with what it has now";
}

TEST_F(ReloadTest, ChangesNothingWhereTheFileIsWrong) {
  auto reload = make();
  load = [] { return config::LoadResult(std::vector<config::SettingsError>{{"f", 1, 2, "a"}, {"f", 3, 4, "b"}}); };
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::failed);
  EXPECT_THAT(result.errors, ElementsAre("f:1:2: a", "f:3:4: b"));
  EXPECT_THAT(taken, IsEmpty());
  EXPECT_EQ(reload.settings(), config::Settings());
}

TEST_F(ReloadTest, ChangesNothingWhereItCannotBeTakenOver) {
  auto reload = make();
  wanted.limits.first_token = config::Seconds(120);
  problems = {"the port is taken"};
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::failed);
  EXPECT_EQ(result.errors, problems);
  EXPECT_EQ(reload.settings(), config::Settings());
}

TEST_F(ReloadTest, SaysWhatNeedsARestartAndTakesNothingElse) {
  auto reload = make();
  wanted.server.threads = 7;
  wanted.limits.first_token = config::Seconds(120);
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::failed);
  EXPECT_THAT(result.errors, ElementsAre(HasSubstr("server.threads 0 -> 7: only a restart")));
  EXPECT_THAT(taken, IsEmpty());
}

TEST_F(ReloadTest, RunsOneAtATime) {
  auto reload = make();
  std::promise<void> go_on;
  load = [this, going = go_on.get_future().share()] {
    going.wait();
    return config::LoadResult(wanted);
  };
  ask(reload);
  ask(reload);
  go_on.set_value();
  const auto work = boost::asio::make_work_guard(context);
  while (results.size() < 2) context.run_one();
  EXPECT_EQ(results[0].kind, Kind::busy);
  EXPECT_THAT(results[0].errors, ElementsAre(HasSubstr("under way")));
  EXPECT_EQ(results[1].kind, Kind::done);
  EXPECT_EQ(outcome(reload).kind, Kind::done) << "and the next one after it";
}

TEST_F(ReloadTest, ASignalDuringAReloadReadsTheFileOnceMore) {
  auto reload = make();
  std::promise<void> go_on;
  std::atomic<int> reads = 0;
  load = [this, &reads, going = go_on.get_future().share()] {
    ++reads;
    going.wait();
    return config::LoadResult(wanted);
  };
  int ends = 0;
  reload.on_result = [&](const Reload::Result&) { ++ends; };
  for (int i = 0; i < 3; ++i) reload.run_or_again("SIGHUP");
  go_on.set_value();
  const auto work = boost::asio::make_work_guard(context);
  for (int i = 0; ends < 2 && i < 500; ++i) context.run_one_for(std::chrono::milliseconds(10));
  EXPECT_EQ(reads, 2) << "once for all signals that came meanwhile";
}

TEST_F(ReloadTest, RefusesOnceItIsForbidden) {
  auto reload = make();
  reload.forbid("weir drains");
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::refused);
  EXPECT_THAT(result.errors, ElementsAre("weir drains"));
}

TEST_F(ReloadTest, TakesNothingOverIfItIsForbiddenWhileTheFileIsRead) {
  auto reload = make();
  std::promise<void> go_on;
  load = [this, going = go_on.get_future().share()] {
    going.wait();
    return config::LoadResult(wanted);
  };
  ask(reload);
  reload.forbid("weir drains");
  go_on.set_value();
  const auto work = boost::asio::make_work_guard(context);
  while (results.empty()) context.run_one();
  EXPECT_EQ(results[0].kind, Kind::refused);
  EXPECT_THAT(taken, IsEmpty());
}

TEST_F(ReloadTest, FailsWhereTheFileCannotBeReadAtAllAndCanBeTriedAgain) {
  auto reload = make();
  int ends = 0;
  reload.on_result = [&](const Reload::Result&) { ++ends; };
  const auto works = std::exchange(load, []() -> config::LoadResult { throw std::runtime_error("no memory is left"); });
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::failed);
  EXPECT_THAT(result.errors, ElementsAre("cannot read the settings: no memory is left"));
  EXPECT_EQ(ends, 1);
  load = works;
  EXPECT_EQ(outcome(reload).kind, Kind::done);
}

#ifndef WEIR_SANITIZED
TEST_F(ReloadTest, FailsWhereTheThreadThatReadsFindsNoMemoryAndCanBeTriedAgain) {
  auto reload = make();
  wanted.limits.first_token = config::Seconds(120);
  std::atomic<std::size_t> before{0};
  const auto works = std::exchange(load, [this, &before] {
    no_memory::fail_at(before);
    return config::LoadResult(wanted);
  });
  std::size_t failures = 0;
  for (bool over = false; !over; before = before * 5 / 4 + 1) {
    const auto result = outcome(reload);
    over = result.kind == Kind::done;
    if (over) continue;
    ++failures;
    ASSERT_EQ(result.kind, Kind::failed);
    EXPECT_THAT(result.errors, ElementsAre(HasSubstr("cannot read the settings: ")));
  }
  EXPECT_GE(failures, 10u);
  EXPECT_EQ(reload.settings(), wanted);
}
#endif

TEST_F(ReloadTest, FailsWhereTheSystemGivesNoThreadAndCanBeTriedAgain) {
  auto reload = make();
  int ends = 0;
  reload.on_result = [&](const Reload::Result&) { ++ends; };
  const auto works = std::exchange(reload.start_thread, [](auto) -> std::thread {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  const auto result = outcome(reload);
  EXPECT_EQ(result.kind, Kind::failed);
  EXPECT_THAT(result.errors, ElementsAre(AllOf(HasSubstr("cannot start a thread"), HasSubstr("TasksMax"))));
  EXPECT_THAT(taken, IsEmpty());
  reload.run_or_again("SIGHUP");
  EXPECT_EQ(ends, 2) << "a signal neither ends weir nor is stuck behind the first";
  reload.start_thread = works;
  EXPECT_EQ(outcome(reload).kind, Kind::done);
}

}  // namespace
}  // namespace weir::proxy::control
