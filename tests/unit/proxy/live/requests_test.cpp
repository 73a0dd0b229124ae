#include "proxy/live/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace weir::proxy::live {
namespace {

using metrics::Outcome;
using metrics::record::figures_of;
using metrics::record::RequestRecord;
using std::chrono::milliseconds;
using std::chrono::minutes;

RequestRecord record(int number, bool stream, milliseconds slow, Moment ended) {
  RequestRecord record;
  record.id = std::to_string(number);
  record.pool = "chat";
  record.replica = "gpu0";
  record.outcome = Outcome::ok;
  record.facts.stream = stream;
  record.received = ended - slow;
  record.sent = record.received;
  record.ended = ended;
  if (stream) record.answer.first_token = record.answer.first_choice = record.answer.last_choice = ended;
  return record;
}

/// Beside a sorted list of all. Minutes are whole ones, so the oldest counted is 15 to 16 minutes old.
TEST(Requests, TheSlowestAreThoseOfTheLastQuarter) {
  std::mt19937 random(5);
  struct One {
    std::int64_t minute;
    bool stream;
    std::int64_t slow;
    std::string id;
  };
  std::vector<One> all;
  Requests requests;
  Moment now = Moment() + minutes(100);
  std::vector<int> times(20'000);  // No two are equal.
  std::iota(times.begin(), times.end(), 1);
  std::ranges::shuffle(times, random);
  for (int i = 0; i < 20'000; ++i) {
    now += milliseconds(random() % 400);
    const bool stream = random() % 3 != 0;
    const auto slow = milliseconds(times[static_cast<std::size_t>(i)]);
    const auto one = record(i, stream, slow, now);
    requests.add(one, figures_of(one), now);
    const auto minute = std::chrono::duration_cast<minutes>(now.time_since_epoch()).count();
    all.push_back({minute, stream, slow.count(), one.id});
    if (i % 501 != 0) continue;
    std::vector<std::string> want;
    for (const bool kind : {true, false}) {
      std::vector<One> last;
      std::ranges::copy_if(all, std::back_inserter(last), [&](const One& known) {
        return known.stream == kind && minute - known.minute <= static_cast<std::int64_t>(Requests::minutes);
      });
      std::ranges::stable_sort(last, std::greater(), &One::slow);
      for (std::size_t k = 0; k < std::min(last.size(), Requests::most); ++k) want.push_back(last[k].id);
    }
    std::vector<std::string> got;
    for (const auto& row : requests.slowest(now)) got.push_back(row.id);
    std::ranges::sort(got);
    std::ranges::sort(want);
    ASSERT_EQ(got, want);
  }
  EXPECT_TRUE(requests.slowest(now + minutes(17)).empty());
}

TEST(Requests, TheLastThatFailedOrWereRefusedStay) {
  Requests requests;
  for (int i = 0; i < 200; ++i) {
    auto one = record(i, true, milliseconds(10), Moment() + minutes(100));
    one.outcome = static_cast<Outcome>(i % static_cast<int>(metrics::outcome_names.size()));
    requests.add(one, figures_of(one), *one.ended);
  }
  const auto& failed = requests.failed();
  ASSERT_EQ(failed.size(), Requests::most);
  for (std::size_t i = 1; i < failed.size(); ++i) EXPECT_GT(std::stoi(failed[i - 1].id), std::stoi(failed[i].id));
  for (const auto& row : failed) EXPECT_TRUE(has_failed(row.outcome) || row.outcome == Outcome::rejected);
}

TEST(Requests, APhaseIsThePartOfTheTimeThatItTook) {
  auto one = record(1, true, milliseconds(1000), Moment() + minutes(100));
  const auto t0 = one.received;
  one.wait = milliseconds(100);
  one.connect = milliseconds(20);
  one.sent = t0 + milliseconds(200);
  one.attempt = 2;
  one.tried.make() = {{"gpu1", t0 + milliseconds(100), t0 + milliseconds(300), 503, metrics::Retry::status},
                      {"gpu0", t0 + milliseconds(300), t0 + milliseconds(1000), 0, std::nullopt}};
  one.answer.first_token = one.answer.first_choice = t0 + milliseconds(500);
  one.answer.last_choice = t0 + milliseconds(900);
  Requests requests;
  requests.add(one, figures_of(one), *one.ended);
  const auto row = requests.slowest(*one.ended).at(0);
  EXPECT_DOUBLE_EQ(row.wait, 0.1);
  EXPECT_DOUBLE_EQ(row.connect, 0.02);
  EXPECT_NEAR(*row.earlier, 0.08, 1e-9);
  EXPECT_DOUBLE_EQ(*row.prefill, 0.3);
  EXPECT_DOUBLE_EQ(*row.decode, 0.4);
  EXPECT_DOUBLE_EQ(*row.total, 1);
  EXPECT_DOUBLE_EQ(*row.ttft_client, 0.5);
  EXPECT_EQ(row.attempts, 2u);
  ASSERT_EQ(row.tried.size(), 2u);
  EXPECT_EQ(row.tried[0].replica, "gpu1");
  EXPECT_NEAR(row.tried[0].from, 0.1, 1e-9);
  EXPECT_NEAR(row.tried[0].to, 0.3, 1e-9);
  EXPECT_EQ(row.tried[0].status, 503u);
  EXPECT_EQ(row.tried[0].why, metrics::Retry::status);
  EXPECT_EQ(row.tried[1].status, std::nullopt);
  EXPECT_EQ(row.tried[1].why, std::nullopt);
}

TEST(Requests, WhatReachedNoReplicaIsNotSlow) {
  Requests requests;
  auto one = record(1, false, milliseconds(1000), Moment() + minutes(100));
  one.replica.clear();
  one.outcome = Outcome::rejected;
  requests.add(one, figures_of(one), *one.ended);
  EXPECT_TRUE(requests.slowest(*one.ended).empty());
  EXPECT_EQ(requests.failed().size(), 1u);
}

}  // namespace
}  // namespace weir::proxy::live
