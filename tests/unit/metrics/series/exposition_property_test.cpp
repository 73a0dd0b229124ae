// Random work on a fleet, and what every page of it must keep: nothing vanishes, nothing falls, like is added to like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

using record::RequestRecord;

/// The naive account of one replica: what was counted there.
struct Account {
  std::map<std::string, std::uint64_t> outcomes;  ///< By the labels of weir_requests_total.
  std::uint64_t requests = 0, retries = 0, bytes = 0;
  std::map<std::string, std::uint64_t> observations;  ///< By histogram.
};

/// A replica of the fleet under test.
struct Member {
  explicit Member(ReplicaSeries& in) : series(in.shared_from_this()) {}
  std::shared_ptr<ReplicaSeries> series;
  std::shared_ptr<ReplicaGauges> gauges = std::make_shared<ReplicaGauges>();
  Account account;
};

class Fleet {
 public:
  explicit Fleet(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) add();
  }

  void work() {
    switch (upto(20)) {
      case 0:
        if (members_.size() < 5) add();
        break;
      case 1:
        if (members_.size() > 2) leave(upto(members_.size()));
        break;
      case 2:
        change_objectives();
        break;
      case 3:
      case 4:
        change_gauges(*any().gauges);
        break;
      case 5:
      case 6:
        observe(any());
        break;
      case 7:
        retry(any());
        break;
      default:
        settle(any());
    }
  }

  void check() {
    const auto page = exposition_.text();
    const Scrape now(page);
    nothing_vanishes_or_falls(now);
    histograms_are_whole(page);
    sums_agree(now);
    nothing_unused_is_shown(now);
    shown_ = now.samples;
  }

 private:
  std::size_t upto(std::size_t end) { return random_() % end; }
  Member& any() { return *members_[upto(members_.size())]; }
  ReplicaShard& any_shard(Member& member) { return member.series->shard(upto(2)); }

  void add() {
    const auto pool = "pool" + std::to_string(upto(3));
    auto& series = exposition_.add({pool, "gpu" + std::to_string(next_++), "fp16"});
    auto& member = *members_.emplace_back(std::make_unique<Member>(series));
    series.gauges = [gauges = member.gauges] { return *gauges; };
    member.gauges->balancer_fallbacks = {{"kv_full", 0}, {"unknown_prompt", 0}, {"panic", 0}};
  }

  /// The replica leaves, and its series with it.
  void leave(std::size_t at) {
    const auto member = std::move(members_[at]);
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(at));
    exposition_.retire(*member->series);
    const auto label = replica_label(*member);
    std::erase_if(shown_, [&](const auto& one) { return one.first.find(label) != std::string::npos; });
  }

  void change_objectives() {
    std::vector<config::Slo> slos;
    for (int pool = 0; pool < 3; ++pool) {
      slos.push_back(
          {"fast", "pool" + std::to_string(pool), config::Seconds{0.1 + 0.001 * double(upto(900))}, {}, {}, {}});
      slos.push_back({"whole", "pool" + std::to_string(pool), {}, {}, {}, config::Seconds{double(1 + upto(99))}});
    }
    exposition_.set_slos(slos);
    for (const auto& member : members_)
      for (std::size_t loop = 0; loop < 2; ++loop) ASSERT_TRUE(exposition_.follow(*member->series, loop));
    // Other thresholds are other bounds.
    std::erase_if(shown_, [](const auto& one) { return one.first.find("le=\"") != std::string::npos; });
  }

  void change_gauges(ReplicaGauges& gauges) {
    gauges.in_flight = static_cast<std::uint32_t>(upto(3));
    gauges.resident_tokens = upto(2) * 1000;
    gauges.state = static_cast<ReplicaState>(upto(replica_state_names.size()));
    gauges.busy_seconds += 0.25 * static_cast<double>(upto(3));
    gauges.in_flight_seconds[upto(2)] += 0.5;
    gauges.balancer_fallbacks[upto(3)].second += upto(2);
    gauges.engine_running = upto(2) == 0 ? std::optional<double>() : 2;
    gauges.kv_tokens = upto(2) == 0 ? std::optional<std::uint64_t>() : 1000;
  }

  void observe(Member& member) {
    auto& shard = any_shard(member);
    const std::pair<const char*, Histogram*> all[] = {
        {"weir_time_to_first_token_seconds", &shard.time_to_first_token},
        {"weir_client_time_to_first_token_seconds", &shard.client_time_to_first_token},
        {"weir_inter_chunk_latency_seconds", &shard.inter_chunk_latency},
        {"weir_token_overhead_seconds", &shard.token_overhead}};
    const auto& [name, histogram] = all[upto(4)];
    // An observation may be 0, and then the sum does not tell that there is one.
    histogram->observe(upto(3) == 0 ? 0 : random_() % 100'000'000'000);
    ++member.account.observations[name];
  }

  void retry(Member& member) {
    any_shard(member).retries.add(static_cast<Retry>(upto(retry_names.size())));
    ++member.account.retries;
    any_shard(member).bytes[upto(2)].add(100);
    member.account.bytes += 100;
  }

  void settle(Member& member) {
    RequestRecord record = upto(3) == 0 ? record::unstreamed() : record::streamed();
    record.outcome = static_cast<Outcome>(upto(outcome_names.size()));
    record.facts.api = static_cast<Api>(upto(api_names.size()));
    auto labels = "outcome=\"" + std::string(name_of(record.outcome)) + '"';
    if (record.outcome == Outcome::client_abort) {
      record.phase = static_cast<Phase>(upto(phase_names.size()));
      labels += ",phase=\"" + std::string(name_of(*record.phase)) + '"';
      record.answer.end.reset();
    }
    any_shard(member).settle(record);
    ++member.account.requests;
    ++member.account.outcomes[labels];
  }

  static std::string replica_label(const Member& member) {
    return "replica=\"" + member.series->labels().replica + "\"";
  }

  /// True of series that may vanish, or whose value may fall, for their value is what it is now.
  static bool is_gauge(const Scrape& now, const std::string& series) {
    const auto found = now.types.find(series.substr(0, series.find('{')));
    return found != now.types.end() && found->second == "gauge";
  }
  static bool may_be_unknown(const std::string& series) {
    return series.starts_with("weir_engine_") || series.starts_with("weir_kv_tokens");
  }

  void nothing_vanishes_or_falls(const Scrape& now) {
    for (const auto& [series, before] : shown_) {
      const auto value = now.at(series);
      if (!may_be_unknown(series)) EXPECT_TRUE(value) << series;
      if (value && !is_gauge(now, series)) EXPECT_GE(*value, before) << series;
    }
  }

  /// All histograms of a family have the same buckets, at all times.
  static void histograms_are_whole(const std::string& page) {
    std::map<std::string, std::vector<double>> bounds;
    for (const auto& [name, one] : histograms_of(page)) {
      std::vector<double> own;
      for (const auto& [bound, count] : one.buckets) own.push_back(bound);
      const auto& of_family = bounds.emplace(name.substr(0, name.find(' ')), own).first->second;
      EXPECT_EQ(own, of_family) << name;
      ASSERT_TRUE(one.sum && one.count) << name;
      EXPECT_EQ(one.buckets.back().second, *one.count) << name;
      EXPECT_TRUE(std::ranges::is_sorted(one.buckets, {}, &std::pair<double, double>::second)) << name;
    }
  }

  /// Returns the sum of a replica's samples of a name.
  static double sum(const Scrape& now, const std::string& name, const Member& member) {
    double sum = 0;
    for (auto at = now.samples.lower_bound(name + '{'); at != now.samples.end() && at->first.starts_with(name + '{');
         ++at)
      if (at->first.find(replica_label(member)) != std::string::npos) sum += at->second;
    return sum;
  }

  void sums_agree(const Scrape& now) {
    for (const auto& member : members_) {
      const auto& account = member->account;
      const auto& labels = member->series->labels();
      for (const auto& [outcome, count] : account.outcomes) {
        EXPECT_EQ(now.at("weir_requests_total{pool=\"" + labels.pool + "\"," + replica_label(*member) +
                         ",config=\"fp16\",role=\"primary\"," + outcome + "}"),
                  count);
      }
      EXPECT_EQ(sum(now, "weir_requests_total", *member), account.requests);
      EXPECT_EQ(sum(now, "weir_api_requests_total", *member), account.requests);
      EXPECT_EQ(sum(now, "weir_retries_total", *member), account.retries);
      EXPECT_EQ(sum(now, "weir_bytes_total", *member), account.bytes);
      for (const auto& [name, count] : account.observations)
        EXPECT_EQ(sum(now, name + "_count", *member), count) << name;
    }
  }

  /// A replica at rest has its outcomes and what the balancer knows, and no histogram.
  void nothing_unused_is_shown(const Scrape& now) {
    for (const auto& [series, value] : now.samples) {
      if (series.find("replica=\"") == std::string::npos) continue;
      const auto name = series.substr(0, series.find('{'));
      if (name.ends_with("_count")) EXPECT_GT(value, 0) << series;
      if (name == "weir_api_requests_total") EXPECT_GT(value, 0) << series;
      if (name == "weir_itl_unknown_requests_total" || name == "weir_busy_seconds_total") EXPECT_GT(value, 0) << series;
    }
    for (const auto& member : members_) {
      for (const auto& name : {"weir_retries_total", "weir_bytes_total"}) {
        const bool shown = std::ranges::any_of(now.samples, [&](const auto& one) {
          return one.first.starts_with(std::string(name) + '{') &&
                 one.first.find(replica_label(*member)) != std::string::npos;
        });
        EXPECT_EQ(shown, sum(now, name, *member) > 0) << name;
      }
    }
  }

  std::mt19937_64 random_;
  Exposition exposition_{2, {"0", "c++"}};
  std::vector<std::unique_ptr<Member>> members_;
  int next_ = 0;
  std::map<std::string, double> shown_;  ///< The page before, less what may go.
};

TEST(ExpositionProperties, WhatWasShownStaysAndSumsAgreeWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fleet fleet(seed);
    for (int step = 0; step < 25 && !testing::Test::HasFailure(); ++step) {
      for (int i = 0; i < 4; ++i) fleet.work();
      fleet.check();
    }
  }
}

}  // namespace
}  // namespace weir::metrics::series
