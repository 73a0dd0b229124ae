#include "proxy/fleet/failure_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weir::proxy::fleet {
namespace {

using namespace std::chrono_literals;

struct Told {
  std::chrono::milliseconds at;
  const char* failure;  ///< With nullptr it went well.
  const char* line;     ///< With "" nothing is logged.
};

const char* const none = "";

void play(const std::vector<Told>& story) {
  FailureNotes notes;
  for (const auto& [at, failure, line] : story) {
    const FailureNotes::Moment now{1h + at};
    const auto said = failure ? notes.failed(failure, now) : notes.went_well(now);
    EXPECT_EQ(said.value_or(""), line) << "at " << at.count() << " ms";
  }
}

TEST(FailureNotes, SayNothingWhileAllGoesWell) { play({{0s, nullptr, none}, {1h, nullptr, none}}); }

TEST(FailureNotes, SayTheFirstFailureAtOnceThenOneLineAMinuteThenTheReturn) {
  play({{0s, "connection refused", "fails: connection refused"},
        {1s, "connection refused", none},
        {59'999ms, "no answer in time", none},
        {60s, "status 503", "still fails: all 3 attempts of the last 1 min failed, the last one: status 503"},
        {61s, "status 503", none},
        {200s, "reset", "still fails: all 2 attempts of the last 2 min 20 s failed, the last one: reset"},
        {201s, "reset", none},
        {205s, nullptr, "answers again after 3 min 25 s, in which 7 attempts failed"},
        {206s, nullptr, none},
        {300s, nullptr, none}});
}

TEST(FailureNotes, AReplicaThatFailsNowAndThenGetsOneLineAMinute) {
  play({{0s, "reset", "fails: reset"},
        {1s, nullptr, "answers again after 1 s, in which 1 attempt failed"},
        {2s, "status 500", none},
        {3s, nullptr, none},
        {4s, "status 500", none},
        {60s, nullptr, none},
        {61s, nullptr, "fails now and then: 2 of 5 attempts of the last 1 min failed, the last one: status 500"},
        {62s, nullptr, none},
        {90s, "reset", none},
        {121s, "timeout", "fails now and then: 2 of 3 attempts of the last 1 min failed, the last one: timeout"},
        {122s, nullptr, none},
        {182s, nullptr, none},
        {183s, "reset", "fails: reset"}});
}

TEST(FailureNotes, AReplicaThatComesBackForAMomentIsDownAgainWithinAMinute) {
  play({{0s, "reset", "fails: reset"},
        {1s, nullptr, "answers again after 1 s, in which 1 attempt failed"},
        {2s, "reset", none},
        {30s, "reset", none},
        {62s, "refused", "still fails: all 3 attempts of the last 1 min 1 s failed, the last one: refused"},
        {70s, "refused", none},
        {71s, nullptr, "answers again after 1 min 10 s, in which 4 attempts failed"}});
}

TEST(FailureNotes, CountEveryFailureOfManyThreads) {
  FailureNotes notes;
  const FailureNotes::Moment start{1h};
  ASSERT_TRUE(notes.failed("x", start));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) EXPECT_FALSE(notes.failed("x", start + 1s));
      });
    }
  }
  EXPECT_EQ(notes.went_well(start + 2s), "answers again after 2 s, in which 4001 attempts failed");
}

TEST(Spoken, InTwoUnitsAtMost) {
  EXPECT_EQ(in_words(999ms), "0 s");
  EXPECT_EQ(in_words(59s), "59 s");
  EXPECT_EQ(in_words(60s), "1 min");
  EXPECT_EQ(in_words(3599s), "59 min 59 s");
  EXPECT_EQ(in_words(3600s), "1 h");
  EXPECT_EQ(in_words(26h + 61s), "26 h 1 min");
}

}  // namespace
}  // namespace weir::proxy::fleet
