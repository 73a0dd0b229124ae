#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proxy/fleet/engine_page.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "tests/unit/proxy/net/scripted_channel.hpp"

namespace weir::proxy::fleet {
namespace {

std::shared_ptr<const Snapshot> snapshot_of(const std::vector<std::vector<std::string>>& models_of_pools) {
  return Snapshot::changed(nullptr, [&](Snapshot& next) {
    for (const auto& models : models_of_pools) {
      auto pool = std::make_unique<PoolRuntime>();
      pool->settings.models = models;
      next.pools.push_back(std::move(pool));
    }
  });
}

TEST(Snapshot, TakesTheFirstPoolThatServesTheModelAndTheOneThatTakesAnyWhereNoneIsNamed) {
  const struct {
    std::vector<std::vector<std::string>> pools;  ///< The models that each names; one that names none serves all.
    std::string model;
    int pool;
  } rows[]{{{{"a", "b"}, {"b", "c"}}, "a", 0},
           {{{"a", "b"}, {"b", "c"}}, "b", 0},
           {{{"a", "b"}, {"b", "c"}}, "c", 1},
           {{{"a", "b"}, {"b", "c"}}, "d", -1},
           {{}, "a", -1},
           {{{"a"}, {}}, "", 1},
           {{{"a"}, {"b"}}, "", 0},
           {{{}}, "", 0},
           {{}, "", -1},
           {{{"a"}, {}}, "b", 1}};
  for (const auto& row : rows) {
    const auto snapshot = snapshot_of(row.pools);
    const auto* const wanted = row.pool < 0 ? nullptr : snapshot->pools[static_cast<std::size_t>(row.pool)].get();
    EXPECT_EQ(snapshot->pool_for(row.model), wanted) << row.model << " of " << row.pools.size();
  }
}

TEST(Snapshot, NeedsTheModelWhereSeveralPoolsHaveTheirOwn) {
  EXPECT_TRUE(snapshot_of({{"a"}, {"b"}})->needs_model());
  EXPECT_FALSE(snapshot_of({{"a"}, {}})->needs_model());
  EXPECT_FALSE(snapshot_of({{"a"}})->needs_model());
  EXPECT_FALSE(snapshot_of({})->needs_model());
}

TEST(Snapshot, NamesTheModelsInTheOrderOfTheFile) {
  EXPECT_EQ(snapshot_of({{"b", "a"}, {}, {"c"}})->known_models(), "b, a, c");
  EXPECT_EQ(snapshot_of({{}})->known_models(), "");
}

}  // namespace

// The figures of an engine stay until it tells otherwise, and another engine in its place begins anew.

namespace {

using ::testing::SizeIs;

ReplicaFacts vllm() {
  ReplicaFacts facts;
  facts.engine = Engine::vllm;
  facts.version = "0.10.2";
  facts.models = {"m", "lora"};
  facts.kv_tokens = 1000;
  facts.max_context = 4096;
  return facts;
}

TEST(EngineFigures, FactsGoIntoTheFigures) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  EXPECT_EQ(text_of(figures), "vLLM 0.10.2, model 'm', KV cache of 1000 tokens, context of 4096");
}

TEST(EngineFigures, WhatAnAnswerLeavesOpenStays) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  take_facts(ReplicaFacts{}, figures);
  ReplicaFacts larger;
  larger.engine = Engine::vllm;
  larger.kv_tokens = 2000;
  take_facts(larger, figures);
  EXPECT_EQ(text_of(figures), "vLLM 0.10.2, model 'm', KV cache of 2000 tokens, context of 4096");
}

TEST(EngineFigures, AnotherEngineInItsPlaceKeepsNothingOfTheFirst) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  ReplicaFacts other;
  other.engine = Engine::llama_cpp;
  other.version = "b1";
  take_facts(other, figures);
  EXPECT_EQ(text_of(figures), "llama.cpp b1");
}

TEST(EngineFigures, TheSameEngineWithAnotherModelOrReleaseKeepsNoLimitsOfTheFirst) {
  for (const bool model : {true, false}) {
    EngineFigures figures;
    take_facts(vllm(), figures);
    ReplicaFacts other;
    other.engine = Engine::vllm;
    (model ? other.models.emplace_back() : other.version) = "another";
    take_facts(other, figures);
    EXPECT_FALSE(figures.kv_tokens);
    EXPECT_FALSE(figures.max_context);
  }
}

TEST(EngineFigures, AnEngineSleepsForAsLongAsThePageThatSaysSoIsGood) {
  const metrics::Moment now = metrics::Moment() + std::chrono::hours(1);
  EngineFigures figures;
  take_facts(vllm(), figures);
  EXPECT_FALSE(limits_of(figures, now).asleep) << "there is no page";
  figures.load.emplace().good_until = now;
  EXPECT_FALSE(limits_of(figures, now).asleep);
  figures.load->asleep = true;
  EXPECT_TRUE(limits_of(figures, now).asleep);
  EXPECT_FALSE(limits_of(figures, now + std::chrono::nanoseconds(1)).asleep) << "no later page came";
  EXPECT_EQ(limits_of(figures, now).kv_tokens, 1000u);
  EXPECT_EQ(limits_of(figures, now).max_context, 4096u);
}

TEST(EngineFigures, TextsOfAnEngineAreBoundedAndPrintable) {
  auto facts = vllm();
  facts.version = std::string(1000, '9');
  facts.models = {"a\nb\"\x1b" + std::string(1000, 'x')};
  EngineFigures figures;
  take_facts(facts, figures);
  EXPECT_THAT(figures.version, SizeIs(64));
  EXPECT_THAT(figures.model, SizeIs(128));
  EXPECT_EQ(figures.model.substr(0, 5), "a?b\"?");
}

TEST(EngineFigures, AnEngineIsAskedOnlyForPagesThatItHas) {
  const auto asked = [](Engine engine, Page page) {
    const auto pages = identifying_pages(engine);
    return std::ranges::find(pages, page) != pages.end();
  };
  EXPECT_TRUE(asked(Engine::vllm, Page::version));
  EXPECT_FALSE(asked(Engine::vllm, Page::server_info)) << "it would be 404 in its log";
  EXPECT_TRUE(asked(Engine::sglang, Page::server_info));
  EXPECT_TRUE(asked(Engine::tgi, Page::info));
  EXPECT_TRUE(asked(Engine::llama_cpp, Page::props));
  // Metrics and models are read more often, and not for this.
  for (std::size_t page = 0; page < page_paths.size(); ++page)
    EXPECT_EQ(asked(Engine::unknown, static_cast<Page>(page)),
              static_cast<Page>(page) != Page::metrics && static_cast<Page>(page) != Page::models);
}

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

using std::chrono::seconds;

class Idle : public testing::Test {
 protected:
  static metrics::Moment at(int second) { return metrics::Moment(seconds(1000 + second)); }
  std::shared_ptr<net::Peer> put(const SharedReplica& replica, int second) {
    auto peer = std::make_shared<net::Peer>(calls);
    idle.put(replica, here, std::make_unique<net::ScriptedChannel>(peer), at(second));
    return peer;
  }
  /// Returns which of these was given out; -1 means none.
  int taken(const SharedReplica& replica, int second, std::vector<std::shared_ptr<net::Peer>> peers) {
    const auto channel = idle.take(replica, here, at(second));
    if (!channel) return -1;
    const std::string_view mark = "!";
    EXPECT_EQ(channel->write({&mark, 1}, 0), 1);
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (peers[i]->got == "!") return static_cast<int>(i);
    return -2;
  }
  net::Calls calls;
  const net::Destination here{net::Address(boost::asio::ip::make_address("10.0.0.1"), 80)},
      there{net::Address(boost::asio::ip::make_address("10.0.0.2"), 80)};
  /// Returns a snapshot of both replicas, where a connection may idle for 4 s.
  std::shared_ptr<const Snapshot> snapshot_of(std::size_t most) const {
    return Snapshot::changed(nullptr, [&](Snapshot& next) {
      next.settings.limits.idle_upstream_connections = most;
      next.settings.limits.upstream_idle = config::Seconds(4);
      auto pool = std::make_shared<PoolRuntime>();
      for (const auto& state : states) {
        pool->replicas.push_back(std::make_shared<Replica>());
        pool->replicas.back()->state = state;
      }
      next.pools.push_back(std::move(pool));
    });
  }
  Idle() { idle.adopt(*snapshot_of(3)); }
  std::vector<std::shared_ptr<SharedReplica>> states{std::shared_ptr<SharedReplica>(new SharedReplica{.id = 1}),
                                                     std::shared_ptr<SharedReplica>(new SharedReplica{.id = 2})};
  const std::shared_ptr<SharedReplica> owned[2]{states[0], states[1]};
  const SharedReplica &one = *owned[0], &other = *owned[1];
  IdleConnections idle;
};

TEST_F(Idle, GivesTheYoungestOfItsReplicaOut) {
  const auto old = put(one, 0), young = put(one, 1), apart = put(other, 1);
  EXPECT_EQ(taken(one, 2, {old, young}), 1);
  EXPECT_EQ(taken(one, 2, {old}), 0);
  EXPECT_EQ(idle.take(one, here, at(2)), nullptr);
  EXPECT_FALSE(apart->closed());
}

TEST_F(Idle, GivesNonePastItsAgeOut) {
  const auto peer = put(one, 0);
  EXPECT_EQ(idle.take(one, here, at(4)), nullptr);
  EXPECT_TRUE(peer->closed());
  put(one, 0);
  EXPECT_NE(idle.take(one, here, at(3)), nullptr);
}

TEST_F(Idle, GivesNoneOutThatIsNotQuiet) {
  const auto quiet = put(one, 0), stray = put(one, 0), closed = put(one, 0);
  stray->says("HTTP/1.1 408 Request Timeout\r\n\r\n");
  closed->ends();
  stray->report();
  closed->report();
  EXPECT_EQ(taken(one, 1, {quiet, stray, closed}), 0) << "two in a row are stale";
  EXPECT_TRUE(stray->closed() && closed->closed());
}

TEST_F(Idle, KeepsSoManyOfEachAndClosesTheOldest) {
  const auto oldest = put(one, 0);
  const auto apart = put(other, 0);
  std::vector<std::shared_ptr<net::Peer>> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(put(one, 1));
  EXPECT_TRUE(oldest->closed());
  EXPECT_FALSE(apart->closed());
  for (const auto& peer : kept) EXPECT_FALSE(peer->closed());
}

TEST_F(Idle, SaysThatOneWasTooManyButNotWhereNoneIsKept) {
  const auto peer = std::make_shared<net::Peer>(calls);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(idle.put(one, here, std::make_unique<net::ScriptedChannel>(std::make_shared<net::Peer>(calls)), at(0)),
              i < 3);
  IdleConnections none;
  none.adopt(*snapshot_of(0));
  EXPECT_TRUE(none.put(one, here, std::make_unique<net::ScriptedChannel>(peer), at(0))) << "that is no shortage";
  EXPECT_TRUE(peer->closed());
  EXPECT_EQ(none.take(one, here, at(0)), nullptr);
}

TEST_F(Idle, ClosesThoseThatLeadToWhereTheReplicaWas) {
  const auto before = put(one, 0);
  EXPECT_EQ(idle.take(one, there, at(1)), nullptr);
  EXPECT_TRUE(before->closed());
  const auto after = std::make_shared<net::Peer>(calls);
  idle.put(one, there, std::make_unique<net::ScriptedChannel>(after), at(1));
  EXPECT_NE(idle.take(one, there, at(1)), nullptr);
}

TEST_F(Idle, DropsTheOld) {
  const auto old = put(one, 0), young = put(one, 1), apart = put(other, 0);
  idle.drop_old(at(3));
  EXPECT_FALSE(old->closed());
  idle.drop_old(at(4));
  EXPECT_TRUE(old->closed() && apart->closed());
  EXPECT_FALSE(young->closed());
}

TEST_F(Idle, DropsWhatTheReplicaHasClosedWhateverItsAge) {
  const auto before = put(one, 0), closed = put(one, 1), after = put(one, 2);
  closed->ends();
  idle.drop_old(at(2));
  EXPECT_FALSE(closed->closed()) << "nobody has reported it yet";
  closed->report();
  idle.drop_old(at(2));
  EXPECT_TRUE(closed->closed()) << "its descriptor is not kept until its age";
  EXPECT_FALSE(before->closed() || after->closed());
}

TEST_F(Idle, ClosesTheOldestWhereFewerMayBeKeptFromNowOn) {
  const auto oldest = put(one, 0), older = put(one, 1), young = put(one, 2);
  idle.adopt(*snapshot_of(1));
  EXPECT_TRUE(oldest->closed() && older->closed());
  EXPECT_FALSE(young->closed());
}

TEST_F(Idle, ClosesThoseOfReplicasThatAreGone) {
  const auto stays = put(one, 0), goes = put(other, 0);
  states.pop_back();
  idle.adopt(*snapshot_of(3));
  EXPECT_FALSE(stays->closed());
  EXPECT_TRUE(goes->closed());
}

std::shared_ptr<const ModelEntries> list(const std::string& entries) {
  return std::make_shared<const ModelEntries>(entries_of(R"({"object":"list","data":[)" + entries + "]}"));
}
std::string text_of(const std::vector<std::string>& named,
                    const std::vector<std::shared_ptr<const ModelEntries>>& replicas) {
  ServedModels served;
  served.add_pool(named, replicas);
  return served.text();
}

TEST(ServedModels, KeepsEntriesWholeAndEachIdOnce) {
  EXPECT_EQ(text_of({}, {}), "{\"object\":\"list\",\"data\":[]}\n");
  EXPECT_EQ(
      text_of({}, {list(R"({"id":"b","object":"model","created":7,"max_model_len":8192,"permission":[{"x":null}]})"),
                   list(R"({"id":"a","created":8},{"id":"b","created":9})")}),
      R"({"object":"list","data":[{"id":"b","object":"model","created":7,"max_model_len":8192,)"
      R"("permission":[{"x":null}]},{"id":"a","created":8}]})"
      "\n");
}

TEST(ServedModels, OfAPoolThatNamesThemAreThoseNamed) {
  EXPECT_EQ(text_of({"m", "n"}, {list(R"({"id":"other","created":1})"), list(R"({"id":"m","created":2})"),
                                 list(R"({"id":"m","created":3})")}),
            R"({"object":"list","data":[{"id":"m","created":2},{"id":"n","object":"model","owned_by":"weir"}]})"
            "\n");
}

TEST(ServedModels, StayWithTheFirstPoolThatHasThem) {
  ServedModels served;
  EXPECT_TRUE(served.empty());
  served.add_pool({"m"}, std::vector{list(R"({"id":"m","created":1})")});
  served.add_pool({}, std::vector{list(R"({"id":"m","created":2},{"id":"org/n","created":3})")});
  EXPECT_FALSE(served.empty());
  ASSERT_NE(served.find("m"), nullptr);
  EXPECT_EQ(*served.find("m"), R"({"id":"m","created":1})");
  ASSERT_NE(served.find("org/n"), nullptr);
  EXPECT_EQ(*served.find("org/n"), R"({"id":"org/n","created":3})");
  EXPECT_EQ(served.find("org"), nullptr);
  EXPECT_EQ(served.find(""), nullptr);
}

TEST(ServedModels, OfAKeyAreThoseThatItMayUseAndThatAreThere) {
  ServedModels served;
  served.add_pool({}, std::vector{list(R"({"id":"m","created":1},{"id":"org/n","created":3},{"id":"o"})")});
  const auto some = served.only({"o", "not-there", "m"});
  EXPECT_EQ(some.text(), R"({"object":"list","data":[{"id":"m","created":1},{"id":"o"}]})"
                         "\n");
  EXPECT_NE(some.find("m"), nullptr);
  EXPECT_EQ(some.find("org/n"), nullptr);
  EXPECT_TRUE(served.only({}).empty());
}

TEST(ServedModels, TakeNoEntryFromWhatIsNoList) {
  for (const auto* body : {"", "{", "[]", "null", R"({"data":{}})", R"({"data":[1,null,{},{"id":7},{"id":""}]})",
                           R"({"models":[{"id":"m"}]})", "{\"data\":[{\"id\":\"\xff\"}]}"})
    EXPECT_TRUE(entries_of(body).empty()) << body;
  EXPECT_EQ(entries_of(R"({"models":[],"data":[{},{"id":"m"}]})").size(), 1u);
  const auto named_twice = entries_of(R"({"data":[{"id":"a","id":"b"},{"id":"c","id":1}]})");
  ASSERT_EQ(named_twice.size(), 1u);
  EXPECT_EQ(named_twice[0].id, "b") << "clients read the last, too";
  std::string deep = R"({"data":[{"id":"m","x":)";
  for (int i = 0; i < 1000; ++i) deep += '[';
  EXPECT_TRUE(entries_of(deep).empty()) << "bounded in depth";
}

}  // namespace
}  // namespace weir::proxy::fleet
