// A reload takes the whole new settings or nothing, one at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <cerrno>
#include <functional>
#include <future>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "proxy/admin/reload.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::admin {
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
  EXPECT_THAT(result.changes, ElementsAre("limits.first_token 5m -> 2m"));
  EXPECT_EQ(reload.settings(), wanted);
  EXPECT_THAT(outcome(reload).changes, IsEmpty()) << "it compares with what it has now";
}

TEST_F(ReloadTest, ThatFailsChangesNothingSaysWhyAndCanBeTriedAgain) {
  const auto works = load;
  const auto indexes = index;
  const struct {
    const char* what;
    std::function<void()> break_it;
    std::vector<std::string> errors;
  } rows[]{
      {"the file is wrong",
       [&] {
         load = [] {
           return config::LoadResult(std::vector<config::SettingsError>{{"f", 1, 2, "a"}, {"f", 3, 4, "b"}});
         };
       },
       {"f:1:2: a", "f:3:4: b"}},
      {"the file cannot be read at all",
       [&] { load = []() -> config::LoadResult { throw std::runtime_error("no memory is left"); }; },
       {"cannot read the settings: no memory is left"}},
      {"the keys cannot be indexed",
       [&] { index = [](const auto&) -> Reload::Keys { throw std::runtime_error("no random numbers"); }; },
       {"cannot read the settings: no random numbers"}},
      {"only a restart changes it",
       [&] { wanted.server.threads = 7; },
       {"server.threads 0 -> 7: only a restart changes this; restart weir, or take the change back"}},
      {"it cannot be taken over", [&] { problems = {"the port is taken"}; }, {"the port is taken"}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    auto reload = make();
    int ends = 0;
    reload.on_result = [&](const Reload::Result&) { ++ends; };
    taken.clear();
    wanted = {};
    wanted.limits.first_token = config::Seconds(120);
    row.break_it();
    const auto result = outcome(reload);
    EXPECT_EQ(result.kind, Kind::failed);
    EXPECT_EQ(result.errors, row.errors);
    EXPECT_EQ(reload.settings(), config::Settings());
    EXPECT_THAT(taken, SizeIs(problems.empty() ? 0 : 1)) << "the last one was asked";
    EXPECT_EQ(ends, 1);
    load = works;
    index = indexes;
    wanted.server.threads = 0;
    problems.clear();
    EXPECT_EQ(outcome(reload).kind, Kind::done);
  }
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

TEST_F(ReloadTest, ItsLogHasTheFirstChangesAndErrorsOfMany) {
  Said said;
  wanted = with_keys(250);
  auto reload = make();
  EXPECT_THAT(outcome(reload).changes, SizeIs(251)) << "whoever asks gets all";
  EXPECT_THAT(said.take(), AllOf(HasSubstr("key client98 added; and 151 more\n"), Not(HasSubstr("client99"))));
  load = [] {
    return config::LoadResult(std::vector<config::SettingsError>(102, config::SettingsError{"f", 1, 2, "wrong"}));
  };
  EXPECT_THAT(outcome(reload).errors, SizeIs(102));
  const auto text = said.take();
  EXPECT_THAT(text,
              AllOf(HasSubstr("reload: f:1:2: wrong\n"), HasSubstr("errors: 102"), HasSubstr("and 2 more errors")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 100 + 1);
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

TEST_F(ReloadTest, RefusesOnceItIsForbiddenThoughTheFileIsBeingRead) {
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
  outcome(reload);
  for (const auto& result : results) {
    EXPECT_EQ(result.kind, Kind::refused);
    EXPECT_THAT(result.errors, ElementsAre("weir drains"));
  }
  EXPECT_THAT(taken, IsEmpty());
}

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

// The warnings about a request log that loses lines, and how often they come.

namespace {

using namespace std::chrono_literals;

struct Watched {
  std::string look(std::chrono::milliseconds at) {
    const auto said = watch.tick(account, "r.jsonl", metrics::Moment(at));
    if (!said) return "";
    return (said->warns ? "warn: " : "info: ") + said->text;
  }
  void lose(std::uint64_t lines, int error) {
    account.dropped += lines;
    account.error = error;
  }
  void write(std::uint64_t lines) {
    account.written += lines;
    account.error = 0;
  }

  LogWatch watch;
  LogWatch::Account account;
};

TEST(LogWatch, SaysAtTheEndWhatItHasNotSaidYet) {
  Watched log;
  const auto last = [&] {
    const auto said = log.watch.last(log.account, "r.jsonl");
    return said ? said->text : "";
  };
  EXPECT_EQ(last(), "");
  log.lose(2, ENOSPC);
  log.look(1s);
  EXPECT_EQ(last(), "");
  log.lose(3, 0);
  log.look(2s);
  log.lose(4, 0);
  EXPECT_EQ(last(), "the request log 'r.jsonl' has lost 7 lines at weir's end: what takes its lines does not keep up");
  log.account.error = EBADF;
  log.account.waits_for_reader = true;
  EXPECT_THAT(last(), HasSubstr("its pipe has no reader"));
}

TEST(LogWatch, SaysALossAtOnceThenOnceAMinuteWithTheCountAndItsEnd) {
  Watched log;
  log.write(7);
  EXPECT_EQ(log.look(0s), "");
  log.lose(1, ENOSPC);
  EXPECT_EQ(log.look(1s),
            "warn: the request log 'r.jsonl' has lost 1 line: No space left on device; requests are served all the "
            "same (said at most once a minute)");
  EXPECT_TRUE(log.watch.loses());
  for (int second = 2; second <= 60; ++second) {
    log.lose(10, ENOSPC);
    EXPECT_EQ(log.look(std::chrono::seconds(second)), "");
  }
  EXPECT_THAT(log.look(61s), HasSubstr("has lost 590 lines: No space"));
  log.lose(3, ENOSPC);
  EXPECT_EQ(log.look(62s), "");
  EXPECT_EQ(log.look(70s), "") << "nobody asked, so nobody knows whether there is room";
  log.write(1);
  EXPECT_EQ(log.look(71s), "info: the request log 'r.jsonl' takes its lines again; 594 lines were lost");
  EXPECT_FALSE(log.watch.loses());
  EXPECT_EQ(log.look(200s), "");
  log.lose(2, 0);
  EXPECT_THAT(log.look(201s), AllOf(HasSubstr("has lost 2 lines"), HasSubstr("does not keep up")));
  log.write(1);
  EXPECT_EQ(log.look(202s), "") << "it may lose more in the next moment";
  EXPECT_THAT(log.look(206s), HasSubstr("again; 2 lines were lost"));
}

TEST(LogWatch, ARowOfLossesAndLinesIsNoFlood) {
  Watched log;
  std::mt19937 random(3);
  int said = 0;
  for (int tenth = 0; tenth < 10 * 600; ++tenth) {
    if (random() % 2 == 0) log.lose(1, ENOSPC);
    if (random() % 2 == 0) log.write(1);
    if (!log.look(std::chrono::milliseconds(100 * tenth)).empty()) ++said;
  }
  EXPECT_LE(said, 12) << "in ten minutes";
  EXPECT_GE(said, 8);
}

TEST(LogWatch, SaysThatAPipeWaitsForItsReader) {
  Watched log;
  log.account.waits_for_reader = true;
  EXPECT_THAT(log.look(0s), AllOf(HasSubstr("warn: "), HasSubstr("'r.jsonl' is a pipe that nobody reads")));
  EXPECT_EQ(log.look(1s), "");
  log.account.waits_for_reader = false;
  EXPECT_THAT(log.look(2s), HasSubstr("info: the request log 'r.jsonl' waits for no reader any more"));
}

}  // namespace
}  // namespace weir::proxy::admin
