#include "proxy/live/window.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace weir::proxy::live {
namespace {

using Rows = Window::Rows;

ReplicaNow replica(std::string name, double tokens) {
  ReplicaNow one;
  one.row = one.name = std::move(name);
  one.second_tokens_out = tokens;
  return one;
}

/// Beside lists of all seconds. Replicas come and go, and seconds are missed.
TEST(Window, HasTheLastSecondsOfEachRow) {
  std::mt19937 random(4);
  const auto figure = *Window::number_of(Rows::replicas, "tokens_out_per_s");
  Window window;
  std::map<std::string, std::vector<float>> all;
  std::map<std::string, std::size_t> unseen;
  std::map<std::string, bool> there;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t lasted = random() % 50 == 0 ? 1 + random() % 30 : 1;
    for (auto& [name, numbers] : all) numbers.insert(numbers.end(), lasted, std::nanf(""));
    for (auto& [name, seconds] : unseen) seconds += lasted;
    Now now;
    for (const auto* name : {"gpu0", "gpu1", "gpu2", "gpu3"}) {
      if (random() % 400 == 0) there[name] = !there[name];
      if (!there[name]) continue;
      const double tokens = random() % 1000;
      now.replicas.push_back(replica(name, tokens));
      auto& numbers = all[name];
      if (numbers.empty()) numbers.push_back(0);
      numbers.back() = static_cast<float>(tokens);
      unseen[name] = 0;
    }
    window.add(now, lasted);
    for (auto one = all.begin(); one != all.end();) {
      if (unseen[one->first] >= Window::seconds)
        one = all.erase(one);
      else
        ++one;
    }
    if (i % 37 != 0) continue;
    ASSERT_EQ(window.names(Rows::replicas).size(), all.size());
    for (const auto& [name, numbers] : all) {
      for (const std::size_t most : {std::size_t{1}, std::size_t{60}, Window::seconds, 2 * Window::seconds}) {
        const auto got = window.last(Rows::replicas, name, figure, most);
        ASSERT_EQ(got.size(), std::min({most, Window::seconds, numbers.size()}));
        std::optional<double> peak;
        for (std::size_t k = 0; k < got.size(); ++k) {
          const float want = numbers[numbers.size() - got.size() + k];
          if (!std::isnan(want)) peak = std::max<double>(peak.value_or(want), want);
          ASSERT_TRUE(got[k] == want || (std::isnan(got[k]) && std::isnan(want))) << name << " " << k;
        }
        if (most >= Window::seconds) {
          ASSERT_EQ(window.peak(Rows::replicas, name, figure), peak);
        }
      }
    }
  }
}

TEST(Window, TwoHundredReplicasTakeLessThanSixteenMebibytesAndSoDoMore) {
  Now now;
  for (int i = 0; i < 200; ++i) now.replicas.push_back(replica("gpu" + std::to_string(i), 1));
  for (int i = 0; i < 20; ++i) now.pools.emplace_back().name = "pool" + std::to_string(i);
  Window window;
  window.add(now);
  EXPECT_EQ(window.rows(), 221u);
  EXPECT_LT(window.bytes(), 8u << 20);
  for (int i = 0; i < 2000; ++i) now.replicas.push_back(replica("more" + std::to_string(i), 1));
  window.add(now);
  EXPECT_EQ(window.rows(), Window::most_rows);
  EXPECT_LT(window.bytes(), 14u << 20);
  EXPECT_TRUE(window.last(Rows::replicas, "more1999", 0, 60).empty());
}

TEST(Window, NumbersWhatItPuts) {
  Now now;
  now.weir.cpu = 1;
  now.weir.memory_bytes = 2;
  now.weir.connections = 3;
  now.weir.loop_delay_p99 = 4;
  auto& pool = now.pools.emplace_back();
  pool.name = "chat";
  pool.second_requests = 1;
  pool.second_failed = 2;
  pool.second_tokens_in = 3;
  pool.second_tokens_out = 4;
  pool.in_flight = 5;
  pool.waiting = 6;
  pool.second_ttft = 7;
  auto one = replica("gpu0", 3);
  one.second_requests = 1;
  one.second_failed = 2;
  one.in_prefill = 4;
  one.in_decode = 5;
  one.queued_prefill_tokens = 6;
  one.kv_usage = 7;
  one.second_ttft = 8;
  one.second_tpot = 9;
  now.replicas.push_back(one);
  auto& shadow = now.shadows.emplace_back();
  shadow.name = "fp8";
  shadow.in_flight = 1;
  shadow.second_sent = 2;
  shadow.second_dropped = 3;
  Window window;
  window.add(now);
  for (const auto& [rows, name] : {std::pair(Rows::weir, ""), std::pair(Rows::pools, "chat"),
                                   std::pair(Rows::replicas, "gpu0"), std::pair(Rows::shadows, "fp8")}) {
    for (std::size_t i = 0; i < Window::figures(rows).size(); ++i)
      EXPECT_EQ(window.last(rows, name, i, 1).at(0), static_cast<float>(i + 1)) << Window::figures(rows)[i];
  }
}

/// Members of a host's name come and go, and each has a name of its own.
TEST(Window, RowsThatAreThereHaveThePlacesOfThoseThatHaveGone) {
  Window window;
  const auto figure = *Window::number_of(Rows::replicas, "tokens_out_per_s");
  for (std::size_t round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) {
      Now now;
      for (std::size_t k = 0; k < Window::most_rows / 2; ++k)
        now.replicas.push_back(replica("pod" + std::to_string(round) + "-" + std::to_string(k), 1));
      window.add(now);
      ASSERT_LE(window.rows(), Window::most_rows);
      for (const auto& one : now.replicas) {
        const auto numbers = window.last(Rows::replicas, one.row, figure, 900);
        ASSERT_EQ(numbers.size(), static_cast<std::size_t>(i) + 1) << one.row;
        ASSERT_EQ(numbers.back(), 1) << one.row;
      }
    }
  }
  ASSERT_EQ(window.last(Rows::weir, "", 0, 900).size(), 15u) << "a row that stays loses nothing";
}

}  // namespace
}  // namespace weir::proxy::live
