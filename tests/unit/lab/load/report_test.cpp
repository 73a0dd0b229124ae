#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <set>
#include <sstream>

#include "lab/load/connection.hpp"
#include "lab/load/report.hpp"
#include "lab/load/trace.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns the object of which `write` writes the members.
boost::json::value members_of(const std::function<void(JsonWriter&)>& write) {
  JsonWriter json;
  write(json.open('{'));
  return boost::json::parse(json.close('}').written());
}

/// An open load at a server that answers in 100 ms. Nothing is sent while the tool stands still, from 1 s to 3 s.
TEST(Tally, CountsAnOpenLoadFromWhenItsRequestsWereDue) {
  Tally honest, closed;
  for (int i = 0; i < 400; ++i) {
    const double due = i / 100.0;
    const double sent = due > 1 && due < 3 ? 3 : due;
    Result result = made_result({.sent = sent, .ttft = 0.05, .gap = 0.05, .events = 1});
    closed.add(result);
    result.due = moment(due);
    honest.add(result);
  }
  const auto told = members_of([&](JsonWriter& json) { honest.write_members(json, 1); });
  const auto hidden = members_of([&](JsonWriter& json) { closed.write_members(json, 1); });
  const auto of = [](const boost::json::value& all, const char* what, const char* which) {
    return all.at(what).at(which).to_number<double>();
  };
  EXPECT_NEAR(of(hidden, "e2e_s", "p99"), 0.1, 1e-3) << "from the sending on, no stall can be seen";
  EXPECT_TRUE(hidden.at("late_s").is_null());
  EXPECT_NEAR(of(told, "e2e_s", "max"), 0.1 + 1.99, 1e-3);
  EXPECT_NEAR(of(told, "ttft_s", "max"), 0.05 + 1.99, 1e-3);
  EXPECT_NEAR(of(told, "late_s", "max"), 1.99, 1e-3);
  EXPECT_NEAR(of(told, "late_s", "p50"), 0, 1e-3);
  // The difference between the two is the lateness and nothing else.
  EXPECT_NEAR(of(told, "e2e_s", "mean"), of(hidden, "e2e_s", "mean") + of(told, "late_s", "mean"), 1e-4);
  std::ostringstream table;
  honest.print(table, 1);
  EXPECT_THAT(table.str(), HasSubstr("sent late"));
  std::ostringstream other;
  closed.print(other, 1);
  EXPECT_THAT(other.str(), Not(HasSubstr("sent late")));
}

TEST(Distribution, GivesP99OnlyFromAHundredValuesOn) {
  EXPECT_FALSE(distribution({}));
  std::vector<float> values;
  for (int i = 1; i <= 99; ++i) values.push_back(static_cast<float>(i));
  EXPECT_FALSE(distribution(values)->p99);
  values.push_back(100);
  const auto d = distribution(values);
  EXPECT_DOUBLE_EQ(d->mean, 50.5);
  EXPECT_DOUBLE_EQ(d->p50, 50.5);
  EXPECT_NEAR(d->p90, 90.1, 1e-6);
  EXPECT_NEAR(d->p95, 95.05, 1e-6);
  EXPECT_NEAR(d->p99.value(), 99.01, 1e-6);
  EXPECT_DOUBLE_EQ(d->max, 100);
}

TEST(Report, FailuresAreCountedAndStayOutOfLatencies) {
  Report report;
  for (const Made& made :
       {Made{.gap = 0.02, .events = 10, .replica = "gpu0"},
        Made{.sent = 1, .gap = 0.04, .events = 10, .replica = "gpu1"},
        Made{.gap = 1, .events = 3, .outcome = "truncated", .replica = "gpu0"},
        Made{.events = 0, .outcome = "http_503"}, Made{.gap = 0.5, .events = 5, .outcome = "unfinished"}}) {
    report.add(made_result(made));
  }
  EXPECT_EQ(report.all.ok(), 2u);
  EXPECT_EQ(report.all.failed(), 2u);
  EXPECT_EQ(report.all.unfinished(), 1u);
  EXPECT_EQ(report.all.output_tokens(), 28u);
  const auto json = members_of([&](JsonWriter& out) { report.write_members(out); });
  EXPECT_EQ(json.at("errors"), boost::json::parse(R"({"http_503":1,"truncated":1})"));
  EXPECT_EQ(json.at("itl_s").at("count"), 18);
  EXPECT_NEAR(json.at("ttft_s").at("mean").as_double(), 0.1, 1e-6);
  EXPECT_NEAR(json.at("tpot_s").at("mean").as_double(), 0.03, 1e-6);
  EXPECT_NEAR(json.at("elapsed_s").as_double(), 3.1, 1e-9);
  EXPECT_NEAR(json.at("output_tokens_per_second").as_double(), 28 / 3.1, 1e-6);
  EXPECT_NEAR(json.at("total_tokens_per_second").as_double(), (28 + 4 * 100) / 3.1, 1e-6);
  EXPECT_TRUE(json.at("ttft_s").at("p99").is_null());
  EXPECT_EQ(json.at("replicas").as_object().size(), 2u);
  EXPECT_NEAR(json.at("replicas").at("gpu1").at("itl_s").at("p50").as_double(), 0.04, 1e-6);
}

TEST(Report, TellsTheLengthsThatCameBesideThoseAskedFor) {
  Tally tally;
  for (const std::uint64_t asked : {20u, 40u}) {
    Result result = made_result({.events = asked - 10, .prompt_tokens = 200, .output_tokens = asked - 5});
    result.output_target = asked;
    result.prompt_target = 180;
    tally.add(result);
  }
  std::ostringstream table;
  tally.print(table, 1);
  EXPECT_THAT(table.str(), HasSubstr("Lengths    prompts of 200.0 tokens, 180.0 asked for; answers of 25.0, at most "
                                     "30.0 asked for"));
  EXPECT_THAT(table.str(), HasSubstr("(50 tokens)"));
  tally.add(made_result({.events = 7, .outcome = "timeout"}));
  std::ostringstream with_failed;
  tally.print(with_failed, 1);
  EXPECT_THAT(with_failed.str(), HasSubstr("answers of 25.0, at most 30.0")) << "a failed one has no length";
  EXPECT_THAT(with_failed.str(), HasSubstr("(57 tokens, 7 of them of requests that did not succeed)"));
  const auto told = members_of([&](JsonWriter& json) { tally.write_members(json, 1); });
  EXPECT_EQ(told.at("output_tokens_mean").to_number<double>(), 25);
  EXPECT_EQ(told.at("output_tokens_asked_mean").to_number<double>(), 30);
  EXPECT_EQ(told.at("prompt_tokens_mean").to_number<double>(), 200);
  EXPECT_EQ(told.at("prompt_tokens_asked_mean").to_number<double>(), 180);
  EXPECT_EQ(told.at("output_tokens_of_failed"), 7);
}

TEST(Report, TheTableNamesErrorsAndLeavesOutAnEarlyP99) {
  Tally tally;
  for (int i = 0; i < 99; ++i) tally.add(made_result({.gap = 0, .events = 1}));
  std::ostringstream few;
  tally.print(few, tally.elapsed());
  EXPECT_THAT(few.str(), HasSubstr("99 ok, 0 failed"));
  EXPECT_THAT(few.str(), HasSubstr("TTFT          100.00    100.00    100.00    100.00         -        99\n"));
  EXPECT_THAT(few.str(), Not(HasSubstr("Errors")));
  tally.add(made_result({.gap = 0, .events = 1}));
  Result failed = made_result({.events = 0, .outcome = "timeout"});
  failed.detail = "no end within 5 s";
  tally.add(failed);
  std::ostringstream more;
  tally.print(more, tally.elapsed());
  EXPECT_THAT(more.str(), HasSubstr("TTFT          100.00    100.00    100.00    100.00    100.00       100\n"));
  EXPECT_THAT(more.str(), HasSubstr("Errors     timeout 1\n           first: timeout: no end within 5 s"));
}

TEST(EndedEarly, CountsAnswersThatTheirEngineSaysWereShorter) {
  EndedEarly early;
  const auto add = [&](const Made& made) {
    Result result = made_result(made);
    result.output_target = 5;
    early.add(result);
  };
  // Answers of 5 and 6 are whole, the engine of the next told nothing, and the last one failed.
  for (const std::uint64_t told : {5u, 6u, 0u}) add({.output_tokens = told});
  add({.output_tokens = 4, .outcome = "reset"});
  EXPECT_EQ(early.warning(), std::nullopt);
  add({.output_tokens = 4});
  EXPECT_EQ(early.warning()->substr(0, 16), "1 of 3 answers h");
}

TEST(Course, FollowsTheMomentsOfTheStream) {
  const auto course = course_of(made_result({.sent = 3, .ttft = 0.5, .gap = 0.02, .events = 5, .prompt_tokens = 77}));
  ASSERT_TRUE(course);
  EXPECT_NEAR(course->events.front() - course->sent, 0.5, 1e-6);
  EXPECT_NEAR(course->events.back() - course->events.front(), 0.08, 1e-6);
  EXPECT_EQ(course->prompt_tokens, 77u);
  EXPECT_EQ(course->tokens_per_event, 1);
}

TEST(Course, KnowsByUsageHowManyTokensAnEventHad) {
  const std::pair<Made, double> cases[]{
      {{.events = 5, .output_tokens = 13}, 3},
      {{.events = 10, .output_tokens = 11, .closed_empty = true}, 1},  // An empty event at the end is no speculation.
      {{.events = 5, .output_tokens = 14, .closed_empty = true}, 3}};
  for (const auto& [made, tokens] : cases) EXPECT_DOUBLE_EQ(course_of(made_result(made))->tokens_per_event, tokens);
  EXPECT_FALSE(course_of(made_result({.events = 0}))) << "without a token there is none";
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

namespace samples = metrics::compare::samples;
namespace json = boost::json;

std::shared_ptr<const metrics::wire::RequestFacts> facts(std::string_view body) {
  static const metrics::wire::ConversationKey key({1, 2});
  metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions", &key);
  inspector.feed(body);
  return std::make_shared<metrics::wire::RequestFacts>(inspector.finish());
}

/// A chat of 550 prompt tokens and `tokens` events, 20 ms apart, the first one 100 ms after it was sent.
Result answered_with(int tokens, bool usage = true) {
  Result r;
  StreamReader reader(Api::chat);
  r.request_id = "load-1-3";
  r.number = 3;
  r.prompt_target = 540;
  r.status = 200;
  r.started = at(1'000);
  r.sent = at(1'002);
  r.head = at(1'005);
  r.facts = facts(R"({"model":"m","messages":[{"role":"user","content":"the river"}],"max_tokens":64,"stream":true})");
  r.in_flight_at_start = 4;
  r.in_flight_mean = 4.5;
  for (int i = 0; i < tokens; ++i) {
    feed(reader, "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"},\"finish_reason\":null}]}\n\n",
         at(1'102 + 20 * i));
  }
  const std::string last = std::to_string(tokens + 1);
  feed(reader, "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n",
       at(1'102 + 20 * tokens));
  if (usage) {
    feed(reader, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":550,\"completion_tokens\":" + last + "}}\n\n",
         at(1'102 + 20 * tokens));
  }
  feed(reader, "data: [DONE]\n\n", at(1'102 + 20 * tokens));
  reader.end(true, at(1'104 + 20 * tokens));
  r.stream = reader.stream();
  r.ended = at(1'104 + 20 * tokens);
  r.bytes_in = 99;
  r.bytes_out = 2'000;
  return r;
}

json::object line_of(const Result& result, const std::string& label = "") {
  return json::parse(RequestLines(label).line(result)).as_object();
}

TEST(RequestLines, MarkWhatWasSentInAWarmUp) {
  Result result = answered_with(3);
  EXPECT_FALSE(line_of(result).contains("warm_up"));
  result.warm_up = true;
  EXPECT_EQ(line_of(result).at("warm_up"), true);
}

TEST(RequestLines, AreReadByTheComparison) {
  const std::string line = RequestLines("vllm-fp16").line(answered_with(11)) + std::string(samples::line_padding, ' ');
  const std::string_view text = std::string_view(line).substr(0, line.size() - samples::line_padding);
  samples::Names names;
  samples::Sample sample;
  ASSERT_EQ(samples::read_log_line(text, names, sample), samples::LineKind::request);
  EXPECT_EQ(names.text(sample.config), "vllm-fp16");
  EXPECT_EQ(names.text(sample.model), "m");
  EXPECT_EQ(sample.outcome, metrics::Outcome::ok);
  EXPECT_EQ(sample.api, metrics::Api::openai_chat);
  EXPECT_TRUE(sample.stream);
  EXPECT_TRUE(sample.served);
  EXPECT_EQ(sample.prompt_tokens, 550u);
  EXPECT_EQ(sample.output_tokens, 12u);
  EXPECT_EQ(sample.output_chars, 22u);
  EXPECT_NEAR(sample.ttft, 0.100, 1e-6);
  EXPECT_NEAR(sample.ttft_client, 0.102, 1e-6);
  EXPECT_NEAR(sample.tpot, 0.020, 1e-6);
  EXPECT_NEAR(sample.e2e, 0.322, 1e-6);
  EXPECT_TRUE(sample.gaps_are_itl);
  std::uint64_t gaps = 0;
  for (const auto& bin : sample.gaps) gaps += bin.count;
  EXPECT_EQ(gaps, 10u);
  EXPECT_EQ(sample.in_flight_at_start, 4u);
  EXPECT_NEAR(sample.in_flight_mean, 4.5, 1e-6);
  EXPECT_EQ(sample.turn, 1u);
}

TEST(RequestLines, OfAnOpenLoadBeginWhenTheRequestWasDue) {
  Result result = answered_with(11);
  result.due = at(700);
  const json::object line = line_of(result);
  EXPECT_NEAR(line.at("wait_s").to_number<double>(), 0.3, 1e-6);
  EXPECT_NEAR(line.at("ttft_client_s").to_number<double>(), 0.402, 1e-6);
  EXPECT_NEAR(line.at("e2e_s").to_number<double>(), 0.622, 1e-6);
  EXPECT_NEAR(line.at("ttft_s").to_number<double>(), 0.1, 1e-6) << "the replica's own time";
  EXPECT_NEAR(line.at("connect_s").to_number<double>(), 0.002, 1e-6);
}

TEST(RequestLines, HaveEveryFieldOfTheLog) {
  const json::object line = line_of(answered_with(11));
  const std::pair<const char*, json::value> fields[]{
      {"client_id", "load-1-3"}, {"instance", "weir-lab"},        {"role", "primary"},
      {"max_tokens", 64},        {"finish_reason", "stop"},       {"tokens_source", "usage"},
      {"k_source", "settled"},   {"complete", "marker"},          {"events", 14},
      {"bytes_in", 99},          {"prompt_tokens_estimate", 540}, {"pool", nullptr},
      {"config", nullptr},       {"overhead_max_s", nullptr}};
  for (const auto& [key, value] : fields) EXPECT_EQ(line.at(key), value) << key;
  EXPECT_TRUE(line.at("group").is_string());
}

TEST(RequestLines, SayWhatIsUnknownAsNull) {
  const json::object line = line_of(answered_with(11, false));
  for (const char* key : {"prompt_tokens", "tpot_s", "k_source", "cached_tokens", "reasoning_tokens"}) {
    EXPECT_TRUE(line.at(key).is_null()) << key;
  }
  EXPECT_EQ(line.at("output_tokens"), 11);
  EXPECT_EQ(line.at("tokens_source"), "counted") << "as in weir's own log";
  Result refused;
  refused.outcome = "connect";
  refused.ended = at(5);
  const json::object none = line_of(refused);
  for (const char* key : {"status", "ttft_s", "ttfb_s", "e2e_s", "finish_reason", "complete"}) {
    EXPECT_TRUE(none.at(key).is_null()) << key;
  }
  EXPECT_EQ(none.at("outcome"), "upstream_error");
}

TEST(RequestLines, BehindWeirTheNumberInFlightIsUnknown) {
  Result result = answered_with(3);
  result.replica = "gpu0";
  const json::object line = line_of(result, "x");
  EXPECT_EQ(line.at("replica"), "gpu0");
  EXPECT_TRUE(line.at("in_flight_mean").is_null());
  EXPECT_TRUE(line.at("in_flight_at_start").is_null());
}

TEST(RequestLines, TakeTheOutcomesOfTheLog) {
  const struct {
    const char* outcome;
    unsigned status;
    const char* logged;
  } cases[]{{"ok", 200, "ok"},
            {"connect", 0, "upstream_error"},
            {"http_500", 500, "upstream_error"},
            {"http_503", 503, "replica_refused"},
            {"http_429", 429, "replica_refused"},
            {"http_400", 400, "client_error"},
            {"in_band", 200, "upstream_error"},
            {"truncated", 200, "truncated"},
            {"reset", 200, "upstream_reset"},
            {"timeout", 0, "timeout"},
            {"invalid", 200, "upstream_error"},
            {"unfinished", 200, "client_abort"}};
  for (const auto& c : cases) {
    Result result = answered_with(3);
    result.outcome = c.outcome;
    result.status = c.status;
    EXPECT_EQ(line_of(result).at("outcome"), c.logged) << c.outcome;
  }
  Result full = answered_with(3);
  StreamReader reader(Api::chat);
  feed(reader, "data: {\"error\":{\"message\":\"full\",\"code\":503}}\n\n", at(1'100));
  full.stream = reader.stream();
  full.outcome = "in_band";
  EXPECT_EQ(line_of(full).at("outcome"), "replica_refused") << "as weir takes an error before any output";
  EXPECT_EQ(line_of(answered_with(0)).at("outcome"), "ok_empty");
  for (const auto& [tokens, phase] : {std::pair(3, "decode"), std::pair(0, "prefill")}) {
    Result left = answered_with(tokens);
    left.outcome = "unfinished";
    EXPECT_EQ(line_of(left).at("phase"), phase);
  }
}

TEST(RequestLines, OfTgiCountTheirTokensByEvents) {
  Result result;
  result.started = at(0);
  result.sent = at(0);
  result.status = 200;
  auto tgi = std::make_shared<metrics::wire::RequestFacts>();
  tgi->api = metrics::Api::tgi_generate;
  result.facts = tgi;
  StreamReader reader(Api::tgi);
  for (const int ms : {50, 70, 90}) feed(reader, "data:{\"token\":{\"text\":\" a\"}}\n\n", at(ms));
  reader.end(true, at(91));
  result.stream = reader.stream();
  result.ended = at(91);
  const json::object line = line_of(result);
  EXPECT_EQ(line.at("output_tokens"), 3);
  EXPECT_EQ(line.at("tokens_source"), "events");
  EXPECT_EQ(line.at("k_source"), "wire");
  EXPECT_NEAR(line.at("tpot_s").to_number<double>(), 0.02, 1e-9);
}

TEST(RequestLines, HaveIdsOfTheirOwn) {
  RequestLines one("a"), two("a");
  Result result = answered_with(1);
  std::set<std::string> ids;
  for (auto* lines : {&one, &two}) {
    for (const std::uint64_t number : {1u, 1u}) {  // The batches of a sweep each begin with the same number.
      result.number = number;
      const auto line = json::parse(lines->line(result)).as_object();
      ids.insert(std::string(line.at("id").as_string()));
      EXPECT_EQ(line.at("id").as_string().size(), 32u);
    }
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST(RequestLines, CanBeReplayed) {
  std::istringstream in(RequestLines("").line(answered_with(11)) + "\n");
  const auto trace = read_trace(in, 0);
  ASSERT_TRUE(std::holds_alternative<std::vector<TraceEntry>>(trace)) << std::get<std::string>(trace);
  EXPECT_EQ(std::get<std::vector<TraceEntry>>(trace)[0].prompt_tokens, 550u);
}

}  // namespace
}  // namespace weir::lab::load
