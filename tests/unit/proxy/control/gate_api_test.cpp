// GET /api/gate tells other controllers one word about a comparison.
#include "proxy/control/gate_api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "tests/unit/proxy/control/mirrored_history.hpp"

namespace weir::proxy::control {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class GateApi : public MirroredHistory {
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
    const auto judged = gate_of_shadow(*snapshot->shadows[0], *snapshot, history, slo)();
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
}  // namespace weir::proxy::control
