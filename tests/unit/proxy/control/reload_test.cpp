// A reload takes the whole new settings or nothing, one at a time.
#include "proxy/control/reload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <functional>
#include <future>
#include <sstream>
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
using ::testing::Not;
using ::testing::SizeIs;
using Kind = Reload::Result::Kind;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() { spdlog::set_level(spdlog::level::off); }
  ~ReloadTest() override { spdlog::set_level(level_); }

  Reload make() {
    return Reload(
        context, before, [this] { return load(); }, [this](const auto& server) { return index(server); },
        [this](const config::Settings& settings, Reload::Keys keys) {
          taken.push_back(settings);
          taken_keys = std::move(keys);
          return problems;
        },
        [this](std::shared_ptr<const void> old) { freed.push_back(std::move(old)); });
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
  config::Settings before, wanted;
  std::function<Reload::Keys(const config::Server&)> index = [](const auto&) { return nullptr; };
  Reload::Keys taken_keys;
  std::vector<std::shared_ptr<const void>> freed;
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

config::Settings with_keys(int count) {
  std::vector<config::ClientKey> keys(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    keys[static_cast<std::size_t>(i)].name = "client" + std::to_string(i);
    keys[static_cast<std::size_t>(i)].sha256[0] = static_cast<std::uint8_t>(i);
  }
  config::Settings settings;
  settings.server.api_keys = "keys.toml";
  settings.server.keys = std::move(keys);
  return settings;
}

TEST_F(ReloadTest, ReadsAndIndexesOnAThreadOfItsOwnAndFreesNothingOnThisOne) {
  before = with_keys(2);
  wanted = with_keys(3);
  auto reload = make();
  before = {};
  const auto old = reload.settings().server.keys.watch();
  std::thread::id read_on, indexed_on;
  load = [&] {
    read_on = std::this_thread::get_id();
    return config::LoadResult(wanted);
  };
  index = [&](const config::Server& server) {
    indexed_on = std::this_thread::get_id();
    EXPECT_EQ(server, wanted.server);
    return std::make_shared<const keys::ClientKeys>(server.keys, nullptr);
  };
  EXPECT_EQ(outcome(reload).kind, Kind::done);
  EXPECT_NE(read_on, std::this_thread::get_id());
  EXPECT_EQ(indexed_on, read_on);
  ASSERT_NE(taken_keys, nullptr);
  EXPECT_EQ(&taken_keys->settings().all(), &reload.settings().server.keys.all()) << "one list for all";
  EXPECT_FALSE(old.expired()) << "the control thread has freed the old keys itself";
  freed.clear();
  EXPECT_TRUE(old.expired());
}

TEST_F(ReloadTest, FailsWhereTheKeysCannotBeIndexed) {
  auto reload = make();
  index = [](const auto&) -> Reload::Keys { throw std::runtime_error("no random numbers"); };
  EXPECT_THAT(outcome(reload).errors, ElementsAre(HasSubstr("no random numbers")));
  EXPECT_THAT(taken, IsEmpty());
}

TEST_F(ReloadTest, ItsLogHasTheFirstChangesAndErrorsOfMany) {
  std::ostringstream said;
  const auto logger = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  wanted = with_keys(250);
  auto reload = make();
  EXPECT_THAT(outcome(reload).changes, SizeIs(251)) << "whoever asks gets all";
  EXPECT_THAT(said.str(), AllOf(HasSubstr("key client98 added; and 151 more\n"), Not(HasSubstr("client99"))));
  load = [] {
    return config::LoadResult(std::vector<config::SettingsError>(102, config::SettingsError{"f", 1, 2, "wrong"}));
  };
  said.str("");
  EXPECT_THAT(outcome(reload).errors, SizeIs(102));
  EXPECT_THAT(said.str(), HasSubstr("reload: f:1:2: wrong\n"));
  EXPECT_THAT(said.str(), HasSubstr("errors: 102"));
  EXPECT_THAT(said.str(), HasSubstr("and 2 more errors"));
  const auto text = said.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 100 + 1);
  spdlog::set_default_logger(logger);
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
