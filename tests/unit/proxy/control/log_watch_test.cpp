// The warnings about a request log that loses lines, and how often they come.
#include "proxy/control/log_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

namespace weir::proxy::control {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
}  // namespace weir::proxy::control
