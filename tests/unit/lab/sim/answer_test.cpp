#include "lab/sim/answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "lab/engine/words.hpp"
#include "lab/sim/session.hpp"

namespace weir::lab::sim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Request read(Route route, std::string_view body) {
  auto result = read_request_body(route, body);
  EXPECT_TRUE(std::holds_alternative<Request>(result)) << std::get<Refusal>(result).message;
  return std::get<Request>(result);
}

TEST(SimRequest, CountsThePromptOfEachShape) {
  const struct {
    Route route;
    std::string body;
    std::uint64_t tokens;
  } cases[] = {
      {Route::chat, R"({"messages":[{"role":"user","content":"the river"}]})", 6 + 4 + 2},
      {Route::chat, R"({"messages":[{"role":"system","content":"the"},{"role":"user","content":"river"}]})", 6 + 8 + 2},
      {Route::chat, R"({"messages":[{"role":"user","content":[{"type":"text","text":"the"},{"type":"image_url"}]}]})",
       6 + 4 + 1},
      {Route::chat, R"({"messages":[{"role":"assistant","content":null}]})", 6 + 4},
      {Route::completions, R"({"prompt":"the river"})", 3},
      {Route::completions, R"({"prompt":["the river"]})", 3},
      {Route::completions, R"({"prompt":[5,6,7]})", 3},
      {Route::completions, R"({"prompt":[[5,6,7]]})", 3},
      {Route::completions, R"({"prompt":[5]})", 1},
      {Route::tgi_generate, R"({"inputs":"the river"})", 3},
  };
  for (const auto& c : cases) EXPECT_EQ(read(c.route, c.body).prompt_tokens, c.tokens) << c.body;
}

TEST(SimRequest, ReadsWhatStreamsAreAskedFor) {
  const Request r =
      read(Route::chat, R"({"model":"m","messages":[{"content":"a"}],"stream":true,"max_completion_tokens":9,
                                          "ignore_eos":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  EXPECT_EQ(r.model, "m");
  EXPECT_TRUE(r.stream && r.include_usage && r.continuous_usage && r.ignore_eos);
  EXPECT_EQ(r.max_tokens, 9u);
  EXPECT_EQ(read(Route::completions, R"({"prompt":"a"})").max_tokens, 16u);
  EXPECT_FALSE(read(Route::tgi_generate, R"({"inputs":"a"})").stream);
  EXPECT_TRUE(
      read(Route::tgi_generate_stream, R"({"inputs":"a","parameters":{"details":true,"max_new_tokens":3}})").details);
}

TEST(SimRequest, HasBlocksOfItsPromptWhereTheyAreAskedFor) {
  const auto blocks_of = [](Route route, const std::string& body) {
    return std::get<Request>(read_request_body(route, body, true)).blocks.take();
  };
  const std::string river = "the river ran on and on and on and on and on and on and on and on and on and on";
  const std::string one = R"({"messages":[{"role":"user","content":")" + river + R"("}]})";
  const std::string more = R"({"messages":[{"role":"user","content":")" + river + R"( and the sea came in too"}]})";
  const std::string two = R"({"messages":[{"role":"user","content":")" + river +
                          R"("},{"role":"assistant","content":"yes, it did so for a very long time, and so did we"}]})";
  const auto first = blocks_of(Route::chat, one);
  ASSERT_EQ(first.size(), 2u) << "10 tokens of the template, and 22";
  const auto longer = blocks_of(Route::chat, more), next_turn = blocks_of(Route::chat, two);
  ASSERT_GE(longer.size(), 2u);
  EXPECT_EQ(longer[0], first[0]);
  EXPECT_NE(longer[1], first[1]) << "the template ends the message before the 32nd token";
  ASSERT_GE(next_turn.size(), 2u);
  EXPECT_EQ(engine::common_blocks(next_turn, first), 2u) << "the prompt's end begins the assistant's message";
  EXPECT_NE(blocks_of(Route::chat, R"({"messages":[{"role":"user","content":"And )" + river + R"("}]})")[0], first[0]);
  const std::string numbers = R"({"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]})";
  EXPECT_EQ(blocks_of(Route::completions, numbers).size(), 1u);
  EXPECT_EQ(blocks_of(Route::completions, R"({"prompt":")" + river + R"("})"),
            blocks_of(Route::tgi_generate, R"({"inputs":")" + river + R"("})"));
  EXPECT_TRUE(read(Route::chat, one).blocks.take().empty());
  EXPECT_EQ(std::get<Request>(read_request_body(Route::chat, two, true)).prompt_tokens,
            read(Route::chat, two).prompt_tokens);
}

/// A conversation's next prompt repeats the one before it and its answer, as the answer's client got it.
TEST(SimRequest, RepeatsTheAnswerToTheOneBefore) {
  for (const bool by_stop : {true, false}) {
    for (const bool thoughts : {false, true}) {
      const std::string first = R"({"messages":[{"role":"user","content":"How high is the river?"})";
      const Request request = std::get<Request>(read_request_body(Route::chat, first + "]}", true));
      const AnswerPlan plan{200, by_stop};
      const Answer answer(request, plan, "m", 9, 1);
      const std::string text =
          boost::json::serialize(boost::json::parse(answer.whole()).at("choices").at(0).at("message").at("content"));
      engine::PromptBlocks made = request.blocks;
      add_answer(made, plan, answer.text(), thoughts ? std::optional<std::uint64_t>(9) : std::nullopt);
      const auto next = std::get<Request>(read_request_body(
          Route::chat,
          first + R"(,{"role":"assistant","content":)" + text + R"(},{"role":"user","content":"And now?"}]})", true));
      const auto blocks = made.take();
      const std::size_t common = engine::common_blocks(blocks, engine::PromptBlocks(next.blocks).take());
      EXPECT_EQ(common, thoughts ? request.prompt_tokens / engine::block_tokens : blocks.size());
    }
  }
}

TEST(SimRequest, HasNoBlocksInCommonWithAnotherSalt) {
  const auto first_block = [](Route route, const std::string& member) {
    const std::string text = "the river ran on and on and on and on and on and on and on and on";
    const std::string body = route == Route::tgi_generate
                                 ? R"({"inputs":")" + text + R"(","parameters":{)" + member + "}}"
                                 : R"({"prompt":")" + text + "\"" + (member.empty() ? "" : "," + member) + "}";
    return std::get<Request>(read_request_body(route, body, true)).blocks.take().at(0);
  };
  const auto plain = first_block(Route::completions, "");
  EXPECT_EQ(first_block(Route::tgi_generate, ""), plain);
  EXPECT_EQ(first_block(Route::completions, R"("cache_salt":"","user":"b")"), plain);
  std::set<std::uint64_t> all{plain, first_block(Route::tgi_generate, R"("adapter_id":"a")")};
  for (const std::string key : {"cache_salt", "extra_key", "lora_path"}) {
    for (const std::string value : {"a", "b"}) {
      all.insert(first_block(Route::completions, "\"" + key + "\":\"" + value + "\""));
    }
  }
  EXPECT_EQ(all.size(), 8u);
}

TEST(SimRequest, OnlyJsonIsJson) {
  const std::pair<const char*, bool> table[] = {{"application/json", true},
                                                {"Application/JSON", true},
                                                {"application/json; charset=utf-8", true},
                                                {"application/json;", true},
                                                {"", false},
                                                {"application/x-www-form-urlencoded", false},
                                                {"application/jsonl", false},
                                                {"application/json-seq", false},
                                                {"text/plain; application/json", false}};
  for (const auto& [type, expected] : table) EXPECT_EQ(is_json(type), expected) << type;
}

TEST(SimRequest, RefusesWithTheStatusOfItsEngine) {
  const struct {
    Route route;
    std::string body;
    unsigned status;
  } cases[] = {
      {Route::chat, "nonsense", 400},
      {Route::chat, "[]", 400},
      {Route::chat, "{}", 400},
      {Route::chat, R"({"messages":[]})", 400},
      {Route::chat, R"({"messages":["a"]})", 400},
      {Route::chat, R"({"messages":[{"content":5}]})", 400},
      {Route::chat, R"({"messages":[{"content":"a"}],"max_tokens":0})", 400},
      {Route::chat, R"({"messages":[{"content":"a"}],"max_tokens":"5"})", 400},
      {Route::chat, R"({"messages":[{"content":"a"}],"n":2})", 400},
      {Route::chat, R"({"messages":[{"content":"a"}],"stream_options":{"include_usage":true}})", 400},
      {Route::completions, R"({"prompt":["a","b"]})", 400},
      {Route::completions, R"({"prompt":[]})", 400},
      {Route::tgi_generate, R"({"prompt":"a"})", 422},
      {Route::tgi_generate, R"({"inputs":"a","parameters":{"max_new_tokens":-1}})", 422},
  };
  for (const auto& c : cases) {
    const auto result = read_request_body(c.route, c.body);
    ASSERT_TRUE(std::holds_alternative<Refusal>(result)) << c.body;
    EXPECT_EQ(std::get<Refusal>(result).status, c.status) << c.body;
    EXPECT_NO_THROW(boost::json::parse(refusal_body(c.route, std::get<Refusal>(result))));
  }
}

TEST(SimAnswerPlan, HasTheLengthAskedForAndBothEnds) {
  engine::Random random(1);
  Request request;
  request.max_tokens = 20;
  int stops = 0;
  for (int i = 0; i < 1'000; ++i) {
    const AnswerPlan plan = plan_answer(request, random);
    EXPECT_EQ(plan.tokens, 20u);
    stops += plan.by_stop;
  }
  EXPECT_NEAR(stops, 500, 60);
  request.max_tokens = 1;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(plan_answer(request, random).by_stop);
  request.max_tokens.reset();
  for (int i = 0; i < 1'000; ++i) {
    const AnswerPlan plan = plan_answer(request, random);
    EXPECT_TRUE(plan.by_stop);
    EXPECT_GE(plan.tokens, 2u);
    EXPECT_LE(plan.tokens, 1024u);
  }
  request.ignore_eos = true;
  EXPECT_FALSE(plan_answer(request, random).by_stop);
}

/// Returns what an answer appends for these tokens.
std::string tokens_of(const Answer& answer, std::uint64_t first, std::uint64_t last) {
  std::string out;
  answer.append_tokens(out, first, last);
  return out;
}

std::string chunked(std::initializer_list<std::string> payloads) {
  std::string out;
  for (const std::string& p : payloads) append_chunk(out, p);
  return out;
}

Request streaming(Route route, bool usage = false, bool continuous = false) {
  Request request;
  request.route = route;
  request.stream = true;
  request.include_usage = usage;
  request.continuous_usage = continuous;
  request.prompt_tokens = 31;
  return request;
}

TEST(SimAnswer, TellsCachedTokensAtTheEndAlone) {
  const Request request = streaming(Route::chat, true, true);
  Answer answer(request, {2, false}, "m", 9, 1779866853);
  answer.cached(16);
  const std::string begin = tokens_of(answer, 1, 1), end = tokens_of(answer, 2, 2);
  EXPECT_THAT(begin, testing::Not(HasSubstr("cached_tokens")));
  const std::string usage =
      R"("usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}})";
  EXPECT_THAT(end, HasSubstr(R"("choices":[],)" + usage));
  EXPECT_THAT(answer.whole(), HasSubstr(usage + "}"));
  EXPECT_THAT(Answer(request, {2, false}, "m", 9, 1).whole(), testing::Not(HasSubstr("details")));
}

TEST(SimAnswer, AVllmChatStopIsAnEmptyEventOfItsOwn) {
  const Request request = streaming(Route::chat, true);
  const Answer answer(request, {2, true}, "m", 9, 1779866853);
  const std::string first = tokens_of(answer, 1, 1), last = tokens_of(answer, 2, 2);
  const std::string id = first.substr(first.find("chatcmpl-"), 41);
  const std::string envelope =
      R"(data: {"id":")" + id + R"(","object":"chat.completion.chunk","created":1779866853,"model":"m","choices":[)";
  const std::string text(engine::answer_token(9, 1));
  EXPECT_EQ(
      first,
      chunked(
          {envelope +
               R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null})"
               "\n\n",
           envelope + R"({"index":0,"delta":{"content":")" + text +
               R"("},"logprobs":null,"finish_reason":null,"token_ids":null}]})"
               "\n\n"}));
  EXPECT_EQ(
      last,
      chunked(
          {envelope +
               R"({"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]})"
               "\n\n",
           envelope +
               R"(],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2},"system_fingerprint":"weir-lab-sim"})"
               "\n\n",
           "data: [DONE]\n\n"}) +
          "0\r\n\r\n");
}

TEST(SimAnswer, AVllmLengthIsJoinedToTheLastTokenAndUsageComesOnlyIfAsked) {
  const Answer answer(streaming(Route::completions), {2, false}, "m", 9, 1);
  const std::string last = tokens_of(answer, 2, 2);
  const std::string id = last.substr(last.find("cmpl-"), 37);
  EXPECT_EQ(
      last,
      chunked(
          {R"(data: {"id":")" + id +
               R"(","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":")" +
               std::string(engine::answer_token(9, 2)) +
               R"(","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]})"
               "\n\n",
           "data: [DONE]\n\n"}) +
          "0\r\n\r\n");
}

TEST(SimAnswer, ContinuousUsageCountsUpFromNought) {
  const Request request = streaming(Route::chat, true, true);
  const Answer answer(request, {5, false}, "m", 9, 1);
  const std::string first = tokens_of(answer, 1, 1), second = tokens_of(answer, 2, 2);
  EXPECT_THAT(first,
              HasSubstr(R"("usage":{"prompt_tokens":31,"total_tokens":31,"completion_tokens":0},"prompt_token_ids")"));
  EXPECT_THAT(first, HasSubstr(R"("usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1}})"));
  EXPECT_THAT(second, HasSubstr(R"("completion_tokens":2}})"));
}

TEST(SimAnswer, TheTokensOfOneStepAreOneVllmEventAndOneTgiEventEach) {
  const auto text = [](std::uint64_t index) { return std::string(engine::answer_token(9, index)); };
  const Request request = streaming(Route::completions, true, true);
  const Answer vllm(request, {6, true}, "m", 9, 1);
  const std::string step = tokens_of(vllm, 2, 4), end = tokens_of(vllm, 5, 6);
  EXPECT_THAT(step, HasSubstr(R"("text":")" + text(2) + text(3) + text(4) + R"(",)"));
  EXPECT_THAT(step, HasSubstr(R"("completion_tokens":4}})"));
  EXPECT_EQ(step.find("data: "), step.rfind("data: "));
  EXPECT_THAT(end, HasSubstr(R"("text":")" + text(5) + R"(","logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(end, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":31,"total_tokens":37,"completion_tokens":6})"));
  const auto tgi = tokens_of(Answer(streaming(Route::tgi_generate_stream), {6, true}, "m", 9, 1), 2, 4);
  for (const std::uint64_t index : {2u, 3u, 4u}) {
    EXPECT_THAT(tgi, HasSubstr(R"(data:{"index":)" + std::to_string(index) + ","));
  }
}

TEST(SimAnswer, ATgiStreamEndsInItsTextWithoutDone) {
  Request request = streaming(Route::tgi_generate_stream);
  request.details = true;
  const Answer answer(request, {2, true}, "m", 9, 1);
  const std::string first = tokens_of(answer, 1, 1), last = tokens_of(answer, 2, 2);
  const std::string text(engine::answer_token(9, 1));
  EXPECT_EQ(first, chunked({R"(data:{"index":1,"token":{"id":1010,"text":")" + text +
                            R"(","logprob":-0.5,"special":false},"generated_text":null,"details":null})"
                            "\n\n"}));
  EXPECT_EQ(
      last,
      chunked(
          {R"(data:{"index":2,"token":{"id":128009,"text":"<|eot_id|>","logprob":-0.01,"special":true},"generated_text":")" +
           text +
           R"(","details":{"finish_reason":"eos_token","generated_tokens":2,"seed":null,"input_length":31}})"
           "\n\n"}) +
          "0\r\n\r\n");
}

TEST(SimAnswer, HeadsNameTheirFraming) {
  std::string vllm, tgi;
  Answer(streaming(Route::chat), {2, true}, "m", 9, 1).append_head(vllm, true);
  Answer(streaming(Route::tgi_generate_stream), {2, true}, "m", 9, 1).append_head(tgi, false);
  EXPECT_THAT(vllm, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(vllm,
              HasSubstr("\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"));
  EXPECT_THAT(tgi, HasSubstr("\r\nconnection: close\r\n"));
  EXPECT_THAT(tgi, HasSubstr("\r\nx-accel-buffering: no\r\n"));
}

TEST(SimAnswer, WholeAnswersAreJsonWithTheSameText) {
  Request request = streaming(Route::chat);
  request.stream = false;
  std::string text;
  for (std::uint64_t i = 1; i < 40; ++i) text += engine::answer_token(9, i);
  text = boost::json::parse('"' + text + '"').as_string();
  const auto chat = boost::json::parse(Answer(request, {40, true}, "m", 9, 1).whole());
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content").as_string(), text);
  EXPECT_EQ(chat.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(chat.at("usage"), boost::json::parse(R"({"prompt_tokens":31,"total_tokens":71,"completion_tokens":40})"));
  request.route = Route::completions;
  EXPECT_EQ(
      boost::json::parse(Answer(request, {40, true}, "m", 9, 1).whole()).at("choices").at(0).at("text").as_string(),
      text);
  request.route = Route::tgi_generate;
  request.details = true;
  const auto tgi = boost::json::parse(Answer(request, {40, true}, "m", 9, 1).whole());
  EXPECT_EQ(tgi.at("generated_text").as_string(), text);
  EXPECT_EQ(tgi.at("details").at("generated_tokens"), 40);
}

TEST(SimLedger, CountsTokensAsTheyComeAndDistributionsExactly) {
  Ledger ledger("");
  Truth truth;
  truth.stream = true;
  truth.prompt_tokens = 100;
  truth.received = Moment(std::chrono::milliseconds(1000));
  truth.first_token = truth.received + std::chrono::milliseconds(250);
  const engine::EngineModel engine(engine::EngineSettings{}, 1);
  for (truth.output_tokens = 1; truth.output_tokens <= 3; ++truth.output_tokens) ledger.tokens(truth, 1);
  truth.output_tokens = 3;
  EXPECT_THAT(ledger.metrics(engine, "m\"x", false),
              HasSubstr("vllm:generation_tokens_total{model_name=\"m\\\"x\",engine=\"0\"} 3\n"));
  truth.last_token = *truth.first_token + std::chrono::milliseconds(50);
  ledger.add(truth);
  const std::string page = ledger.metrics(engine, "m", false);
  EXPECT_THAT(page, HasSubstr("vllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} 100\n"));
  EXPECT_THAT(page, HasSubstr("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.1\"} 0\n"));
  EXPECT_THAT(page,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.25\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("vllm:time_per_output_token_seconds_sum{model_name=\"m\",engine=\"0\"} 0.025\n"));
  truth.output_tokens = 9;
  ledger.tokens(truth, 6);
  EXPECT_THAT(ledger.metrics(engine, "m", false),
              HasSubstr("vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} 9\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_success_total{model_name=\"m\",engine=\"0\"} 1\n"));
  EXPECT_THAT(ledger.metrics(engine, "m", true), HasSubstr("\ntgi_queue_size 0\n"));
}

TEST(SimTruth, SaysWhatNeverCameAsNull) {
  Truth truth;
  truth.request_id = "a";
  truth.received = Moment(std::chrono::nanoseconds(5));
  truth.status = Status::aborted;
  EXPECT_EQ(
      boost::json::parse(truth_line(truth)),
      boost::json::parse(R"({"request_id":"a","status":"aborted","stream":false,"received_ns":5,"first_token_ns":null,
                                   "last_token_ns":null,"prompt_tokens":0,"cached_tokens":0,"output_tokens":0})"));
}

}  // namespace
}  // namespace weir::lab::sim
