// What GET /api/compare makes of a query and of the last requests.
#include "proxy/control/compare_api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>

#include "proxy/control/history.hpp"

namespace weir::proxy::control {
namespace {

namespace json = boost::json;
using metrics::Moment;
using metrics::record::RequestRecord;
using ::testing::HasSubstr;

/// A weir that has mirrored a request a second for 25 minutes. The candidate takes a fifth longer.
class CompareApi : public ::testing::Test {
 protected:
  CompareApi() {
    for (int i = 0; i < 1500; ++i) add(i);
    settings.slos = {{"fast", "chat", {}, config::Seconds(1), {}, {}}};
    world.settings = settings;
  }

  void add(int i) {
    RequestRecord primary;
    primary.time += std::chrono::seconds(i);
    primary.id = std::string(24, '0') + std::to_string(10'000'000 + i);
    primary.pool = "chat";
    primary.replica = "gpu0";
    primary.config = "fp16";
    primary.facts.stream = true;
    primary.outcome = metrics::Outcome::ok;
    primary.received = start;
    primary.sent = start;
    primary.shadows = 1;
    primary.answer.end = start + std::chrono::seconds(1);
    primary.answer.last_choice = primary.answer.end;
    primary.answer.output_tokens = 20;
    primary.answer.token_events_in_different_reads = true;
    primary.answer.events = 20;
    auto shadow = primary;
    primary.answer.first_token = start + std::chrono::milliseconds(100 + i % 7);
    shadow.answer.first_token = start + std::chrono::milliseconds(120 + i % 5);
    shadow.role = metrics::Role::shadow;
    shadow.shadows = 0;
    shadow.id[0] = 'f';
    shadow.pool = "chat:shadow";
    shadow.replica = "cand0";
    shadow.config = "fp8";
    shadow.mirrored.make().pair = primary.id;
    shadow.mirrored.make().shadow = "candidate";
    finished.put(std::move(primary));
    finished.put(std::move(shadow));
    history.take(finished, start);
  }

  ApiAnswer ask(std::string_view query) { return comparison(query, history, world)(); }
  json::object report(std::string_view query) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.status, 200u) << answer.body;
    return json::parse(answer.body).as_object();
  }

  const Moment start = Moment() + std::chrono::hours(1);
  metrics::record::RequestLog log{"", "weir"};
  metrics::record::FinishedRecords finished;
  History history{log};
  config::Settings settings;
  fleet::World world;
};

TEST_F(CompareApi, ComparesTheTwoSidesThatThereAre) {
  const auto made = report("");
  EXPECT_EQ(made.at("a"), "fp16");
  EXPECT_EQ(made.at("b"), "fp8");
  EXPECT_EQ(made.at("state"), "final");
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
  EXPECT_EQ(report("slo=fast").at("verdicts").as_array().at(0).at("metric"), "slo");
  EXPECT_EQ(report("slo=ttft%3D0.5").at("verdicts").as_array().at(0).at("metric"), "slo");
}

TEST_F(CompareApi, IsRunningWhileAShadowIsOnAndNoWindowIsDeclared) {
  auto shadow = std::make_shared<fleet::ShadowRuntime>();
  shadow->state = std::make_shared<fleet::ShadowState>();
  world.shadows = {shadow};
  EXPECT_EQ(report("").at("state"), "running");
  EXPECT_EQ(report("window=20m&warm_up=0s").at("state"), "final");
  shadow->state->on = false;
  EXPECT_EQ(report("").at("state"), "final");
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
  const auto answer = comparison("", none, world)();
  EXPECT_EQ(answer.status, 400u);
}

TEST_F(CompareApi, KeepsTheLastRequestsOnly) {
  for (int i = 0; i < 100; ++i) add(2000 + i);
  EXPECT_EQ(history.samples().size(), 3200u);
  EXPECT_EQ(history.mirrored().warm_from({metrics::compare::sides::By::role, 0, metrics::Role::shadow, {}}, 0), 0);
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
}  // namespace weir::proxy::control
