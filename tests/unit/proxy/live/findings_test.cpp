// The machine that makes findings of what rules say, with rules that a test makes up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "bucket_counts.hpp"
#include "metrics/series/shard.hpp"
#include "proxy/live/figures.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/seconds.hpp"
#include "tests/draws.hpp"

namespace weir::proxy::live {
namespace {

using std::chrono::seconds;

/// The cases of the next second, which the rule repeats.
std::vector<Case> said;
void repeat(const Now&, std::vector<Case>& cases) { cases.insert(cases.end(), said.begin(), said.end()); }

constexpr seconds begins_after{10};
constexpr std::array one_rule{Rule{"odd", "replica", "It is odd.", begins_after, repeat}};

class FindingsTest : public ::testing::Test {
 protected:
  std::vector<Findings::Change> second(std::vector<Case> cases) {
    said = std::move(cases);
    now.at += seconds(1);
    now.time += seconds(1);
    return findings.tick(now);
  }
  std::vector<Findings::Change> second(Sign sign) { return second({{"gpu0", sign, "text"}}); }

  Now now{.at = Moment() + seconds(1000), .time = Wall() + seconds(1'700'000'000)};
  Findings findings{one_rule};
};

TEST_F(FindingsTest, BeginOnceTheRuleHasHeldForSoLong) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(second(Sign::bad).empty()) << i;
  const auto began = second(Sign::bad);
  ASSERT_EQ(began.size(), 1u);
  EXPECT_TRUE(began[0].begins);
  EXPECT_EQ(began[0].finding.who, "gpu0");
  EXPECT_EQ(now.time - began[0].finding.since, seconds(10)) << "since is when it began to hold";
  EXPECT_EQ(findings.standing().size(), 1u);
  EXPECT_TRUE(second(Sign::bad).empty()) << "said once";
}

TEST_F(FindingsTest, ABreakBeginsAnew) {
  for (const auto pause : {Sign::between, Sign::fine, Sign::unknown}) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(second(Sign::bad).empty());
    EXPECT_TRUE(second(pause).empty());
  }
  EXPECT_TRUE(findings.standing().empty());
}

TEST_F(FindingsTest, EndOnceItHasBeenWellForSoLong) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(Sign::fine).empty());
    EXPECT_TRUE(second(Sign::between).empty()) << "not on the good side";
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(Sign::fine).empty()) << i;
  const auto over = second(Sign::fine);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_FALSE(over[0].begins);
  EXPECT_TRUE(findings.standing().empty());
}

TEST_F(FindingsTest, WhoHasNoCaseIsFine) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(std::vector<Case>()).empty());
  EXPECT_EQ(second(std::vector<Case>()).size(), 1u);
}

TEST_F(FindingsTest, WhatIsUnknownStandsForAWhile) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int i = 0; i < 120; ++i) EXPECT_TRUE(second(Sign::unknown).empty());
  EXPECT_EQ(second(Sign::unknown).size(), 1u);
}

/// A figure that is known now and then, and well whenever it is.
TEST_F(FindingsTest, NothingStandsForEverWhereTheFigureComesAndGoes) {
  for (const int known : {1, 5, 19}) {
    for (int i = 0; i < 11; ++i) second(Sign::bad);
    ASSERT_EQ(findings.standing().size(), 1u);
    int lasted = 0;
    for (; !findings.standing().empty() && lasted < 1000; ++lasted)
      second(lasted % (known + 1) < known ? Sign::fine : Sign::unknown);
    EXPECT_LE(lasted, 121) << known;
  }
}

TEST_F(FindingsTest, TheTextIsThatOfTheLastSecondThatWasNotWell) {
  for (int i = 0; i < 11; ++i) second({{"gpu0", Sign::bad, "text " + std::to_string(i)}});
  second({{"gpu0", Sign::between, "the last"}});
  second({{"gpu0", Sign::fine, ""}});
  EXPECT_EQ(findings.standing().at(0).text, "the last");
}

TEST_F(FindingsTest, TheCriticalOnesComeFirstThenTheOldest) {
  for (int i = 0; i < 30; ++i) {
    std::vector<Case> cases{{"a", Sign::bad, ""}, {"c", Sign::bad, "", Severity::critical}};
    if (i > 5) cases.push_back({"b", Sign::bad, ""});
    second(std::move(cases));
  }
  std::string order;
  for (const auto& one : findings.standing()) order += one.who;
  EXPECT_EQ(order, "cab");
}

/// Whatever a rule says of several names, each name's findings begin at least begins_after + ends_after apart, and end
/// no sooner than ends_after after they began.
TEST_F(FindingsTest, NeverFlapMoreOftenThanTheHysteresisAllows) {
  std::mt19937 random(11);
  std::map<std::string, Moment> began;
  std::size_t begins = 0;
  for (int round = 0; round < 60; ++round) {
    // How long a sign lasts, on average, differs by round.
    const int lasts = 1 + round % 30;
    std::map<std::string, Sign> signs;
    for (int i = 0; i < 1000; ++i) {
      std::vector<Case> cases;
      for (const auto* who : {"gpu0", "gpu1", "gpu2"}) {
        if (random() % static_cast<unsigned>(lasts) == 0) signs[who] = static_cast<Sign>(random() % 4);
        if (random() % 50 != 0) cases.push_back({who, signs[who], "text"});
      }
      for (const auto& change : second(std::move(cases))) {
        const auto& who = change.finding.who;
        if (change.begins) {
          ++begins;
          if (began.contains(who)) {
            ASSERT_GE(now.at - began[who], begins_after + Findings::ends_after);
          }
          began[who] = now.at;
        } else {
          ASSERT_GE(now.at - began[who], Findings::ends_after);
        }
      }
    }
  }
  EXPECT_GT(begins, 100u) << "the test shows something";
}

/// A figure with noise about the threshold: the same bound, whatever the noise.
TEST_F(FindingsTest, AFigureThatTremblesAboutItsThresholdMakesFewFindings) {
  std::mt19937 random(12);
  for (const double noise : {0.01, 0.1, 0.3, 1.0}) {
    std::normal_distribution<double> tremble(0, noise);
    std::size_t begins = 0;
    for (int i = 0; i < 3600; ++i) {
      const double figure = 1.5 + tremble(random);
      const auto sign = figure >= 1.5 ? Sign::bad : figure < 1.25 ? Sign::fine : Sign::between;
      for (const auto& change : second(sign)) begins += change.begins ? 1 : 0;
    }
    EXPECT_LE(begins, 3u) << noise;
  }
}

}  // namespace

// Incidents in a simulated fleet: each is named within 30 s, and a quiet hour with drift names none. The figures of
// latency come from histograms that forget, as they do in a running weir.

namespace {

using std::chrono::hours;

/// A replica of the simulation: how it behaves, and what was counted of it.
struct SimReplica {
  explicit SimReplica(std::string its_name) : name(std::move(its_name)) {}

  std::string name;
  double gap = 0.020, ttft = 0.080;  ///< Medians, in seconds.
  double share = 0.25;               ///< Of the pool's requests.
  double drift = 0;                  ///< Of the logarithm of its speed.
  double estimate_ratio = 1.05, coalesced = 0.02, foreign = 0, empty = 0.01;
  metrics::ReplicaState state = metrics::ReplicaState::up;
  double state_seconds = 1000;
  metrics::series::Histogram gaps{metrics::series::per_token_bounds}, ttfts{metrics::series::latency_bounds};
  Recent recent_gap, recent_ttft;
};

/// A pool of four replicas with a shadow and three keys, second by second.
struct Fleet {
  explicit Fleet(unsigned seed) : random(seed) {
    for (const auto* name : {"gpu0", "gpu1", "gpu2", "gpu3"}) replicas.emplace_back(name);
  }

  double noise(double deviation) { return std::exp(std::normal_distribution<double>(0, deviation)(random)); }
  std::uint64_t poisson(double mean) { return mean > 0 ? std::poisson_distribution<std::uint64_t>(mean)(random) : 0; }

  void watch(SimReplica& one, ReplicaNow& row) {
    const double requests = rate * one.share;
    for (auto n = poisson(requests); n > 0; --n)
      one.ttfts.observe(static_cast<std::uint64_t>(one.ttft * std::exp(one.drift) * noise(0.8) * 1e9));
    // 150 tokens a request; one of ten gaps is drawn, and counts for ten.
    for (auto n = poisson(requests * 15); n > 0; --n)
      one.gaps.observe(static_cast<std::uint64_t>(one.gap * std::exp(one.drift) * noise(0.3) * 1e9), 10);
    one.recent_gap.take(one.gaps.bounds(), counts_of(one.gaps), fade_in(recent_seconds, 1), Figures::most_gaps);
    one.recent_ttft.take(one.ttfts.bounds(), counts_of(one.ttfts), fade_in(recent_ttft_seconds, 1),
                         Figures::most_ttfts);
    row.row = row.name = row.config = one.name;
    row.pool = "chat";
    row.state = one.state;
    row.state_seconds = one.state_seconds;
    row.in_flight = one.state == metrics::ReplicaState::draining ? 0 : static_cast<std::uint32_t>(requests * 3);
    const auto in_seconds = [](std::optional<double> nanoseconds) {
      return nanoseconds ? std::optional(*nanoseconds / 1e9) : std::nullopt;
    };
    row.recent_gap = in_seconds(one.recent_gap.quantile(0.5));
    row.recent_gaps = one.recent_gap.count();
    row.recent_ttft = in_seconds(one.recent_ttft.quantile(0.5));
    row.recent_ttfts = one.recent_ttft.count();
    row.share = one.share;
    row.requests_60s = 60 * requests;
    row.empty_60s = std::round(row.requests_60s * one.empty);
    row.estimate_ratio = one.estimate_ratio * noise(0.05);
    row.estimates = 100;
    row.streams_60s = 60 * requests;
    row.coalesced_60s = row.streams_60s * one.coalesced;
    if (replicas_at_limit) row.max_in_flight = row.in_flight;
    row.engine_waiting = engines_wait;
    row.kv_usage = 0.5;
    row.divergence = std::round(std::normal_distribution<double>(0, 0.8)(random)) + one.foreign;
  }

  const Now& second() {
    now.at += seconds(1);
    now.time += seconds(1);
    now.replicas.assign(replicas.size(), ReplicaNow());
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      replicas[i].state_seconds += 1;
      watch(replicas[i], now.replicas[i]);
    }
    compare_with_peers(now.replicas);
    now.pools.assign(1, PoolNow());
    auto& pool = now.pools[0];
    pool.name = "chat";
    pool.up = replicas.size();
    pool.requests_60s = 60 * rate + refused;
    pool.refused_60s = refused;
    pool.in_flight = in_flight;
    pool.max_in_flight = 192;
    std::uint64_t all_waiting = 0;
    now.keys.clear();
    for (const auto& [name, waiting] : waiting_of) {
      auto& key = now.keys.emplace_back();
      key.name = name;
      key.waiting = static_cast<std::uint32_t>(poisson(waiting));
      key.open = key.waiting + 5;
      key.requests_60s = 20;
      key.waits = 20;
      key.wait = name == "flood" ? 6 : 0.3;
      all_waiting += key.waiting;
    }
    pool.waiting = all_waiting;
    if (all_waiting > 0) pool.oldest_waiting = oldest_waiting * noise(0.2);
    now.shadows.assign(1, ShadowNow());
    auto& shadow = now.shadows[0];
    shadow.name = "fp8";
    shadow.in_flight = 20;
    shadow.max_in_flight = 64;
    silent = shadow_is_stuck ? silent + 1 : std::uniform_real_distribution<double>(0, 2)(random);
    shadow.silent = silent;
    shadow.sent_60s = 100;
    shadow.dropped_60s = {{"max_in_flight", shadow_drops}, {"primary_waits", 5}};
    auto& weir = now.weir;
    weir.threads = 2;
    weir.cpu = 0.3;
    weir.instance = "weir-1";
    weir.loop_delay_p99 = loop_delay;
    if (weir.bypass_seconds) ++*weir.bypass_seconds;
    return now;
  }

  std::mt19937 random;
  double rate = 20;  ///< Requests a second.
  std::deque<SimReplica> replicas;
  std::vector<std::pair<std::string, double>> waiting_of{{"flood", 1}, {"alice", 1}, {"bob", 1}};
  double oldest_waiting = 0.2, refused = 0, silent = 0, shadow_drops = 1, engines_wait = 0, loop_delay = 0.002;
  std::uint32_t in_flight = 60;
  bool shadow_is_stuck = false, replicas_at_limit = false;
  Now now{.at = Moment() + hours(1), .time = Wall() + seconds(1'700'000'000)};
};

struct Incident {
  std::string what, who;
  std::function<void(Fleet&)> begin;
  std::string text;  ///< A part of the finding's sentence.
};

const std::vector<Incident>& incidents() {
  using metrics::ReplicaState;
  static const std::vector<Incident> all{
      {"slow_replica", "gpu1",
       [](Fleet& fleet) {  // The balancer spares it.
         fleet.replicas[1].gap *= 2.2;
         fleet.replicas[1].ttft *= 2.1;
         fleet.replicas[1].share = 0.02;
       },
       "gpu1 is slow: it has "},
      {"slow_replica", "gpu2", [](Fleet& fleet) { fleet.replicas[2].ttft *= 2.8; }, "times the TTFT of its peers"},
      {"slow_replica", "gpu3", [](Fleet& fleet) { fleet.replicas[3].gap *= 1.8; }, "times the time between chunks"},
      {"empty_answers", "gpu2", [](Fleet& fleet) { fleet.replicas[2].empty = 0.8; },
       "gpu2 answers with nothing: 80 % of its answers"},
      {"flooding_key", "flood", [](Fleet& fleet) { fleet.waiting_of = {{"flood", 56}, {"alice", 10}, {"bob", 3}}; },
       "requests that wait are those of key 'flood'"},
      {"stuck_shadow", "fp8", [](Fleet& fleet) { fleet.shadow_is_stuck = true; },
       "shadow 'fp8' has given no token for 1"},
      {"lagging_shadow", "fp8", [](Fleet& fleet) { fleet.shadow_drops = 30; }, "23 % of its copies were dropped"},
      {"wrong_estimates", "gpu0", [](Fleet& fleet) { fleet.replicas[0].estimate_ratio = 0.45; },
       "gpu0 counts other prompt tokens"},
      {"wrong_estimates", "gpu3", [](Fleet& fleet) { fleet.replicas[3].estimate_ratio = 2.2; }, "times the truth"},
      {"coalescing_upstream", "gpu2",
       [](Fleet& fleet) {  // Most gaps of gathered tokens are tiny.
         fleet.replicas[2].coalesced = 0.9;
         fleet.replicas[2].gap /= 40;
       },
       "come several in a read, in 90 % of its streams"},
      {"saturated_pool", "chat",
       [](Fleet& fleet) {
         fleet.oldest_waiting = 6;
         fleet.in_flight = 192;
       },
       "max_in_flight = 192 is reached while no engine has a queue: raise it"},
      {"saturated_pool", "chat",
       [](Fleet& fleet) {
         fleet.oldest_waiting = 6;
         fleet.refused = 600;
         fleet.engines_wait = 3;
       },
       "3 replicas more would do what is asked"},
      {"saturated_pool", "chat",
       [](Fleet& fleet) {
         fleet.oldest_waiting = 6;
         fleet.replicas_at_limit = true;
       },
       "each replica is at its max_in_flight while no engine has a queue: raise that"},
      {"late_loop", "weir", [](Fleet& fleet) { fleet.loop_delay = 0.1; }, "by 100 ms"},
      {"log_lines_lost", "weir",
       [](Fleet& fleet) {
         fleet.now.weir.log_loses = true;
         fleet.now.weir.log_why = "No space left on device";
       },
       "No space left on device"},
      {"bypass_on", "weir", [](Fleet& fleet) { fleet.now.weir.bypass_seconds = 590; }, "weir bypass off"},
      {"drain_forgotten", "gpu3",
       [](Fleet& fleet) {
         fleet.replicas[3].state = ReplicaState::draining;
         fleet.replicas[3].state_seconds = 30 * 60 - 10;
         fleet.replicas[3].share = 0;
       },
       "weir undrain gpu3"},
      {"certificate_ending", "weir",
       [](Fleet& fleet) { fleet.now.weir.certificate_ends = fleet.now.time + hours(13 * 24); }, "ends in 13 d"},
      {"foreign_load", "gpu1", [](Fleet& fleet) { fleet.replicas[1].foreign = 12; }, "someone else uses it"},
  };
  return all;
}

using Named = std::pair<std::string_view, std::string>;

TEST(Rules, EachIncidentIsNamedWithinThirtySecondsAndNothingElse) {
  for (const auto& incident : incidents()) {
    for (unsigned seed = 1; seed <= tests::draws(1, 10); ++seed) {
      Fleet fleet(seed);
      Findings findings(rules());
      for (int i = 0; i < 120; ++i) ASSERT_TRUE(findings.tick(fleet.second()).empty()) << incident.what;
      incident.begin(fleet);
      std::set<Named> named;
      int after = 0;
      std::string text;
      for (int i = 1; i <= 120; ++i) {
        for (const auto& change : findings.tick(fleet.second())) {
          EXPECT_TRUE(change.begins) << incident.what << ": it goes on";
          named.emplace(change.finding.what, change.finding.who);
          if (after == 0) {
            after = i;
            text = change.finding.text;
          }
        }
      }
      EXPECT_THAT(named, ::testing::ElementsAre(Named(incident.what, incident.who))) << incident.what << seed;
      EXPECT_LE(after, 30) << incident.what;
      EXPECT_THAT(text, ::testing::HasSubstr(incident.text)) << incident.what;
    }
  }
}

TEST(Rules, EachRuleHasAnIncident) {
  std::set<std::string_view> shown;
  for (const auto& incident : incidents()) shown.insert(incident.what);
  for (const auto& rule : rules()) EXPECT_TRUE(shown.contains(rule.what)) << rule.what;
  EXPECT_GE(incidents().size(), 15u);
}

/// Speeds drift by some percent, load comes and goes, requests wait now and then for a moment, a shadow is spared.
TEST(Rules, AQuietHourWithDriftNamesNothing) {
  for (unsigned seed = 1; seed <= tests::draws(1, 10); ++seed) {
    Fleet fleet(seed);
    Findings findings(rules());
    std::normal_distribution<double> step(0, 1);
    constexpr double drift = 0.04, memory = 120;  // Its deviation, and how long it lasts in seconds.
    for (int i = 0; i < 3600; ++i) {
      for (auto& one : fleet.replicas)
        one.drift = one.drift * (1 - 1 / memory) + drift * std::sqrt(2 / memory) * step(fleet.random);
      fleet.rate = 20 + 15 * std::sin(i / 300.0);
      if (i % 60 == 0) fleet.oldest_waiting = std::uniform_real_distribution<double>(0, 1.5)(fleet.random);
      fleet.waiting_of[0].second = i % 200 < 5 ? 12 : 1;
      fleet.shadow_drops = i % 500 < 60 ? 8 : 0;
      fleet.loop_delay = i % 300 < 5 ? 0.05 : 0.005;
      for (const auto& change : findings.tick(fleet.second()))
        ADD_FAILURE() << "seed " << seed << ", second " << i << ": " << change.finding.text;
    }
  }
}

/// Returns what a rule says of one second.
std::vector<Case> said_by(std::string_view what, const Now& now) {
  std::vector<Case> cases;
  for (const auto& rule : rules())
    if (rule.what == what) rule.look(now, cases);
  return cases;
}
bool is_bad(std::string_view what, const Now& now) {
  return std::ranges::any_of(said_by(what, now), [](const Case& one) { return one.sign == Sign::bad; });
}

/// Conditions of rules beside their first thresholds.
TEST(Rules, AskForMoreThanOneFigure) {
  Now alone;
  alone.pools.emplace_back().waiting = 10;
  alone.keys.emplace_back().waiting = 10;
  EXPECT_FALSE(is_bad("flooding_key", alone)) << "nobody else is there to suffer";
  auto beside = alone;
  beside.keys.emplace_back().requests_60s = 1;
  EXPECT_TRUE(is_bad("flooding_key", beside));

  Now few;
  few.shadows.emplace_back().dropped_60s = {{"busy", 5}};
  few.shadows[0].sent_60s = 5;
  EXPECT_FALSE(is_bad("lagging_shadow", few)) << "ten copies tell nothing";
  few.shadows[0].sent_60s = 15;
  EXPECT_TRUE(is_bad("lagging_shadow", few));

  Now foreign;
  foreign.replicas.emplace_back().in_flight = 100;
  foreign.replicas[0].divergence = 20;
  EXPECT_FALSE(is_bad("foreign_load", foreign)) << "a fifth of what weir has there";
  foreign.replicas[0].divergence = 26;
  EXPECT_TRUE(is_bad("foreign_load", foreign));
}

TEST(Rules, SayHowBadItIs) {
  Now now;
  for (const auto& [left, severity] : {std::pair(hours(47), Severity::critical), {hours(49), Severity::warning}}) {
    now.weir.certificate_ends = now.time + left;
    EXPECT_EQ(said_by("certificate_ending", now).at(0).severity, severity) << left.count();
  }
  auto& pool = now.pools.emplace_back();
  pool.waiting = 3;
  pool.oldest_waiting = 5;
  EXPECT_EQ(said_by("saturated_pool", now).at(0).severity, Severity::critical) << "no replica is up";
  pool.up = 1;
  EXPECT_EQ(said_by("saturated_pool", now).at(0).severity, Severity::warning);
}

/// A higher limit helps where engines have room, and no limit helps where they have a queue of their own.
TEST(Rules, ASaturatedPoolIsToldWhatWouldHelp) {
  Now now;
  auto& pool = now.pools.emplace_back();
  pool.waiting = 3;
  pool.oldest_waiting = 5;
  pool.up = 1;
  pool.max_in_flight = pool.in_flight = 4;
  auto& replica = now.replicas.emplace_back();
  replica.state = metrics::ReplicaState::up;
  replica.kv_usage = 0.5;
  replica.engine_waiting = 0;
  EXPECT_THAT(said_by("saturated_pool", now).at(0).text, ::testing::HasSubstr("max_in_flight = 4 is reached"));
  for (const auto& [waiting, usage] : {std::pair(2, 0.5), {0, 0.9}}) {
    replica.engine_waiting = waiting;
    replica.kv_usage = usage;
    EXPECT_THAT(said_by("saturated_pool", now).at(0).text, ::testing::HasSubstr("a replica more would help"));
  }
}

/// Loops that are late gather tokens themselves.
TEST(Rules, AnUpstreamIsNotBlamedForWhatWeirsOwnLoopsDo) {
  Fleet fleet(3);
  Findings findings(rules());
  fleet.replicas[2].coalesced = 0.9;
  const auto is_blamed = [&](double delay) {
    fleet.loop_delay = delay;
    for (int i = 0; i < 130; ++i) findings.tick(fleet.second());
    return std::ranges::any_of(findings.standing(), [](const auto& one) { return one.what == "coalescing_upstream"; });
  };
  EXPECT_FALSE(is_blamed(0.1));
  EXPECT_TRUE(is_blamed(0.005));
  EXPECT_FALSE(is_blamed(0.1)) << "forgotten after two minutes";
}

/// A finding that goes by time ends with the time, though a new time begins at once.
TEST(Rules, ATimeThatBeginsAnewEndsItsFinding) {
  using Set = void (*)(Fleet& fleet, double seconds);
  const std::pair<std::string_view, Set> all[] = {
      {"bypass_on", [](Fleet& fleet, double seconds) { fleet.now.weir.bypass_seconds = seconds; }},
      {"drain_forgotten",
       [](Fleet& fleet, double seconds) {
         fleet.replicas[3].state = metrics::ReplicaState::draining;
         fleet.replicas[3].state_seconds = seconds;
         fleet.replicas[3].share = 0;
       }},
  };
  for (const auto& [what, set] : all) {
    Fleet fleet(1);
    Findings findings(rules());
    set(fleet, 3600);
    findings.tick(fleet.second());
    ASSERT_EQ(findings.standing().size(), 1u) << what;
    for (int i = 0; i < 25; ++i) {
      set(fleet, i);
      findings.tick(fleet.second());
    }
    EXPECT_TRUE(findings.standing().empty()) << what << ": " << findings.standing().front().text;
  }
}

TEST(Rules, ASlowReplicaIsToldByWhatIsSlowAlone) {
  const auto slow = std::ranges::find(rules(), std::string_view("slow_replica"), &Rule::what);
  const auto text = [&](std::optional<double> gap, std::optional<double> ttft) {
    Now now;
    auto& one = now.replicas.emplace_back();
    one.row = one.name = "gpu0";
    one.state = metrics::ReplicaState::up;
    one.gap_by_peers = gap;
    one.ttft_by_peers = ttft;
    std::vector<Case> cases;
    slow->look(now, cases);
    return cases.empty() ? std::string() : cases[0].text;
  };
  EXPECT_EQ(text(0.5, 3), "gpu0 is slow: it has 3.0 times the TTFT of its peers");
  EXPECT_EQ(text(2, 0.5), "gpu0 is slow: it has 2.0 times the time between chunks of its peers");
  EXPECT_EQ(text(2, 3), "gpu0 is slow: it has 2.0 times the time between chunks and 3.0 times the TTFT of its peers");
  EXPECT_EQ(text({}, 1.6), "gpu0 is slow: it has 1.6 times the TTFT of its peers");
  EXPECT_EQ(text(1, 1), "");
}

/// The rule may go by what it compares alone: which replicas are peers of each other.
TEST(Rules, OnlyLikeReplicasArePeers) {
  const auto replica = [](std::string name, std::string config, std::string gpu, double weight, double gap) {
    ReplicaNow one;
    one.row = one.name = std::move(name);
    one.pool = "chat";
    one.config = config.empty() ? one.name : std::move(config);
    one.gpu = std::move(gpu);
    one.weight = weight;
    one.state = metrics::ReplicaState::up;
    one.recent_gap = gap;
    one.recent_gaps = 100;
    return one;
  };
  std::vector<ReplicaNow> all{replica("a", "", "H100", 1, 0.02),   replica("b", "", "H100", 1, 0.02),
                              replica("c", "", "H100", 1, 0.05),   replica("d", "", "L4", 1, 0.09),
                              replica("e", "fp8", "H100", 1, 0.1), replica("f", "", "H100", 0.5, 0.1)};
  all.push_back(replica("g", "", "H100", 1, 0.5));
  all.back().state = metrics::ReplicaState::ejected;
  all.push_back(replica("h", "", "H100", 1, 0.5));
  all.back().recent_gaps = 10;
  // The gaps of gathered tokens are neither judged nor compared with.
  all.push_back(replica("i", "", "H100", 1, 0.0005));
  all.back().streams_60s = 10;
  all.back().coalesced_60s = 9;
  compare_with_peers(all);
  EXPECT_NEAR(*all[0].gap_by_peers, 0.02 / 0.035, 1e-9);
  EXPECT_NEAR(*all[2].gap_by_peers, 2.5, 1e-9);
  for (std::size_t i = 3; i < all.size(); ++i) EXPECT_FALSE(all[i].gap_by_peers) << all[i].name;
}

}  // namespace
}  // namespace weir::proxy::live
