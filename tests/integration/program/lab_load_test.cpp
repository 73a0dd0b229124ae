// `weir-lab load`: LLMPerf's protocol, the cost of prefill, replays and the request log, against simulated replicas;
// and what these find in their KV caches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Finished load(const SimulatedReplica& replica, std::vector<std::string> words) {
  words.insert(words.begin(), {"load", "--url", replica.url()});
  return run_lab(std::move(words));
}

double number(const json::object& line, const char* key) { return line.at(key).to_number<double>(); }

TEST(LabLoad, LlmperfHasItsOwnItlAndCountsTheCost) {
  const SimulatedReplica replica({"--speed", "20"});
  const auto report = replica.folder() / "report.json";
  const auto done = load(replica, {"--preset", "llmperf", "--requests", "20", "--cost-per-hour", "3.6"});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("LLMPerfITL"), HasSubstr("per million output tokens"), HasSubstr("loop lag")));
  const auto batches = load(replica, {"--preset", "llmperf", "--requests", "20", "--batches", "--price-in", "0.5",
                                      "--price-out", "1.5", "--json", report.string()});
  EXPECT_EQ(batches.exit.code, 0) << batches.output;
  const auto read = json::parse(read_file(report)).as_object();
  const auto& llmperf = read.at("llmperf").as_object();
  const double spent = (number(read, "prompt_tokens") * 0.5 + number(read, "output_tokens") * 1.5) / 1e6;
  EXPECT_NEAR(number(llmperf, "cost_per_1000_requests"), spent / 20 * 1000, 1e-6);
  // TTFT is counted in, so the value of LLMPerf is above that of weir.
  EXPECT_GT(number(llmperf.at("itl_s").as_object(), "mean"), number(read.at("tpot_s").as_object(), "mean"));
  EXPECT_GT(number(read.at("loop_lag_s").as_object(), "count"), 0);
}

TEST(LabLoad, OverTlsDemandsACertificateOfAnAuthorityForTheHost) {
  const SimulatedReplica replica({"--speed", "20"});
  const Bridge right(Bridge::Kind::tls_to_plain, replica.port());
  const Bridge other(Bridge::Kind::tls_to_plain, replica.port(),
                     {.context = [](SSL_CTX& context) { show_certificate(context, "example"); }});
  const auto ask = [&](const Bridge& bridge, std::vector<std::string> more) {
    more.insert(more.begin(), {"load", "--url", bridge.url(), "--requests", "8", "--concurrency", "2",
                               "--output-tokens", "10", "--timeout", "20"});
    return run_lab(std::move(more));
  };
  const auto report = replica.folder() / "report.json", ca = std::filesystem::path(tls_file("ca.pem"));
  const auto done = ask(right, {"--ca", ca, "--json", report.string()});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  const auto read = json::parse(read_file(report)).as_object();
  EXPECT_EQ(read.at("requests_ok"), 8) << json::serialize(read);
  EXPECT_GT(number(read.at("ttft_s").as_object(), "p50"), 0);
  EXPECT_LE(right.handshakes(), 4u) << "connections are kept";
  const auto unknown = ask(right, {});
  EXPECT_EQ(unknown.exit.code, 1);
  EXPECT_THAT(unknown.output, HasSubstr("connect: TLS: certificate verify failed"));
  const auto wrong_host = ask(other, {"--ca", ca});
  EXPECT_EQ(wrong_host.exit.code, 1);
  EXPECT_THAT(wrong_host.output, HasSubstr("certificate verify failed: "));
  const auto no_file = ask(right, {"--ca", replica.folder() / "nothing.pem"});
  EXPECT_EQ(no_file.exit.code, 2);
  EXPECT_THAT(no_file.output, HasSubstr("nothing.pem\" must be a file of certificates in PEM"));
}

TEST(LabLoad, BatchesWaitForAll) {
  const SimulatedReplica replica({"--step-ms", "300"});  // No answer ends while others of its batch are being sent.
  const auto log = replica.folder() / "load.jsonl";
  const auto done = load(replica, {"--batches", "--concurrency", "4", "--requests", "12", "--output-tokens", "2",
                                   "--output-stddev", "0", "--log", log.string()});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  std::map<double, int> at_start;
  for (const auto& line : json_lines(read_file(log))) ++at_start[number(line, "in_flight_at_start")];
  EXPECT_EQ(at_start, (std::map<double, int>{{0, 3}, {1, 3}, {2, 3}, {3, 3}}));
}

TEST(LabLoad, PrefillCostIsThatOfTheEngine) {
  const SimulatedReplica replica({"--speed", "1", "--jitter", "0", "--step-ms", "2"});
  const auto report = replica.folder() / "report.json";
  const auto done = load(replica, {"--prefill-cost", "--requests", "25", "--json", report.string()});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  const auto cost = json::parse(read_file(report)).at("prefill_cost").as_object();
  EXPECT_EQ(number(cost, "requests"), 25);
  // The engine takes 105 us a token; what else runs on this machine is in the figure too.
  EXPECT_GT(number(cost, "ms_per_1000_tokens"), 0);
  EXPECT_LT(number(cost, "ms_per_1000_tokens"), 1000);
  EXPECT_TRUE(cost.at("interval").is_array());
}

TEST(LabLoad, ALogIsReadByCompareAndReplayed) {
  const SimulatedReplica fast({"--speed", "20"}), slow({"--speed", "10"});
  const auto a = fast.folder() / "a.jsonl", b = fast.folder() / "b.jsonl", again = fast.folder() / "again.jsonl";
  EXPECT_EQ(load(fast, {"--requests", "20", "--label", "a", "--log", a.string()}).exit.code, 0);
  EXPECT_EQ(load(slow, {"--requests", "20", "--label", "b", "--log", b.string()}).exit.code, 0);
  const auto compared = run_weir({"compare", a.string(), b.string(), "--a", "a", "--b", "b", "--json"});
  EXPECT_EQ(compared.exit.code, 0) << compared.output;
  const auto sides = json::parse(compared.output).at("sides").as_array();
  ASSERT_EQ(sides.size(), 2u) << compared.output;
  for (const auto& side : sides) EXPECT_EQ(side.at("requests"), 20);

  const auto replayed = load(slow, {"--trace", a.string(), "--trace-speed", "2", "--log", again.string()});
  EXPECT_EQ(replayed.exit.code, 0) << replayed.output;
  std::vector<double> lengths, told;
  for (const auto& line : json_lines(read_file(a))) lengths.push_back(number(line, "output_tokens"));
  for (const auto& line : json_lines(read_file(again))) told.push_back(number(line, "output_tokens"));
  std::ranges::sort(lengths);
  std::ranges::sort(told);
  EXPECT_EQ(lengths, told);
}

/// Returns the lines that the replica wrote. It writes one behind each answer, which its client may have read before.
std::vector<json::object> lines_of(const SimulatedReplica& replica, std::size_t count) {
  std::string text;
  look_until("a line of each answer", [&] {
    text = read_file(replica.log());
    return static_cast<std::size_t>(std::ranges::count(text, '\n')) >= count;
  });
  return json_lines(text);
}

TEST(LabLoad, ATurnComesWhenTheOneBeforeHasEndedAndItsUserHasThought) {
  const SimulatedReplica replica({"--speed", "4", "--prefix-cache", "blocks"});
  const auto trace = replica.folder() / "trace.jsonl", log = replica.folder() / "load.jsonl";
  const auto line = [](int chat, int parent, double at, double think, int blocks) {
    std::string ids = "0";
    for (int i = 1; i < blocks; ++i) ids += "," + std::to_string(100 * (parent < 0 ? chat : 1) + i);
    return "{\"chat_id\":" + std::to_string(chat) + ",\"parent_chat_id\":" + std::to_string(parent) +
           ",\"timestamp\":" + std::to_string(at) + ",\"think\":" + std::to_string(think) +
           ",\"input_length\":" + std::to_string(16 * blocks) + ",\"output_length\":20,\"hash_ids\":[" + ids + "]}\n";
  };
  write_file(trace, line(1, -1, 0, 0, 20) + line(2, 1, 0.01, 0.2, 30) + line(3, 1, 0.02, 0, 30) +
                        line(4, -1, 0.1, 0, 10) + line(5, 2, 0.2, 0.1, 40));
  const auto done = load(replica, {"--trace", trace.string(), "--turns", "--log", log.string()});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  std::map<std::string, json::object> truth;
  for (const auto& told : lines_of(replica, 5)) truth[std::string(told.at("request_id").as_string())] = told;
  ASSERT_EQ(truth.size(), 5u) << done.output;
  const auto of = [&truth](int request, const char* key) {
    return number(truth.at("load-1-" + std::to_string(request)), key);
  };
  const struct {
    int turn, parent;
    double think;
  } turns[]{{1, 0, 0.2}, {2, 0, 0}, {4, 1, 0.1}};
  for (const auto& [turn, parent, think] : turns) {
    // The replica notes its moments a little late.
    EXPECT_GE(of(turn, "received_ns"), of(parent, "last_token_ns") + think * 1e9 - 20e6) << turn;
    EXPECT_GE(of(turn, "cached_tokens"), parent == 0 ? 304 : 464) << "the prompt before it, in whole blocks";
  }
  const auto refused = load(replica, {"--trace", WEIR_TEST_DATA "/traces/conv.csv", "--turns"});
  EXPECT_EQ(refused.exit.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("it needs chat_id and parent_chat_id"));
}

/// Returns what usage says of cached tokens, or nothing.
std::optional<double> cached_tokens(const SimulatedReplica& replica, const std::string& members) {
  HttpClient client(replica.port());
  std::string text;
  for (int i = 0; i < 100; ++i) text += "river ";
  const Response response =
      client.exchange(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + text +
                                                       R"("}],"max_tokens":2)" + members + "}"));
  EXPECT_EQ(response.status, 200u) << response.body;
  const auto usage = json::parse(response.body).at("usage").as_object();
  const auto* const details = usage.if_contains("prompt_tokens_details");
  return details ? std::optional(details->at("cached_tokens").to_number<double>()) : std::nullopt;
}

TEST(LabSim, FindsWhatItHadUntilItIsFlushedAndUnderTheSameSalt) {
  for (const std::string how : {"blocks", "slots"}) {
    const SimulatedReplica replica({"--speed", "20", "--prefix-cache", how, "--max-batch", "4"});
    EXPECT_EQ(cached_tokens(replica, ""), 0);
    EXPECT_EQ(cached_tokens(replica, ""), 96) << "110 tokens, of which the last is computed";
    EXPECT_EQ(cached_tokens(replica, R"(,"cache_salt":"a")"), 0);
    EXPECT_EQ(cached_tokens(replica, R"(,"cache_salt":"a")"), 96);
    for (const char* const path : {"/reset_prefix_cache", "/flush_cache"}) {
      HttpClient client(replica.port());
      EXPECT_EQ(client.exchange(post(path, "")).status, 200u);
      EXPECT_EQ(cached_tokens(replica, ""), 0) << path;
      EXPECT_EQ(cached_tokens(replica, ""), 96) << path;
    }
  }
}

TEST(LabSim, SaysOfItsCacheWhatItIsToldToSay) {
  struct Row {
    const char* report;
    std::optional<double> cold, warm;
  };
  const Row table[]{{"exact", 0, 96}, {"none", {}, {}}, {"half", 0, 48}, {"coarse", 0, 64}, {"nonzero", {}, 96}};
  for (const auto& [report, cold, warm] : table) {
    const SimulatedReplica replica({"--speed", "20", "--prefix-cache", "blocks", "--cached-tokens", report});
    EXPECT_EQ(cached_tokens(replica, ""), cold) << report;
    EXPECT_EQ(cached_tokens(replica, ""), warm) << report;
    EXPECT_EQ(number(lines_of(replica, 2).at(1), "cached_tokens"), 96);
  }
}

TEST(LabLoad, AnEngineThatDoesNotKnowIgnoreEosIsTold) {
  const ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n");
    exchange.close();
  });
  const std::string told = "had fewer tokens than asked for, although ignore_eos was sent";
  for (const auto& how :
       std::vector<std::vector<std::string>>{{"--requests", "2"}, {"--concurrency", "1", "--runs", "1"}}) {
    std::vector<std::string> words{"load", "--url", replica.url(), "--usage", "--output-tokens", "5"};
    words.insert(words.end(), how.begin(), how.end());
    EXPECT_THAT(run_lab(words).output, Not(HasSubstr(told)));
    words.push_back("--ignore-eos");
    EXPECT_THAT(run_lab(words).output, HasSubstr("2 of 2 answers " + told)) << how[0];
  }
  const TemporaryDirectory folder;
  const auto file = folder.path() / "cards.toml";
  write_file(
      file, "repeat = 1\n[prompts]\ncount = 2\noutput_tokens = 5\nignore_eos = true\n[[run]]\nlabel = \"a\"\nurl = \"" +
                replica.url() + "\"\nconcurrency = [1, 2]\n");
  const auto said = run_lab({"experiment", file}).output;
  for (const auto* const row : {"warning: a, 1 at once: 2 of 2 answers ", "warning: a, 2 at once: 2 of 2 answers "}) {
    EXPECT_THAT(said, HasSubstr(row + told));
  }
}

TEST(LabLoad, AKeyGoesOutAndIntoNoReport) {
  const ScriptedReplica replica([](Exchange& exchange) {
    exchange.send("HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
  });
  const TemporaryDirectory folder;
  const auto key = folder.path() / "key", json = folder.path() / "json", log = folder.path() / "log";
  write_file(key, "planted-key\n");
  const auto done =
      run_lab({"load", "--url", replica.url(), "--requests", "1", "--api-key-file", key, "--json", json, "--log", log});
  EXPECT_EQ(replica.only_request().head.field("authorization"), "Bearer planted-key");
  for (const auto& text : {done.output, read_file(json), read_file(log)}) EXPECT_THAT(text, Not(HasSubstr("planted")));
}

}  // namespace
}  // namespace weir::integration
