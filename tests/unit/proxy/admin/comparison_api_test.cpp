// GET /api/compare answers a query about the last requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>

#include "proxy/admin/api.hpp"
#include "proxy/admin/comparison_api.hpp"
#include "proxy/shadows/live_comparison.hpp"
#include "tests/unit/proxy/shadows/mirrored_history.hpp"

namespace weir::proxy::admin {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class CompareApi : public shadows::MirroredHistory {
 protected:
  ApiAnswer ask(std::string_view query) { return comparison(query, history, *snapshot)(); }
  json::object report(std::string_view query) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 200u) << answer.body;
    return json::parse(answer.body).as_object();
  }
};

TEST_F(CompareApi, ComparesTheTwoSidesThatThereAre) {
  const auto made = report("");
  EXPECT_EQ(made.at("a"), "fp16");
  EXPECT_EQ(made.at("b"), "fp8");
  EXPECT_EQ(made.at("state"), "running");
  EXPECT_GT(made.at("pairs").to_number<int>(), 800);
  bool seen = false;
  for (const auto& verdict : made.at("verdicts").as_array()) {
    if (verdict.at("metric") != "ttft") continue;
    seen = true;
    EXPECT_EQ(verdict.at("verdict"), "worse");
    EXPECT_NEAR(verdict.at("estimate").to_number<double>(), 0.18, 0.03);
  }
  EXPECT_TRUE(seen);
}

TEST_F(CompareApi, ChoosesByTheQuery) {
  EXPECT_EQ(report("by=replica").at("b"), "cand0");
  EXPECT_EQ(report("a=fp8&b=fp16").at("a"), "fp8");
  EXPECT_EQ(report("window=10m&warm_up=0s").at("pairs").to_number<int>(), 601);
  EXPECT_EQ(report("pool=chat").at("pairs"), report("").at("pairs"));
  EXPECT_EQ(report("slo=fast").at("faults").as_array().back().at("fault"), "slo");
  EXPECT_EQ(report("slo=ttft%3D0.5").at("faults").as_array().back().at("fault"), "slo");
}

TEST_F(CompareApi, IsFinalOnlyForADeclaredWindow) {
  const auto shadow = twin("candidate", "cand0");
  set_shadows({shadow});
  for (const bool on : {true, false}) {
    shadow->state->on = on;
    EXPECT_EQ(report("").at("state"), "running");
    EXPECT_EQ(report("window=20m&warm_up=0s").at("state"), "running") << "the next moment has another such window";
    EXPECT_EQ(report("window=20m&warm_up=0s&to=0s").at("state"), "final");
    EXPECT_EQ(report("for=15m").at("state"), "final");
    EXPECT_EQ(report("for=2h").at("state"), "running") << "it has not ended";
  }
}

TEST_F(CompareApi, TakesMarginsAndHasTheGate) {
  const auto gate = report("margins=ttft%3D30%25,tpot%3D5%25").at("gate").as_object();
  EXPECT_EQ(gate.at("word"), "worse") << "TTFT is worse than by the margin for equivalence";
  EXPECT_EQ(ask("margins=itl%3D5%25").status, 400u);
}

TEST_F(CompareApi, SaysWhatIsWrongWithAQuery) {
  const std::pair<const char*, const char*> cases[] = {
      {"wndow=10m", "unknown parameter 'wndow'; did you mean window?"},
      {"margin=x", "margin must be between 0 and 1"},
      {"margin=2", "must be between 0 and 1"},
      {"by=gpu", "by must be config, replica or role"},
      {"window=soon", "must be a moment such as"},
      {"slo=quick", "is no [[slo]] of the settings"},
      {"a=fp32", "fp32"},
      {"%zz", "the query is no list of NAME=VALUE"},
  };
  for (const auto& [query, said] : cases) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 400u) << query;
    EXPECT_THAT(answer.body, HasSubstr(said)) << query;
  }
}

TEST_F(CompareApi, OfNoRequestsThereIsNothingToCompare) {
  History none(log);
  const auto answer = comparison("", none, *snapshot)();
  EXPECT_EQ(answer.status, 400u);
}

TEST_F(CompareApi, WaitsUntilTheShadowHasPrefilledWhatItHolds) {
  const auto shadow = twin("candidate", "cand0");
  shadow->state->on = false;
  set_shadows({shadow});
  const auto pairs = [&](const char* query = "") { return report(query).at("pairs").to_number<int>(); };
  EXPECT_EQ(pairs(), 900) << "what it holds is not known, so ten minutes are left out";
  // The shadow prefills 100 tokens a second.
  auto& replica = replica_of(*shadow);
  fleet::EngineFigures told;
  told.kv_tokens = 100'000;
  replica.state->engine.set(told);
  EXPECT_EQ(pairs(), 480) << "as the engine tells; the minute in which it comes to that ends after 1020 s";
  EXPECT_EQ(pairs("by=replica&a=gpu0&b=cand0"), 480);
  EXPECT_EQ(pairs("a=fp16&b=candidate"), 480);
  replica.settings.kv_tokens = 120'000;
  EXPECT_EQ(pairs(), 300) << "as it is set";
  replica.settings.kv_tokens = 30'000;
  EXPECT_EQ(pairs(), 900) << "and never within ten minutes";
  replica.settings.kv_tokens = 1'000'000;
  EXPECT_EQ(pairs(), 0);
  EXPECT_EQ(pairs("warm_up=0s"), requests) << "without a warm-up every pair counts";
}

TEST_F(CompareApi, AShadowOfAnotherPoolKeepsNoOtherCold) {
  const auto shadow = twin("candidate", "cand0"), other = twin("other", "cand9");
  shadow->state->on = other->state->on = false;
  replica_of(*shadow).settings.kv_tokens = 100'000;
  replica_of(*other).settings.kv_tokens = 900'000;
  set_shadows({shadow, other});
  for (int i = requests; i < requests + 60; ++i) {
    auto primary = primary_of(i);
    primary.pool = "code";
    primary.replica = "gpu9";
    auto its_shadow = shadow_of(primary, "other", "cand9", i);
    finished.put(std::move(primary));
    finished.put(std::move(its_shadow));
  }
  history.take(finished, start);
  EXPECT_EQ(report("pool=chat").at("pairs").to_number<int>(), 480);
  EXPECT_EQ(report("pool=chat&window=25m").at("pairs").to_number<int>(), 480);
  EXPECT_EQ(report("").at("pairs").to_number<int>(), 0) << "of both pools, one is cold";
}

TEST_F(CompareApi, WhatARemovedReplicaHeldIsNotAskedOfTheOthers) {
  const auto shadow = twin("candidate", "cand0");
  shadow->state->on = false;
  replica_of(*shadow).settings.kv_tokens = 100'000;
  set_shadows({shadow});
  auto primary = primary_of(requests);
  finished.put(shadow_of(primary, "candidate", "removed", requests));
  finished.put(std::move(primary));
  history.take(finished, start);
  EXPECT_EQ(report("a=gpu0&b=candidate&by=replica").at("pairs").to_number<int>(), 481) << "the others have their rule";
}

TEST_F(CompareApi, AShadowThatIsSwitchedOnIsColdAgain) {
  const auto shadow = twin("candidate", "cand0");
  set_shadows({shadow});
  const auto switched = [&](bool on) {
    EXPECT_EQ(shadow_answer(*snapshot, "candidate", on, history, start + std::chrono::seconds(700)).status, 200u);
  };
  const auto pairs = [&] { return report("").at("pairs").to_number<int>(); };
  switched(true);
  EXPECT_EQ(pairs(), 900) << "it was on";
  switched(false);
  EXPECT_EQ(pairs(), 900);
  switched(true);
  EXPECT_EQ(pairs(), 0) << "it has not been sent anything since";
  for (int i = requests; i < requests + 610; ++i) add(i);
  EXPECT_EQ(pairs(), 10) << "the last ten seconds";
}

TEST_F(CompareApi, AShadowThatAReloadBeganAnewIsColdAgain) {
  const auto reloaded_to = [&](std::shared_ptr<const fleet::ShadowRuntime> shadow) {
    const auto after =
        fleet::Snapshot::changed(snapshot.get(), [&](fleet::Snapshot& next) { next.shadows = {std::move(shadow)}; });
    shadows::begin_anew(*snapshot, *after, history, start + std::chrono::seconds(700));
  };
  const auto pairs = [&] { return report("").at("pairs").to_number<int>(); };
  const auto shadow = twin("candidate", "cand0");
  shadow->state->on = false;
  set_shadows({shadow});
  auto same = std::make_shared<fleet::ShadowRuntime>(*shadow);
  same->settings.max_in_flight = 7;
  reloaded_to(same);
  EXPECT_EQ(pairs(), 900) << "it goes on";
  reloaded_to(twin("another", "cand1"));
  EXPECT_EQ(pairs(), 900) << "the new one is not compared";
  reloaded_to(twin("candidate", "cand1"));
  EXPECT_EQ(pairs(), 0) << "it has not been sent anything since";
}

TEST_F(CompareApi, KeepsTheLastRequestsOnly) {
  History short_one(log, 1000, {}, start);
  for (int i = 0; i < requests; ++i) {
    auto primary = primary_of(i);
    finished.put(shadow_of(primary, "candidate", "cand0", i));
    finished.put(std::move(primary));
    short_one.take(finished, start);
  }
  EXPECT_EQ(short_one.samples().size(), 1000u);
  EXPECT_EQ(short_one.samples_since(start).size(), 1000u);
  const metrics::compare::sides::Selection shadows{metrics::compare::sides::By::role, 0, metrics::Role::shadow};
  EXPECT_EQ(short_one.mirrored().warm(shadows, {}, 0, {}).from_us, 0)
      << "when the shadow was first sent a request is remembered";
}

TEST(SlowAnswers, AreMadeOnAThreadOfTheirOwnAndCompleteOnTheContext) {
  boost::asio::io_context context;
  SlowAnswers answers(context);
  const auto here = std::this_thread::get_id();
  std::thread::id made_on, told_on;
  std::string body;
  answers.make(
      [&] {
        made_on = std::this_thread::get_id();
        return ApiAnswer{200, "done"};
      },
      [&](const std::shared_ptr<ApiAnswer>& made) {
        told_on = std::this_thread::get_id();
        body = made->body;
      });
  for (std::size_t i = 1; i < SlowAnswers::most; ++i)
    answers.make([] { return ApiAnswer{}; }, [](const std::shared_ptr<ApiAnswer>&) {});
  EXPECT_TRUE(answers.is_full());
  const auto guard = boost::asio::make_work_guard(context);
  for (std::size_t i = 0; i < SlowAnswers::most; ++i) context.run_one();
  EXPECT_EQ(body, "done");
  EXPECT_NE(made_on, here);
  EXPECT_EQ(told_on, here);
  EXPECT_FALSE(answers.is_full());
}

}  // namespace

// GET /api/gate tells other controllers one word about a comparison.

namespace {

class GateApi : public shadows::MirroredHistory {
 protected:
  GateApi() { set_shadows({twin("candidate", "cand0")}); }
  ApiAnswer ask(std::string_view query) { return gate_answer(query, history, *snapshot)(); }
};

TEST_F(GateApi, ASlowerCandidateIsWorse) {
  for (const auto* query : {"a=fp16&b=fp8&window=20m&warm_up=0s"}) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 417u) << query << answer.body;
    const auto said = json::parse(answer.body);
    EXPECT_EQ(said.at("word"), "worse");
    EXPECT_THAT(std::string(said.at("worse").at(0).as_string()), HasSubstr("ttft"));
    bool seen = false;
    for (const auto& one : said.at("metrics").as_array()) {
      if (one.at("metric") != "ttft") continue;
      seen = true;
      EXPECT_NEAR(one.at("estimate").to_number<double>(), 0.18, 0.03);
      EXPECT_EQ(one.at("finding"), "worse");
    }
    EXPECT_TRUE(seen);
  }
}

TEST_F(GateApi, StatusesSayTheWord) {
  using metrics::compare::comparison::Gate;
  for (const auto& [word, status] :
       {std::pair{Gate::pass, 200u}, std::pair{Gate::worse, 417u}, std::pair{Gate::unknown, 425u}}) {
    Judged judged;
    judged.gate.word = word;
    EXPECT_EQ(gate_answer(judged, GateStatus::by_word).status, status);
    EXPECT_EQ(gate_answer(judged, GateStatus::worse_is_200).status, word == Gate::worse ? 200u : 425u);
    EXPECT_EQ(gate_answer(judged, GateStatus::always_200).status, 200u);
    EXPECT_EQ(json::parse(gate_answer(judged, GateStatus::always_200).body).at("word").as_string(),
              metrics::compare::comparison::name_of(word));
  }
}

TEST_F(GateApi, StatusMayAlwaysBe200) {
  const auto answer = ask("a=fp16&b=fp8&window=20m&warm_up=0s&status=200");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(json::parse(answer.body).at("word"), "worse");
  EXPECT_EQ(ask("a=fp16&b=fp8&window=20m&warm_up=0s&expect=worse").status, 200u);
}

TEST_F(GateApi, AsksAboutAShadowByItsName) {
  const auto answer = ask("shadow=candidate");
  EXPECT_NE(answer.status, 404u);
  const auto said = json::parse(answer.body);
  EXPECT_EQ(said.at("a"), "gpu0");
  EXPECT_EQ(said.at("b"), "candidate");
  EXPECT_GT(said.at("pairs").to_number<int>(), 500);
}

/// A rollout names its objective.
TEST_F(GateApi, TheObjectiveIsTheFirstOneOfThePoolOrTheOneThatIsNamed) {
  change_snapshot([](fleet::Snapshot& next) {
    next.settings.slos = {{"fast", "chat", {}, config::Seconds(1), {}, {}},
                          {"strict", "chat", {}, config::Seconds(0.115), {}, {}}};
  });
  const auto misses = [&](std::string_view slo) {
    const auto judged = shadows::gate_of_shadow(*snapshot->shadows[0], *snapshot, history, slo)();
    return judged.comparison.fault_of(metrics::compare::pairs::Fault::slo)->share_b();
  };
  EXPECT_EQ(misses(""), 0);
  EXPECT_EQ(misses("fast"), 0);
  EXPECT_EQ(misses("strict"), 1);
}

/// A candidate that failed was mended, and its shadow is switched on again.
TEST_F(GateApi, AnswersFromBeforeTheShadowWasSwitchedOnDoNotCount) {
  change = [](auto&, auto& shadow) { shadow.outcome = metrics::Outcome::upstream_reset; };
  for (int i = requests; i < requests + 9; ++i) add(i);
  EXPECT_THAT(ask("shadow=candidate").body, HasSubstr("failed: "));
  EXPECT_EQ(ask("shadow=candidate").status, 417u);
  history.begin_anew("candidate", start + std::chrono::seconds(requests + 60));
  change = [](auto&, auto&) {};
  for (int i = requests + 60; i < requests + 120; ++i) add(i);
  for (const auto* query : {"shadow=candidate", "by=replica&a=gpu0&b=cand0"}) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 425u) << query << answer.body;
    EXPECT_EQ(json::parse(answer.body).at("pairs"), 0) << "it is cold again";
  }
}

TEST_F(GateApi, SaysWhatIsWrongWithAQuery) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "say what is compared: shadow=NAME, or a=NAME&b=NAME&window=TIME"},
      {"shadow=candidate&a=fp16", "shadow=NAME says all that is compared"},
      {"shadow=candidate&expect=pass", "expect may be worse and nothing else"},
      {"shadow=candidate&status=204", "status may be 200 and nothing else"},
      {"status=200", "say what is compared"},
      {"expect=worse", "say what is compared"},
      {"shadow=candidate&status=200&expect=worse", "status=200 and expect=worse contradict each other"},
      {"shadow=candidate&expect=worse&status=200", "status=200 and expect=worse contradict each other"},
      {"shadow=candidate&shadow=other", "shadow is there twice"},
      {"shadow=candidate&status=200&status=200", "status is there twice"},
      {"a=fp16&a=fp8", "a is there twice"},
      {"a=fp16&b=fp8&window=20m&from=30m", "window and from both say when the window begins"},
      {"a=fp32", "fp32"},
      {"wndow=10m", "unknown parameter 'wndow'; did you mean window?"},
      {"%zz", "the query is no list of NAME=VALUE"},
  };
  for (const auto& [query, said] : cases) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 400u) << query;
    EXPECT_THAT(answer.body, HasSubstr(said)) << query;
  }
  EXPECT_EQ(ask("shadow=fp9").status, 404u);
}

}  // namespace
}  // namespace weir::proxy::admin
