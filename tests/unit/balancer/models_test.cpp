#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <string>

#include "balancer/models.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

ModelList list_of(std::vector<ModelId> ids) { return std::make_shared<const std::vector<ModelId>>(std::move(ids)); }

TEST(ModelId, IsZeroForNoNameAloneAndGoesByTheFirst128Bytes) {
  EXPECT_EQ(model_id(""), 0u);
  EXPECT_NE(model_id("m"), 0u);
  EXPECT_NE(model_id("m"), model_id("M"));
  const std::string cut(128, 'm');
  EXPECT_EQ(model_id(cut + "tail"), model_id(cut));
  EXPECT_NE(model_id(cut), model_id(cut.substr(1)));
}

TEST(ListedModels, AnUnknownListNeitherHasNorLacksAModel) {
  ListedModels models;
  EXPECT_FALSE(models.is_known());
  EXPECT_FALSE(models.has(1));
  EXPECT_FALSE(models.lacks(1));
}

TEST(ListedModels, WhatAnAnswerTeachesHoldsUntilTheListChanges) {
  ListedModels models;
  EXPECT_TRUE(models.set(list_of({1, 3})));
  EXPECT_TRUE(models.has(3));
  EXPECT_FALSE(models.has(2));
  EXPECT_TRUE(models.lacks(2));
  models.answered(2);
  EXPECT_FALSE(models.lacks(2));
  EXPECT_FALSE(models.has(2)) << "an engine that takes any name shows nothing of the others";
  EXPECT_FALSE(models.set(list_of({1, 3}))) << "the same list";
  EXPECT_FALSE(models.lacks(2));
  EXPECT_TRUE(models.set(list_of({1})));
  EXPECT_TRUE(models.lacks(2));
  EXPECT_TRUE(models.set(nullptr));
  EXPECT_FALSE(models.lacks(2));
}

TEST(ListedModels, ManyNamesThatAreAnsweredPushOutTheOldestOfThemAndNoneOfTheList) {
  ListedModels models;
  models.set(list_of({1}));
  for (ModelId model = 2; model < 11; ++model) {
    models.answered(model);
    models.answered(1);
    models.answered(model);
  }
  EXPECT_TRUE(models.lacks(2));
  EXPECT_FALSE(models.lacks(3));
  EXPECT_FALSE(models.lacks(10));
  EXPECT_TRUE(models.has(1));
}

/// Engines that load models on demand, behind a pool, in simulated time.
class OnDemand {
 public:
  struct Engine {
    std::size_t holds = 2;
    double load = 3;
    bool in_line = true;  ///< Who needs no load waits for the loads before it, too.
    double first_token = 0.02, decode = 0.1;
    double work = 0;  ///< The prompts' mean, one after the other.
  };
  OnDemand(std::size_t replicas, const Engine& engine, std::uint64_t seed) : random(seed), engine_(engine) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) specs.push_back(replica("r" + std::to_string(i)));
    pool_ = pool_of(specs, config::Policy::least_queued_tokens, seed);
    held_.resize(replicas);
    free_at_.resize(replicas);
  }

  using Done = std::function<void()>;
  void send(const std::string& model, Done done) {
    auto lease = std::make_shared<Lease>(admitted(place(*pool_, chat_of(200, model), at(now_))));
    const ReplicaIndex r = lease->replica();
    ++requests[model][r];
    ++sent;
    double ready = now_;
    auto& held = held_[r];
    auto found = std::ranges::find(held, model, &Held::name);
    if (found == held.end()) {
      ++loads;
      free_at_[r] = std::max(free_at_[r], now_) + engine_.load;
      ready = free_at_[r];
      held.push_front({model, ready});
      if (held.size() > engine_.holds) held.pop_back();
    } else {
      ready = std::max(ready, engine_.in_line ? free_at_[r] : found->ready);
      std::rotate(held.begin(), found, found + 1);
    }
    if (engine_.work > 0) {
      std::exponential_distribution<double> work(1 / engine_.work);
      free_at_[r] = ready = std::max(ready, free_at_[r]) + work(random);
    }
    waited += ready - now_;
    plan(ready + engine_.first_token, [this, lease, done] {
      lease->first_token(at(now_));
      plan(now_ + engine_.decode, [this, lease, done] {
        lease->end(answer(50, 6), at(now_));
        if (done) done();
      });
    });
  }
  void plan(double time, Done what) { events_.push({time, order_++, std::move(what)}); }
  void run(double until = 1e9) {
    while (!events_.empty() && events_.top().time <= until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      event.what();
    }
  }
  double now() const { return now_; }
  /// So many users send one request after the other, 0.1 s apart, until all are sent.
  void closed_loop(int users, std::size_t all, const std::function<std::string(int)>& model) {
    for (int user = 0; user < users; ++user) plan(0.001 * user, [=, this] { next(user, all, model); });
    run();
  }
  void open_loop(double rate, std::size_t all, const std::function<std::string(int)>& model) {
    std::exponential_distribution<double> gap(rate);
    double time = 0;
    for (std::size_t i = 0; i < all; ++i) {
      time += gap(random);
      plan(time, [=, this] { send(model(static_cast<int>(i)), nullptr); });
    }
    run();
  }
  std::function<std::string(int)> any_of(int models) {
    return [this, models](int) { return "m" + std::to_string(random() % static_cast<unsigned>(models)); };
  }

  std::map<std::string, std::map<ReplicaIndex, int>> requests;
  std::size_t loads = 0, sent = 0;
  double waited = 0;
  std::mt19937_64 random;

 private:
  void next(int user, std::size_t all, const std::function<std::string(int)>& model) {
    if (sent >= all) return;
    send(model(user), [=, this] { plan(now_ + 0.1, [=, this] { next(user, all, model); }); });
  }
  struct Held {
    std::string name;
    double ready = 0;
  };
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    Done what;
    bool operator<(const Event& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
  };
  Engine engine_;
  std::shared_ptr<Pool> pool_;
  std::vector<std::deque<Held>> held_;
  std::vector<double> free_at_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

constexpr std::size_t never = RecentModels::never;

// Clients make up names.
TEST(RecentModels, ThatAreAtWorkOrWereAnsweredStayWhateverNamesAreSent) {
  RecentModels models;
  const Moment now{};
  for (const ModelId id : {1U, 2U}) models.sent(id, 0, now);
  models.first_token(1);
  models.ended(2, {.streamed = false, .answered = true}, now);
  for (ModelId made_up = 100; made_up < 130; ++made_up) models.sent(made_up, 0, now);
  EXPECT_EQ(models.distance(1), 0u);
  EXPECT_LT(models.before(2), RecentModels::most);
  for (ModelId made_up = 100; made_up < 130; ++made_up) models.ended(made_up, {}, now);
  EXPECT_EQ(models.distance(1), 0u);
  EXPECT_LE(models.distance(2), 1u);
}

TEST(RecentModels, TheDistanceIsHowManyOthersWereSentSince) {
  RecentModels models;
  EXPECT_EQ(models.distance(1), RecentModels::first);
  for (ModelId model = 1; model <= 3; ++model) {
    models.sent(model, 0, at(1));
    models.ended(model, {.answered = true}, at(1));
  }
  EXPECT_EQ(models.distance(3), 0u);
  EXPECT_EQ(models.distance(1), 2u);
  EXPECT_EQ(models.distance(4), never);
  EXPECT_EQ(models.before(4), 3u);
  models.sent(1, 0, at(2));
  EXPECT_EQ(models.distance(1), 0u);
  EXPECT_EQ(models.distance(3), 1u);
  for (ModelId model = 10; model < 18; ++model) {
    models.sent(model, 0, at(3));
    models.ended(model, {.answered = true}, at(3));
  }
  EXPECT_EQ(models.distance(10), 7u);
  EXPECT_EQ(models.distance(1), never) << "eight are kept";
}

TEST(RecentModels, AModelAtWorkStaysWhereItIsAndOneThatWaitsDoesNot) {
  RecentModels models;
  models.sent(1, 1, at(1));
  models.sent(2, 0.5, at(1));
  EXPECT_EQ(models.distance(1), 1u);
  EXPECT_EQ(models.loading(), 1.5);
  models.first_token(1);
  EXPECT_EQ(models.distance(1), 0u);
  EXPECT_EQ(models.loading(), 0.5);
  models.ended(1, {.streamed = true, .answered = true}, at(2));
  EXPECT_EQ(models.distance(1), 1u);
  models.ended(2, {.answered = true}, at(2));
  EXPECT_EQ(models.loading(), 0) << "an answer that was not streamed";
}

TEST(RecentModels, ANameThatWasNeverAnsweredIsForgottenWithItsLastRequest) {
  RecentModels models;
  models.sent(1, 0, at(1));
  models.ended(1, {.answered = true}, at(1));
  models.sent(2, 1, at(1));
  models.sent(2, 1, at(1));
  models.ended(2, {}, at(1));
  EXPECT_EQ(models.distance(1), 1u);
  EXPECT_EQ(models.loading(), 1);
  models.ended(2, {}, at(1));
  EXPECT_EQ(models.distance(1), 0u);
  EXPECT_EQ(models.distance(2), never);
  EXPECT_EQ(models.loading(), 0);
  models.ended(1, {}, at(2));
  EXPECT_EQ(models.distance(1), 0u);
}

TEST(FirstTokens, CountFromTheFirstTokenOfTheRequestsBefore) {
  FirstTokens tokens;
  EXPECT_EQ(tokens.seconds_for(1, at(1), at(4)), 3);
  tokens.came(1, at(4));
  tokens.came(3, at(5));
  EXPECT_EQ(tokens.seconds_for(2, at(1), at(6)), 2) << "the third was sent later";
  EXPECT_EQ(tokens.seconds_for(4, at(1), at(6)), 1);
  EXPECT_EQ(tokens.seconds_for(4, at(5.5), at(6)), 0.5);
}

/// Teaches `n` first tokens of each distance at which an engine holds `holds` models, and `load` for the others.
SwitchPrices taught(std::size_t holds, double load, int n = 8) {
  SwitchPrices prices;
  prices.note_sent(never);
  for (int i = 0; i < n; ++i)
    for (std::size_t distance = 0; distance <= never; ++distance)
      prices.learn(distance, 0.05 + 0.01 * (i % 2) + (distance < holds ? 0 : load), 1, at(1));
  return prices;
}

TEST(SwitchPrices, AreWhatAnEngineWasSeenToNeedForAModelThatItDoesNotHold) {
  const auto loads = taught(3, 2).loads(0, at(1));
  EXPECT_EQ(loads[0], 0);
  EXPECT_LT(loads[2], 0.2);
  EXPECT_GT(loads[3], 1.8);
  for (const std::size_t distance : {std::size_t{3}, std::size_t{5}, never, RecentModels::first})
    EXPECT_NEAR(loads[distance], 2, 0.2) << distance;
}

TEST(SwitchPrices, AreNothingForAnEngineThatHoldsAllModels) {
  for (const double load : taught(99, 0).loads(0, at(1))) EXPECT_EQ(load, 0);
  SwitchPrices noisy;
  noisy.note_sent(never);
  std::mt19937_64 random(1);
  std::exponential_distribution<double> seconds(1);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    noisy.learn(0, seconds(random), 1, at(1));
    noisy.learn(never, seconds(random), 1, at(1));
    sum += noisy.loads(0, at(1))[never];
  }
  EXPECT_LT(sum / 1000, 0.05) << "chance makes no price";
}

TEST(SwitchPrices, AreNothingWhereEachReplicaHasOneModel) {
  SwitchPrices prices;
  for (int i = 0; i < 8; ++i) prices.learn(i < 4 ? RecentModels::first : 0, i < 4 ? 5 : 0.05, 1, at(1));
  for (const double load : prices.loads(10, at(1))) EXPECT_EQ(load, 0);
}

TEST(SwitchPrices, AreGuessedForAFewSwitches) {
  SwitchPrices prices;
  prices.note_sent(0);
  EXPECT_EQ(prices.loads(3, at(1))[never], 0) << "no switch yet";
  prices.note_sent(1);
  EXPECT_EQ(prices.loads(0, at(1))[never], SwitchPrices::first_guess);
  EXPECT_LT(prices.loads(0, at(1))[1], prices.loads(0, at(1))[2]);
  EXPECT_EQ(prices.loads(0, at(1))[RecentModels::first], 0);
  EXPECT_EQ(prices.loads(3, at(1))[never], 6) << "the longest under way takes as long again";
  for (std::uint32_t i = 0; i < SwitchPrices::guessed; ++i) prices.note_sent(0);
  EXPECT_EQ(prices.loads(3, at(1))[never], 0) << "answers that are not streamed teach nothing";
}

TEST(SwitchPrices, FadeWhileNothingTestsThem) {
  const auto prices = taught(2, 3);
  EXPECT_GT(prices.loads(0, at(1))[never], 2.5);
  EXPECT_NEAR(prices.loads(0, at(601))[never], prices.loads(0, at(1))[never] / std::exp(1), 0.01);
}

TEST(SwitchPrices, LookAtNoModelThatTheEngineMayHavePutAwayByItself) {
  auto prices = taught(2, 3);
  const double before = prices.loads(0, at(1))[never];
  for (int i = 0; i < 20; ++i) prices.learn(0, 3, 300, at(1));
  EXPECT_EQ(prices.loads(0, at(1))[never], before);
}

TEST(SwitchPrices, AnEvictionCostsWhatOthersLoseByHowLatelyTheyWereUsed) {
  const auto prices = taught(2, 3);
  const auto loads = prices.loads(0, at(1));
  RecentModels models;
  EXPECT_EQ(prices.eviction(loads, models, 9, at(1)), 0) << "there is room";
  models.sent(1, 0, at(1));
  EXPECT_LT(prices.eviction(loads, models, 9, at(1)), 0.4);
  models.sent(2, 0, at(1));
  EXPECT_EQ(prices.eviction(loads, models, 2, at(1)), 0);
  EXPECT_LT(prices.eviction(loads, models, 1, at(1)), 0.4) << "both stay";
  const double now = prices.eviction(loads, models, 9, at(1)), later = prices.eviction(loads, models, 9, at(60));
  EXPECT_GT(now, 7.5) << "and who comes back puts another one away";
  EXPECT_LT(later, 0.6);
}

TEST(Residency, FewModelsAreLoadedTwice) {
  using Run = std::function<void(OnDemand&)>;
  const std::pair<const char*, Run> runs[] = {
      {"each user has a model",
       [](OnDemand& one) { one.closed_loop(16, 240, [](int user) { return "m" + std::to_string(user % 8); }); }},
      {"random models, one after the other", [](OnDemand& one) { one.closed_loop(16, 240, one.any_of(8)); }},
      {"random models", [](OnDemand& one) { one.open_loop(4, 240, one.any_of(8)); }},
  };
  for (const auto& [what, run] : runs)
    for (const bool in_line : {true, false})
      for (const double load : {0.3, 3.0}) {
        std::vector<std::size_t> loads;
        for (std::uint64_t seed = 1; seed <= 11; ++seed) {
          OnDemand one(4, {.load = load, .in_line = in_line}, seed);
          run(one);
          loads.push_back(one.loads);
        }
        std::ranges::sort(loads);
        EXPECT_LE(loads[5], 14u) << what << ", in line: " << in_line << ", " << load << " s";
        EXPECT_LE(loads[10], 30u) << what << ", in line: " << in_line << ", " << load << " s";
      }
}

TEST(Residency, AnEngineThatHoldsOneModelKeepsIt) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    OnDemand one(4, {.holds = 1}, seed);
    one.open_loop(4, 240, one.any_of(4));
    EXPECT_LE(one.loads, 20u) << seed;
  }
}

TEST(Residency, ModelsThatAllFitAreSpreadLikeOne) {
  for (const double rate : {20.0, 32.0}) {
    double waited_one = 0, waited_many = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      for (const int models : {1, 8}) {
        OnDemand engines(4, {.holds = 100, .load = 0, .work = 0.1}, seed);
        engines.open_loop(rate, 3000, engines.any_of(models));
        (models == 1 ? waited_one : waited_many) += engines.waited;
      }
    }
    EXPECT_LT(waited_many, 1.1 * waited_one) << rate;
  }
}

TEST(Residency, AHotModelSpreads) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    OnDemand one(4, {.load = 1, .work = 0.1}, seed);
    one.open_loop(20, 2000,
                  [&one](int) { return one.random() % 10 < 8 ? "hot" : "m" + std::to_string(one.random() % 3); });
    EXPECT_GE(one.requests["hot"].size(), 3u) << seed;
    EXPECT_LT(one.waited / 2000, 1) << seed;
    EXPECT_LE(one.loads, 60u) << seed;
  }
}

}  // namespace
}  // namespace weir::balancer
