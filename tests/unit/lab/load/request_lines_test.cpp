#include "lab/load/request_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>
#include <sstream>

#include "lab/load/trace.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

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
