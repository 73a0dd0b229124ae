// `weir check --probe` meets replicas that behave in every way. The tests look at what it says and asks, how long it
// waits, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto models =
    R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":8192}]})";

/// Runs `weir check` on a pool of replicas r0, r1, ... at these URLs.
Finished check(const std::vector<std::string>& urls, std::vector<std::string> options) {
  std::string text = "[[pool]]\nname = \"chat\"\n";
  for (std::size_t i = 0; i < urls.size(); ++i)
    text += "[[pool.replica]]\nname = \"r" + std::to_string(i) + "\"\nurl = \"" + urls[i] + "\"\n";
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weir.toml";
  write_file(file, text);
  options.insert(options.begin(), {"check", "--config", file.string()});
  return run_weir(std::move(options));
}

struct Probed {
  int exit = -1;
  std::vector<boost::json::object> replicas;
};

Probed probe(const std::vector<std::string>& urls, const std::string& timeout = "10") {
  const auto done = check(urls, {"--probe", "--json", "--timeout", timeout});
  Probed probed{done.exit.code, json_lines(done.output)};
  EXPECT_EQ(probed.replicas.size(), urls.size()) << done.output;
  probed.replicas.resize(urls.size());
  return probed;
}

std::vector<std::string> advice(const boost::json::object& replica) {
  return boost::json::value_to<std::vector<std::string>>(replica.at("advice"));
}

/// Makes a replica that streams on this path. Elsewhere it answers as a vLLM that is asked for its models.
ScriptedReplica::Handler streaming(const std::string& route, StreamScript script) {
  return [route, script](Exchange& exchange) {
    const auto& target = exchange.request().target;
    if (target == "/v1/models") return exchange.send(answer("200 OK", models));
    if (target == "/version") return exchange.send(answer("200 OK", R"({"version":"0.10.2"})"));
    if (target == route) return play(exchange, script);
    exchange.send(answer("404 Not Found", R"({"detail":"Not Found"})"));
  };
}

TEST(Probe, ASimulatedReplicaIsMeasuredAndCalledSo) {
  // A prompt is read so slowly that the head and the first token do not come in one read, however late that is.
  const SimulatedReplica sim({"--prefill-us", "10000"});
  const auto [exit, replicas] = probe({sim.url()});
  EXPECT_EQ(exit, 0);
  const auto& seen = replicas.front();
  EXPECT_EQ(member(seen, "engine"), "weir-lab sim");
  EXPECT_EQ(member(seen, "models"), R"(["sim-7b"])");
  EXPECT_EQ(member(seen, "usage_on_streams"), "true");
  EXPECT_EQ(member(seen, "continuous_usage"), "true");
  EXPECT_EQ(member(seen, "head_before_first_token"), "true");
  const auto& stream = seen.at("stream").as_object();
  EXPECT_EQ(member(stream, "api"), "openai.chat");
  EXPECT_EQ(member(stream, "output_tokens"), "16");
  EXPECT_EQ(member(stream, "k_source"), "settled");
  // The simulated engine steps in about 18 ms.
  EXPECT_GT(stream.at("tpot_s").to_number<double>(), 0.010);
  EXPECT_LT(stream.at("ttfb_s").to_number<double>(), stream.at("ttft_s").to_number<double>());
}

TEST(Probe, TheTextNamesEveryReplicaInTheOrderOfTheFileAndOneThatIsDownEndsItWith1) {
  const ScriptedReplica up(streaming("/v1/chat/completions", vllm_chat(16)));
  const std::string down = url_of(free_port());
  const auto done = check({down, up.url()}, {"--probe"});
  EXPECT_EQ(done.exit.code, 1);
  const auto first = done.output.find("r0  " + down), second = done.output.find("r1  " + up.url());
  ASSERT_NE(first, std::string::npos) << done.output;
  ASSERT_NE(second, std::string::npos) << done.output;
  EXPECT_LT(first, second);
  EXPECT_THAT(done.output, HasSubstr("FAILED: cannot connect: Connection refused"));
  EXPECT_THAT(done.output, HasSubstr("vLLM 0.10.2  fine"));
  EXPECT_THAT(done.output, HasSubstr("1 of 2 replicas could be measured"));
  EXPECT_THAT(done.output, Not(HasSubstr("\x1b"))) << "no colours and no progress where no terminal is";
}

TEST(Probe, WhatWeirWouldMeasureIsMeasured) {
  auto script = vllm_chat(16, 114);
  const ScriptedReplica replica(streaming("/v1/chat/completions", script));
  const auto [exit, replicas] = probe({replica.url()});
  EXPECT_EQ(exit, 0);
  const auto& stream = replicas.front().at("stream").as_object();
  EXPECT_EQ(member(stream, "token_events"), std::to_string(script.token_events));
  EXPECT_EQ(member(stream, "output_tokens"), "16");
  EXPECT_EQ(member(stream, "prompt_tokens"), "114");
  EXPECT_EQ(member(stream, "tokens_source"), "usage");
  EXPECT_EQ(member(replicas.front(), "continuous_usage"), "false");
  EXPECT_THAT(advice(replicas.front()), Contains(HasSubstr("--enable-prompt-tokens-details")));
  EXPECT_THAT(advice(replicas.front()), Not(Contains(HasSubstr("max_context")))) << "weir reads it by itself";
}

TEST(Probe, NoCredentialAndNothingButTheModelThatIsServedIsSent) {
  const ScriptedReplica replica(streaming("/v1/chat/completions", vllm_chat(4)));
  probe({replica.url()});
  std::size_t posts = 0;
  for (const auto& request : replica.requests()) {
    EXPECT_FALSE(request.head.has("authorization"));
    if (request.method != "POST") continue;
    ++posts;
    const auto body = boost::json::parse(request.body).as_object();
    EXPECT_EQ(member(body, "model"), "m");
    EXPECT_EQ(member(body, "max_tokens"), "16");
    EXPECT_TRUE(asks_for_usage(request));
  }
  EXPECT_EQ(posts, 3u);
}

TEST(Probe, AReplicaThatReportsNoUsageIsFineAndAdviceSaysWhatIsLost) {
  auto script = vllm_chat(16);
  script.usage.clear();
  const ScriptedReplica replica(streaming("/v1/chat/completions", script));
  const auto [exit, replicas] = probe({replica.url()});
  EXPECT_EQ(exit, 0);
  EXPECT_EQ(member(replicas.front(), "usage_on_streams"), "false");
  EXPECT_THAT(advice(replicas.front()), Contains(HasSubstr("usage is not reported on streams")));
}

TEST(Probe, AReplicaThatRefusesTheQuestionForUsageIsMeasuredWithoutIt) {
  const auto script = vllm_chat(16);
  const ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().target != "/v1/chat/completions") return exchange.send(answer("404 Not Found", "{}"));
    if (asks_for_usage(exchange.request()))
      return exchange.send(answer("422 Unprocessable Entity", R"({"detail":"extra fields not permitted"})"));
    play(exchange, script);
  });
  const auto [exit, replicas] = probe({replica.url()});
  EXPECT_EQ(exit, 0);
  EXPECT_EQ(member(replicas.front(), "engine"), "unknown");
}

TEST(Probe, WhereThereIsNoChatTheNextRouteIsTaken) {
  const ScriptedReplica completions(streaming("/v1/completions", vllm_completions(8)));
  const ScriptedReplica tgi(streaming("/generate_stream", tgi_stream(8)));
  const auto [exit, replicas] = probe({completions.url(), tgi.url()});
  EXPECT_EQ(exit, 0);
  EXPECT_EQ(member(replicas[0].at("stream").as_object(), "api"), "openai.completions");
  EXPECT_EQ(member(replicas[1].at("stream").as_object(), "api"), "tgi.generate");
  EXPECT_EQ(member(replicas[1].at("stream").as_object(), "tokens_source"), "usage");
}

TEST(Probe, TheReplicasPrefixIsPutBeforeEveryPath) {
  const ScriptedReplica replica(streaming("/nothing", {}));
  probe({replica.url() + "/engine"});
  std::vector<std::string> targets;
  for (const auto& request : replica.requests()) targets.push_back(request.target);
  EXPECT_THAT(targets, Each(::testing::StartsWith("/engine/")));
  EXPECT_THAT(targets, Contains("/engine/v1/chat/completions"));
}

TEST(Probe, AnswersThatAreNoStreamAreFailuresWithTheirReason) {
  const struct {
    std::string bytes, failure;
    bool hangs = false;
  } cases[]{
      {answer("404 Not Found", "nothing here"), "it has none of the routes that stream tokens"},
      {"", "no answer within 0.5 s", true},
      {sse_head() + chunk(vllm_chat(16).events.at(1)), "no answer within 0.5 s", true},
      {sse_head() + chunk(vllm_error) + chunk("data: [DONE]\n\n") + std::string(last_chunk),
       "it answers with status 200 and then with an error in the stream"},
      {answer("200 OK", vllm_whole_chat(4)),
       "it answers with \"application/json\" where an event stream was asked for"},
      {answer("503 Service Unavailable", R"({"error":{"message":"Loading model","code":503}})"),
       "status 503 (Loading model)"},
      {answer("401 Unauthorized", R"({"error":"Unauthorized"})"),
       "status 401 (Unauthorized): name its key in api_key or api_key_file"},
      {answer("400 Bad Request", R"({"error":{"message":"no chat template"}})"),
       "it refuses /v1/chat/completions: status 400 (no chat template)"},
      {sse_head() + chunk(vllm_chat(16).events.at(1)) + std::string(last_chunk), "its stream ends too early"},
      {sse_head() + chunk("data: [DONE]\n\n") + std::string(last_chunk), "its stream brings no token"},
      {"nonsense\r\n\r\n", "it does not answer in HTTP/1.1"},
  };
  for (const auto& [bytes, failure, hangs] : cases) {
    const ScriptedReplica replica([&, hangs = hangs](Exchange& exchange) {
      exchange.send(exchange.request().method == "GET" ? answer("404 Not Found", "{}") : bytes);
      if (hangs && exchange.request().method == "POST") exchange.wait_for_close();
      exchange.close();
    });
    const auto begin = Clock::now();
    const auto [exit, replicas] = probe({replica.url()}, hangs ? "0.5" : "10");
    EXPECT_EQ(exit, 1);
    EXPECT_EQ(member(replicas.front(), "failure"), failure);
    EXPECT_EQ(member(replicas.front(), "reachable"), "true") << failure;
    EXPECT_TRUE(!hangs || Clock::now() - begin >= std::chrono::milliseconds(500)) << failure;
  }
}

TEST(Probe, AStreamWithItsEndMarkerIsWholeThoughItsConnectionBreaks) {
  const ScriptedReplica replica([](Exchange& exchange) {
    if (exchange.request().method == "GET") return exchange.send(answer("404 Not Found", "{}"));
    exchange.send(sse_head() + chunk(vllm_chat(16).body(true)));
    exchange.close();
  });
  EXPECT_EQ(probe({replica.url()}).exit, 0);
}

TEST(Probe, AReplicaThatWantsAKeyIsMeasuredWithItAndItIsNotSaid) {
  const auto script = vllm_chat(16);
  const ScriptedReplica replica([&](Exchange& exchange) {
    const auto key = exchange.request().head.field("authorization").value_or("");
    // LiteLLM repeats what it refuses.
    // The text is so long that the key stands where the report cuts it.
    const auto refusal = "{\"error\":{\"message\":\"no access with " + key + std::string(145, '.') + key + "\"}}";
    if (key != "Bearer sk-right-5ecret") return exchange.send(answer("401 Unauthorized", refusal));
    streaming("/v1/chat/completions", script)(exchange);
  });
  const auto probe_with = [&](const std::string& key_line, const std::string& option) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "weir.toml";
    write_file(file, "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"r0\"\nurl = \"" + replica.url() + "\"\n" +
                         key_line + "\n");
    std::vector<std::string> words{"check", "--config", file.string(), "--probe"};
    if (!option.empty()) words.push_back(option);
    return run_weir(std::move(words));
  };
  for (const std::string option : {"", "--json"}) {
    const auto right = probe_with("api_key = \"sk-right-5ecret\"", option);
    EXPECT_EQ(right.exit.code, 0) << right.output;
    EXPECT_THAT(right.output, AllOf(HasSubstr("\"m\""), Not(HasSubstr("5ecret"))));
    const auto wrong = probe_with("api_key = \"sk-wrong-5ecret\"", option);
    EXPECT_EQ(wrong.exit.code, 1);
    EXPECT_THAT(wrong.output,
                AllOf(HasSubstr("no access with Bearer ***"), Not(HasSubstr("sk-wrong")), Not(HasSubstr("5ecret"))));
    const auto none = probe_with("", option);
    EXPECT_EQ(none.exit.code, 1);
    EXPECT_THAT(none.output, HasSubstr("name its key in api_key or api_key_file"));
  }
}

TEST(Probe, AHostThatCannotBeLookedUpIsNamed) {
  const auto [exit, replicas] = probe({"http://no-such-host.invalid:8000"});
  EXPECT_EQ(exit, 1);
  EXPECT_THAT(member(replicas.front(), "failure"), HasSubstr("cannot look up no-such-host.invalid"));
}

TEST(Probe, ItsOptionsNeedItAndItAsksNobodyWithoutIt) {
  const ScriptedReplica replica(always(answer("404 Not Found", "{}")));
  EXPECT_EQ(check({replica.url()}, {"--json"}).exit.code, 2);
  EXPECT_EQ(check({replica.url()}, {"--timeout", "3"}).exit.code, 2);
  EXPECT_EQ(check({replica.url()}, {"--probe", "--timeout", "0"}).exit.code, 2);
  EXPECT_EQ(check({replica.url()}, {}).exit.code, 0);
  EXPECT_EQ(replica.connections(), 0u);
  EXPECT_EQ(check({"ftp://x"}, {"--probe"}).exit.code, 2);
}

}  // namespace
}  // namespace weir::integration
