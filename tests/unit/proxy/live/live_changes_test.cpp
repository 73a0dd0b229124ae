// Replicas, pools and shadows that leave, move and return, in the live view.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/proxy/live/live_view.hpp"

namespace weir::proxy::live {
namespace {



TEST_F(LiveTest, AReplicaThatLeavesHasARowOfItsOwn) {
  std::vector<balancer::Lease> leases;
  for (int i = 0; i < 2; ++i)
    leases.push_back(lease());
  second();
  auto settings = settings_of({"gpu0", "gpu1"});
  settings.pools[0].replicas[1].url.port = 99;
  settings.pools[0].replicas[1].url.authority = "127.0.0.1:99";
  fleet.adopt(settings);
  second();
  const auto all = document();
  const auto& rows = all.at("replicas").as_object();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at("gpu1 (leaving)").at("in_flight").to_number<int>(), 1);
  EXPECT_TRUE(rows.at("gpu1 (leaving)").at("leaving").as_bool());
  EXPECT_EQ(rows.at("gpu1").at("in_flight").to_number<int>(), 0);
  for (auto& lease : leases) lease = balancer::Lease();
}

/// A replica whose url changes again and again, while requests run at each of its places.
TEST_F(LiveTest, ReplicasOfOneNameThatLeaveHaveARowEach) {
  std::vector<balancer::Lease> leases;
  auto settings = settings_of({"gpu0"});
  for (std::uint16_t port = 90; port < 94; ++port) {
    settings.pools[0].replicas[0].url.port = port;
    settings.pools[0].replicas[0].url.authority = "127.0.0.1:" + std::to_string(port);
    fleet.adopt(settings);
    leases.push_back(lease());
    second();
  }
  const auto rows = [&] {
    std::map<std::string, int> in_flight;
    for (const auto& one : live.now().replicas) {
      EXPECT_FALSE(in_flight.contains(one.row)) << "two rows are named " << one.row;
      in_flight[one.row] = static_cast<int>(one.in_flight);
    }
    return in_flight;
  };
  EXPECT_EQ(rows().size(), 4u);
  EXPECT_EQ(rows().at("gpu0"), 1);
  // Rows that are left keep their names.
  const auto before = rows();
  leases.erase(leases.begin());
  fleet.look_after_drains();
  second();
  EXPECT_EQ(rows().size(), 3u);
  for (const auto& [name, in_flight] : rows()) EXPECT_TRUE(before.contains(name)) << name;
  leases.clear();
  fleet.look_after_drains();
}

/// Replicas of one name at two places count in one series; the pool has their tokens once.
TEST_F(LiveTest, WhatAReplicaThatMovesDoesCountsOnce) {
  std::vector<balancer::Lease> leases;
  for (int i = 0; i < 2; ++i)
    leases.push_back(lease());
  second();
  auto settings = settings_of({"gpu0", "gpu1"});
  settings.pools[0].replicas[0].url.port = 99;
  settings.pools[0].replicas[0].url.authority = "127.0.0.1:99";
  fleet.adopt(settings);
  second();
  for (int i = 0; i < 10; ++i) {
    finish(metrics::Outcome::ok, milliseconds(100));
    second();
  }
  const auto all = document();
  EXPECT_EQ(all.at("pools").at("chat").at("tokens_out_per_s").to_number<double>(), 101);
  EXPECT_EQ(all.at("replicas").at("gpu0").at("tokens_out_per_s").to_number<double>(), 101);
  EXPECT_EQ(all.at("replicas").at("gpu0").at("requests_60s").to_number<int>(), 10);
  leases.clear();
}

TEST_F(LiveTest, RequestsOfAReplicaThatLeftCountInItsRow) {
  std::vector<balancer::Lease> leases;
  for (int i = 0; i < 2; ++i)
    leases.push_back(lease());
  second();
  const auto old = fleet.snapshot();
  fleet.adopt(settings_of({"gpu1"}));
  second();
  const auto record = record_of(metrics::Outcome::ok, milliseconds(100));
  old->pools[0]->replicas[0]->series->shard(0).settle(record);
  live.finished(record, now);
  second();
  EXPECT_EQ(document().at("replicas").at("gpu0 (leaving)").at("requests_60s").to_number<int>(), 1);
  EXPECT_EQ(document().at("pools").at("chat").at("slo").at("good_60s").to_number<int>(), 1);
  leases.clear();
}

TEST_F(LiveTest, RequestsThatGotNoReplicaCountForTheObjective) {
  second();
  auto record = record_of(metrics::Outcome::upstream_error, milliseconds(5000));
  record.replica = "";
  live.finished(record, now);
  second();
  EXPECT_EQ(document().at("pools").at("chat").at("slo").at("bad_60s").to_number<int>(), 1);
}

/// A member of a name that goes for a moment, and comes back with its counts, has no burst of requests.
TEST_F(LiveTest, AReplicaThatReturnsBringsNoRequestsOfThePast) {
  second();
  const auto held = lease();
  for (int i = 0; i < 100; ++i) finish(metrics::Outcome::ok, milliseconds(100));
  second(70);
  for (const auto& names : {std::vector<std::string>{"x", "gpu1"}, std::vector<std::string>{"gpu0", "gpu1"}}) {
    fleet.adopt(settings_of(names));
    second(2);
  }
  EXPECT_EQ(document().at("pools").at("chat").at("slo").at("good_60s").to_number<int>(), 0);
  finish(metrics::Outcome::ok, milliseconds(100));
  second();
  EXPECT_EQ(document().at("pools").at("chat").at("slo").at("good_60s").to_number<int>(), 1);
}

TEST_F(LiveTest, APoolThatReturnsHasTheCountsOfItsLastMinute) {
  const auto here = settings_of({"gpu0", "gpu1"});
  auto elsewhere = here;
  elsewhere.pools[0].name = "other";
  const auto counts = [this] {
    const auto all = document();
    const auto& pool = all.at("pools").at("chat");
    const auto* const ok = pool.at("outcomes_60s").as_object().if_contains("ok");
    return std::array{ok != nullptr ? ok->to_number<int>() : 0, pool.at("slo").at("good_60s").to_number<int>()};
  };
  second();
  for (const int away : {1, 20, 57}) {
    for (int i = 0; i < 5; ++i) finish(metrics::Outcome::ok, milliseconds(100));
    second();
    EXPECT_EQ(counts(), (std::array{5, 5}));
    fleet.adopt(elsewhere);
    second(away);
    fleet.adopt(here);
    second();
    EXPECT_EQ(counts(), (std::array{5, 5})) << "as the window has it, after " << away << " s";
    second(60);
    EXPECT_EQ(counts(), (std::array{0, 0}));
  }
}

TEST_F(LiveTest, AShadowsCopiesCountOnceThoughItsReplicasChangePlaces) {
  const auto with_shadow = [](bool turned) {
    auto settings = settings_of({"gpu0"});
    config::Shadow shadow;
    shadow.name = "new";
    shadow.of = "chat";
    shadow.sample = 1;
    for (const int i : turned ? std::array{1, 0} : std::array{0, 1}) {
      auto& one = shadow.replicas.emplace_back();
      one.name = one.config = "new" + std::to_string(i);
      const auto port = static_cast<std::uint16_t>(70 + i);
      one.url = {.host = "127.0.0.1", .port = port, .prefix = "", .authority = "127.0.0.1:" + std::to_string(port)};
    }
    settings.shadows = {shadow};
    return settings;
  };
  fleet.adopt(with_shadow(false));
  second();
  const auto sent = [&](std::uint64_t copies) {
    for (; copies > 0; --copies)
      fleet.snapshot()->shadows[0]->pool->replicas[0]->series->shard(0).mirrored.add(metrics::series::Mirrored::sent);
  };
  sent(100);
  second(70);
  for (const bool turned : {true, false}) {
    fleet.adopt(with_shadow(turned));
    sent(1);
    second(2);
    sent(1);
    second(2);
  }
  const auto copies = document().at("shadows").at("new").at("sent_60s").to_number<int>();
  EXPECT_LE(copies, 4);
  EXPECT_GE(copies, 2) << "of those in the second of a reload nothing is known";
}

TEST_F(LiveTest, AnotherReplicaOfTheSameNameBeginsAnew) {
  second();
  for (int i = 0; i < 10; ++i) finish(metrics::Outcome::ok, milliseconds(100));
  second();
  EXPECT_EQ(document().at("replicas").at("gpu0").at("requests_60s").to_number<int>(), 10);
  auto settings = settings_of({"gpu0", "gpu1"});
  settings.pools[0].replicas[0].url.port = 99;
  settings.pools[0].replicas[0].url.authority = "127.0.0.1:99";
  fleet.adopt(settings);
  second();
  const auto all = document();
  EXPECT_EQ(all.at("replicas").at("gpu0").at("requests_60s").to_number<int>(), 0);
  EXPECT_TRUE(all.at("replicas").at("gpu0").at("ttft_s").at("p50").is_null());
  EXPECT_EQ(all.at("pools").at("chat").at("outcomes_60s").at("ok").to_number<int>(), 10) << "the pool goes on";
}

}  // namespace
}  // namespace weir::proxy::live
