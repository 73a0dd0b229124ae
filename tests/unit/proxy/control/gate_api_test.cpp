// GET /api/gate tells other controllers one word about a comparison.
#include "proxy/control/gate_api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// Or a rollout that was started again would go back by the faults for which it went back before.
TEST_F(GateApi, AShadowThatWasSwitchedOnAgainHasNoFaultsOfBefore) {
  change = [](auto&, auto& shadow) { shadow.outcome = metrics::Outcome::upstream_error; };
  for (int i = requests; i < requests + 20; ++i) add(i);
  const auto failed = ask("shadow=candidate");
  EXPECT_EQ(failed.status, 417u);
  EXPECT_THAT(failed.body, HasSubstr("failed: of 1520 pairs, 20 of candidate alone"));
  change = [](auto&, auto&) {};
  history.begin_anew("candidate", std::int64_t{requests + 20} * 1'000'000);
  for (int i = requests + 20; i < requests + 50; ++i) add(i);
  const auto cured = ask("shadow=candidate");
  EXPECT_EQ(cured.status, 425u);
  EXPECT_THAT(cured.body, HasSubstr("failed: of 30 pairs, 0 of candidate alone"));
}

TEST_F(GateApi, SaysWhatIsWrongWithAQuery) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "say what is compared: shadow=NAME, or a=NAME&b=NAME&window=TIME"},
      {"shadow=candidate&a=fp16", "shadow=NAME says all that is compared"},
      {"shadow=candidate&expect=pass", "expect may be worse and nothing else"},
      {"shadow=candidate&status=204", "status may be 200 and nothing else"},
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
