// A simulated replica answers LLMPerf's tasks, on every route, streamed or whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "lab/sim/answer.hpp"
#include "lab/tasks/task.hpp"

namespace weir::lab::sim {
namespace {

namespace json = boost::json;

const tasks::Task& task() {
  static const tasks::Task task = tasks::make_task(300, 100, engine::Random(5));
  return task;
}

Request asking(Route route, std::optional<std::int64_t> max_tokens) {
  json::object body{{"stream", true}};
  if (route == Route::chat) {
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", task().prompt}}};
  } else if (route == Route::completions) {
    body["prompt"] = task().prompt;
  } else {
    body["inputs"] = task().prompt;
  }
  if (max_tokens && is_tgi(route)) body["parameters"] = json::object{{"max_new_tokens", *max_tokens}};
  if (max_tokens && !is_tgi(route)) body["max_tokens"] = *max_tokens;
  return std::get<Request>(read_request_body(route, json::serialize(body)));
}

/// Joins the text of all of a stream's events.
std::string streamed(const Request& request, const AnswerPlan& plan) {
  const Answer answer(request, plan, "m", 1, 1);
  std::string bytes, text;
  for (std::uint64_t i = 1; i <= plan.tokens; ++i) answer.append_tokens(bytes, i, i);
  for (std::size_t at = 0; (at = bytes.find("data:", at)) != std::string::npos;) {
    at += 5;
    const std::string data = bytes.substr(at, bytes.find("\n\n", at) - at);
    if (data == " [DONE]") break;
    const json::object event = json::parse(data).as_object();
    if (event.contains("token")) {
      if (!event.at("token").at("special").as_bool()) text += event.at("token").at("text").as_string().c_str();
      continue;
    }
    for (const json::value& choice : event.at("choices").as_array()) {
      const json::object& c = choice.as_object();
      text += (c.contains("text") ? c.at("text") : c.at("delta").at("content")).as_string().c_str();
    }
  }
  return text;
}

tasks::Checked answered(const Request& request, double wrong = 0) {
  engine::Random random(1);
  const AnswerPlan plan = plan_answer(request, random, wrong);
  EXPECT_EQ(plan.by_stop, request.max_tokens != 50u);
  if (wrong == 0) EXPECT_LT(plan.tokens, 150u) << "it ends when all is said";
  return tasks::check(task(), streamed(request, plan));
}

TEST(SimTask, IsAnsweredOnEveryRouteAndCutAtMaxTokens) {
  for (const Route route : {Route::chat, Route::completions, Route::tgi_generate_stream}) {
    for (const std::int64_t max_tokens : {1'000, 50}) {
      const tasks::Checked checked = answered(asking(route, max_tokens));
      EXPECT_TRUE(checked.right_number);
      EXPECT_EQ(checked.right_lines, checked.lines) << "the last line may be cut";
      if (max_tokens == 1'000) EXPECT_EQ(checked.lines, 11u);
    }
  }
  const tasks::Checked wrong = answered(asking(Route::chat, 1'000), 1);
  EXPECT_FALSE(wrong.right_number);
  EXPECT_EQ(wrong.right_lines, 0u);
}

TEST(SimTask, HasAWholeAnswerToo) {
  Request request = asking(Route::chat, std::nullopt);
  request.stream = false;
  engine::Random random(1);
  const Answer answer(request, plan_answer(request, random), "m", 1, 1);
  const auto body = json::parse(answer.whole());
  const auto& content = body.at("choices").at(0).at("message").at("content").as_string();
  EXPECT_TRUE(tasks::check(task(), {content.data(), content.size()}).right_number);
}

}  // namespace
}  // namespace weir::lab::sim
