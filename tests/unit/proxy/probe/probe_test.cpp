// A probe gives advice only where it applies, and its report has two forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <functional>
#include <variant>

#include "config/address.hpp"
#include "proxy/probe/probe.hpp"

namespace weir::proxy::probe {
namespace {

using fleet::Engine;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ProbedStream good_stream() {
  ProbedStream stream;
  stream.api = metrics::Api::openai_chat;
  stream.figures.ttfb = 0.040;
  stream.figures.ttft = 0.041;
  stream.figures.tpot = 0.018;
  stream.prompt_tokens = 114;
  stream.cached_tokens = 96;
  stream.output_tokens = 16;
  stream.token_events = 16;
  stream.token_source = metrics::TokenSource::usage;
  stream.tokens_per_event = metrics::TokensPerEvent::settled;
  return stream;
}

/// A vLLM without problems, and settings that agree with it.
struct Case {
  config::Settings settings;
  config::Pool pool;
  config::Replica replica;
  ProbeReport report;

  Case() {
    pool.name = "chat";
    replica.name = "gpu0";
    replica.url = {"127.0.0.1", 8001, "/engine", "127.0.0.1:8001"};
    report.reachable = true;
    report.facts.engine = Engine::vllm;
    report.facts.version = "0.10.2";
    report.facts.models = {"qwen2.5-7b"};
    report.facts.metrics = true;
    report.first = report.again = good_stream();
    report.continuous_usage = true;
  }
  Probed probed() const { return {settings, pool, replica, report}; }
  std::vector<std::string> advice() const { return probe::advice(probed()); }
};

TEST(ProbeAdvice, IsGivenOnlyWhereItApplies) {
  const auto no_cached = [](Case& c) { c.report.first->cached_tokens.reset(), c.report.again->cached_tokens.reset(); };
  const auto no_metrics = [](Case& c, Engine engine) {
    c.report.facts.metrics = false;
    c.report.facts.engine = engine;
  };
  const auto sizes = [](Case& c, std::optional<std::uint64_t> kv_tokens, std::optional<std::uint64_t> max_context) {
    c.report.facts.kv_tokens = 123456;
    c.report.facts.max_context = 8192;
    c.replica.kv_tokens = kv_tokens;
    c.replica.max_context = max_context;
  };
  const auto slots = [](Case& c, std::optional<std::uint32_t> max_in_flight) {
    c.report.facts.slots = 4;
    c.replica.max_in_flight = max_in_flight;
  };
  const struct {
    const char* what;
    std::function<void(Case&)> change;
    std::vector<std::string> advice;  ///< The beginning of each.
  } rows[]{
      {"all is well", [](Case&) {}, {}},
      {"no usage",
       [](Case& c) { c.report.first->token_source = metrics::TokenSource::none; },
       {"usage is not reported on streams: token counts and TPOT stay unknown"}},
      {"cached tokens in the second answer", [](Case& c) { c.report.first->cached_tokens.reset(); }, {}},
      {"no cached tokens",
       [&](Case& c) { no_cached(c); },
       {"start vLLM with --enable-prompt-tokens-details to see cached tokens"}},
      {"no cached tokens to be seen", [&](Case& c) { no_cached(c), c.report.facts.prefix_caching = false; }, {}},
      {"no cached tokens of SGLang",
       [&](Case& c) { no_cached(c), c.report.facts.engine = Engine::sglang; },
       {"start SGLang with --enable-cache-report to see cached tokens"}},
      {"no cached tokens of TGI, which has no such option",
       [&](Case& c) { no_cached(c), c.report.facts.engine = Engine::tgi; },
       {}},
      {"no metrics of vLLM", [&](Case& c) { no_metrics(c, Engine::vllm); }, {}},
      {"no metrics of llama.cpp",
       [&](Case& c) { no_metrics(c, Engine::llama_cpp); },
       {"start llama.cpp with --metrics to see its own load"}},
      {"no metrics of SGLang", [&](Case& c) { no_metrics(c, Engine::sglang); }, {"start SGLang with --enable-metrics"}},
      {"sizes that weir reads by itself", [&](Case& c) { sizes(c, {}, {}); }, {}},
      {"sizes as they are set", [&](Case& c) { sizes(c, 123456, 8192); }, {}},
      {"sizes against the settings",
       [&](Case& c) { sizes(c, 99, 4096); },
       {"kv_tokens is 99 in the settings, the replica says 123456",
        "max_context is 4096 in the settings, the replica says 8192"}},
      {"slots", [&](Case& c) { slots(c, {}); }, {"max_in_flight = 4"}},
      {"fewer slots than are used",
       [&](Case& c) { slots(c, 8); },
       {"max_in_flight is 8 in the settings, the replica says 4"}},
      {"more slots than are used", [&](Case& c) { slots(c, 2); }, {}},
      {"its model", [](Case& c) { c.pool.models = {"qwen2.5-7b"}; }, {}},
      {"a model that it does not serve",
       [](Case& c) { c.pool.models = {"qwen2.5-7b", "llama"}; },
       {"settings say models = [\"qwen2.5-7b\", \"llama\"], the replica serves [\"qwen2.5-7b\"]"}},
      {"unknown models, which are no contradiction",
       [](Case& c) { c.pool.models = {"llama"}, c.report.facts.models.clear(); },
       {}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Case c;
    row.change(c);
    const auto advice = c.advice();
    ASSERT_EQ(advice.size(), row.advice.size()) << (advice.empty() ? "" : advice.front());
    for (std::size_t i = 0; i < advice.size(); ++i) EXPECT_THAT(advice[i], StartsWith(row.advice[i]));
  }
}

TEST(ProbeAdvice, OfContinuousUsageIsGivenOnlyWhereItWouldTellWhatIsUnknown) {
  Case c;
  c.report.first->tokens_per_event = metrics::TokensPerEvent::unknown;
  EXPECT_THAT(c.advice(), Contains(StartsWith("inject_continuous_usage = true")));
  c.settings.measure.inject_continuous_usage = true;
  EXPECT_THAT(c.advice(), IsEmpty());
  c.report.continuous_usage = false;
  EXPECT_THAT(c.advice(), Contains(StartsWith("inject_continuous_usage is on, but")));
}

TEST(ProbeReport, AHeadIsBeforeTheFirstTokenOnlyIfClearlySo) {
  const struct {
    std::optional<double> ttfb, ttft;
    bool before;
  } cases[]{{0.001, 0.050, true},   {0.049, 0.050, false},      {0.030, 0.050, false},
            {0.0001, 0.001, false}, {std::nullopt, 0.1, false}, {0.001, std::nullopt, false}};
  for (const auto& [ttfb, ttft, before] : cases) {
    auto stream = good_stream();
    stream.figures.ttfb = ttfb;
    stream.figures.ttft = ttft;
    EXPECT_EQ(head_before_first_token(stream), before) << ttfb.value_or(-1) << ' ' << ttft.value_or(-1);
  }
}

TEST(ProbeReport, TheTextHasTheFiguresOfAStreamAndNoEscapesUnlessAsked) {
  const auto text = text_of(Case().probed(), false);
  EXPECT_THAT(text, StartsWith("gpu0  http://127.0.0.1:8001/engine  vLLM 0.10.2  fine\n"));
  EXPECT_THAT(text, HasSubstr("openai.chat: TTFT 41.0 ms, TPOT 18.0 ms, 16 tokens in 16 events (k: settled)"));
  EXPECT_THAT(text, HasSubstr("96 of 114 prompt tokens cached"));
  EXPECT_THAT(text, HasSubstr("KV cache unknown, max context unknown"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text_of(Case().probed(), true), HasSubstr("\x1b["));
}

TEST(ProbeReport, WhatAReplicaCallsItselfCannotWriteToTheTerminal) {
  Case c;
  c.report.facts.version = "1\x1b[2J";
  c.report.facts.models = {"m\r\n"};
  EXPECT_THAT(text_of(c.probed(), false), AllOf(HasSubstr("vLLM 1?[2J"), HasSubstr("[\"m??\"]")));
}

TEST(ProbeReport, AReplicaThatWasNotReachedIsOneLineAndItsJsonHasTheSameMembers) {
  Case c, down;
  down.report = {};
  down.report.failure = "cannot connect: Connection refused";
  EXPECT_EQ(text_of(down.probed(), false),
            "gpu0  http://127.0.0.1:8001/engine  FAILED: cannot connect: Connection refused\n");
  const auto fine = boost::json::parse(json_of(c.probed())).as_object();
  const auto failed = boost::json::parse(json_of(down.probed())).as_object();
  ASSERT_EQ(fine.size(), failed.size());
  for (const auto& [key, value] : fine) EXPECT_TRUE(failed.contains(key)) << key;
  EXPECT_EQ(failed.at("failure"), "cannot connect: Connection refused");
  EXPECT_TRUE(failed.at("stream").is_null());
  EXPECT_TRUE(failed.at("usage_on_streams").is_null());
  EXPECT_EQ(fine.at("fine"), true);
  EXPECT_EQ(fine.at("stream").as_object().at("k_source"), "settled");
  EXPECT_EQ(fine.at("again").as_object().at("cached_tokens"), 96);
  EXPECT_DOUBLE_EQ(fine.at("stream").as_object().at("ttft_s").as_double(), 0.041);
}

TEST(ProbeReport, HasTheUrlAsItIsSet) {
  for (const std::string url : {"http://10.0.0.1:8001/engine", "https://gpu0.example:8443", "unix:/run/vllm.sock"}) {
    Case c;
    c.replica.url = std::get<config::ReplicaUrl>(config::parse_replica_url(url));
    EXPECT_THAT(text_of(c.probed(), false), StartsWith("gpu0  " + url + "  vLLM"));
    EXPECT_EQ(boost::json::parse(json_of(c.probed())).at("url").as_string(), url);
  }
}

TEST(ProbeBody, EachDialectIsAskedInItsOwnWords) {
  const auto parsed = [](metrics::Api api, UsageQuestion usage) {
    return boost::json::parse(probe_body(api, "m \"1\"", usage)).as_object();
  };
  const auto chat = parsed(metrics::Api::openai_chat, UsageQuestion::at_end);
  EXPECT_EQ(chat.at("model"), "m \"1\"");
  EXPECT_EQ(chat.at("stream"), true);
  EXPECT_EQ(chat.at("max_tokens"), 16);
  EXPECT_EQ(chat.at("messages").as_array().at(0).as_object().at("role"), "user");
  EXPECT_EQ(chat.at("stream_options"), boost::json::parse(R"({"include_usage":true})"));
  const auto completions = parsed(metrics::Api::openai_completions, UsageQuestion::on_every_chunk);
  EXPECT_TRUE(completions.at("prompt").is_string());
  EXPECT_EQ(completions.at("stream_options"),
            boost::json::parse(R"({"include_usage":true,"continuous_usage_stats":true})"));
  EXPECT_FALSE(parsed(metrics::Api::openai_chat, UsageQuestion::none).contains("stream_options"));
  const auto tgi = parsed(metrics::Api::tgi_generate, UsageQuestion::none);
  EXPECT_EQ(tgi.at("parameters").as_object().at("max_new_tokens"), 16);
  EXPECT_EQ(tgi.at("parameters").as_object().at("details"), true);
  const auto llama = parsed(metrics::Api::llamacpp_completion, UsageQuestion::none);
  EXPECT_EQ(llama.at("n_predict"), 16);
  EXPECT_EQ(llama.at("stream"), true);
  EXPECT_FALSE(
      boost::json::parse(probe_body(metrics::Api::openai_chat, "", UsageQuestion::none)).as_object().contains("model"));
}

}  // namespace
}  // namespace weir::proxy::probe
