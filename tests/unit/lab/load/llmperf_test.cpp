#include "lab/load/llmperf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "metrics/wire/json/writer.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using testing::HasSubstr;

const tasks::Task& task() {
  static const tasks::Task task = tasks::make_task(300, 50, engine::Random(1));
  return task;
}

/// An answer that ends 2 s after its start; `wrong` as in solve().
Result answered(double wrong, std::uint64_t tokens = 100) {
  engine::Random random(1);
  Result r;
  r.started = at(0);
  r.ended = at(2'000);
  StreamReader reader(Api::chat, true);
  boost::json::object event{{"choices", boost::json::array{boost::json::object{{"delta", boost::json::object{}}}}}};
  event["choices"].at(0).at("delta").as_object()["content"] = tasks::solve(task().prompt, wrong, random);
  feed(reader, "data: " + boost::json::serialize(event) + "\n\n", at(500));
  feed(reader,
       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":" + std::to_string(tokens) +
           "}}\n\n",
       at(2'000));
  r.stream = reader.stream();
  return r;
}

TEST(Llmperf, ItsItlCountsTheFirstTokensTimeIn) {
  Llmperf llmperf;
  llmperf.add(answered(0), task());
  ASSERT_EQ(llmperf.itl().size(), 1u);
  EXPECT_NEAR(llmperf.itl()[0], 2.0 / 100, 1e-6);
}

TEST(Llmperf, SharesOfRightAnswersAreOfSuccessfulRequests) {
  Llmperf llmperf;
  EXPECT_FALSE(llmperf.right_share());
  EXPECT_FALSE(llmperf.lines_share());
  for (int i = 0; i < 100; ++i) llmperf.add(answered(i < 98 ? 0 : 1), task());
  Result failed = answered(1);
  failed.outcome = "reset";
  llmperf.add(failed, task());
  EXPECT_NEAR(*llmperf.right_share(), 0.98, 1e-9);
  EXPECT_NEAR(*llmperf.lines_share(), 0.98, 1e-9);
  EXPECT_FALSE(llmperf.warning());
  std::ostringstream out;
  llmperf.print(out);
  EXPECT_THAT(out.str(),
              HasSubstr("Numbers    98 of 100 (98.0 %) right\nLines      588 of 600 (98.0 %) were in the prompt"));
}

TEST(Llmperf, WarnsBelow97Percent) {
  Llmperf llmperf;
  for (int i = 0; i < 99; ++i) llmperf.add(answered(i < 96 ? 0 : 1), task());
  EXPECT_NEAR(*llmperf.right_share(), 96 / 99.0, 1e-9);
  EXPECT_THAT(llmperf.warning().value_or(""), HasSubstr("only 96.97 % of the numbers were right"));
  llmperf.add(answered(0), task());
  EXPECT_FALSE(llmperf.warning()) << "97 of 100 are enough";
}

TEST(Llmperf, HasTheKeysThatProgramsRead) {
  Llmperf llmperf;
  llmperf.add(answered(0), task());
  const auto json_of = [](const Llmperf& of, const std::optional<Cost>& cost) {
    metrics::wire::JsonWriter json;
    of.write(json, cost);
    return boost::json::parse(json.written());
  };
  const auto with = json_of(llmperf, Cost{0.4, 1, 5}), without = json_of(llmperf, std::nullopt);
  EXPECT_EQ(with.at("right_share"), 1.0);
  EXPECT_EQ(with.at("checked"), 1);
  EXPECT_NEAR(with.at("itl_s").at("p50").as_double(), 0.02, 1e-6);
  EXPECT_EQ(with.at("cost_per_1000_requests"), 0.4);
  EXPECT_TRUE(without.at("cost_per_1000_requests").is_null());
  EXPECT_TRUE(json_of(Llmperf(), std::nullopt).at("right_share").is_null());
}

TEST(Cost, FollowsFromThePricesOfTokens) {
  const auto cost = cost_of({.in = 0.5, .out = 1.5, .per_hour = {}}, {200, 110'000, 30'000, 60});
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->per_1000_requests, (0.11 * 0.5 + 0.03 * 1.5) / 200 * 1000, 1e-9);
  EXPECT_NEAR(cost->per_million_tokens, 0.1 / 0.14, 1e-9);
  EXPECT_NEAR(cost->per_million_output_tokens, 0.1 / 0.03, 1e-9);
  EXPECT_NEAR(cost_of({.in = {}, .out = 2, .per_hour = {}}, {1, 1, 1'000'000, 1})->per_1000_requests, 2000, 1e-6);
}

TEST(Cost, FollowsFromThePriceOfAnHour) {
  const auto cost = cost_of({.in = {}, .out = {}, .per_hour = 3.6}, {200, 110'000, 30'000, 60});
  EXPECT_NEAR(cost->per_1000_requests, 0.06 / 200 * 1000, 1e-9);
  EXPECT_NEAR(cost->per_million_output_tokens, 2, 1e-9);
  EXPECT_FALSE(cost_of({}, {200, 1, 1, 1}));
  EXPECT_FALSE(cost_of({.in = {}, .out = {}, .per_hour = 3.6}, {}));
}

}  // namespace
}  // namespace weir::lab::load
