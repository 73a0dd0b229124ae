// The figures that weir reads of the engines themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

std::string page(const std::string& text) { return answer("200 OK", text, "text/plain; version=0.0.4"); }
std::string json_answer(const std::string& text) { return answer("200 OK", text); }

std::string vllm_page(int running, int waiting, int made, const std::string& more = "") {
  return page("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} " +
              std::to_string(running) + "\nvllm:num_requests_waiting{engine=\"0\"} " + std::to_string(waiting) +
              "\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:prefix_cache_queries_total 400\n"
              "vllm:prefix_cache_hits_total 100\nvllm:generation_tokens_total " +
              std::to_string(made) + "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n" + more);
}

class EngineFigures : public testing::Test {
 protected:
  EngineFigures() : replica([this](Exchange& exchange) { handle(exchange); }) {
    replica.has_page("/v1/models",
                     json_answer(R"({"data":[{"id":"m\u0007\"x","owned_by":"vllm","max_model_len":4096}]})"));
    replica.has_page("/version", json_answer(R"({"version":"0.10.2"})"));
    replica.has_page("/metrics", vllm_page(3, 1, 10));
  }

  void handle(Exchange& exchange) {
    if (exchange.request().target == "/livez") {
      ++probes_failed;  // It gets no answer.
      return;
    }
    if (exchange.request().target == "/flush_cache") return exchange.send(answer(flushes ? "200 OK" : "400 Busy", ""));
    play(exchange, vllm_chat(3, 1500));
  }
  /// Has the replica compute a prompt. Returns when weir believes that the replica holds it.
  static void serve_a_prompt(const WeirUnderTest& weir) {
    std::string prompt;
    for (int i = 0; i < 1000; ++i) prompt += "river ";
    EXPECT_EQ(fetch(weir.port(), post(chat, chat_body(prompt))).status, 200u);
    weir.metrics_when("the prompt to be held", [](const auto& now) { return now.sum("weir_prefix_held_tokens") > 0; });
  }
  static void is_wiped(const WeirUnderTest& weir, const std::string& why) {
    const auto now = weir.metrics_when("the replica to hold nothing", [](const MetricsPage& page) {
      return page.sum("weir_prefix_held_tokens") == 0;
    });
    for (const auto* reason : {"missed", "down", "restarted", "flushed", "asleep"})
      EXPECT_EQ(now.sum("weir_prefix_wipes_total", {{"reason", reason}}), reason == why ? 1 : 0) << reason;
  }

  WeirSettings settings() {
    auto settings = pool_of({&replica});
    settings.health = {{"interval", "\"50ms\""}};
    return settings;
  }
  static MetricsPage with_figures(const WeirUnderTest& weir) {
    return weir.metrics_when("the engine's figures", [](const MetricsPage& now) {
      return now.has("weir_engine_requests") && now.has("weir_replica_info", {{"version", "0.10.2"}});
    });
  }

  std::atomic<int> probes_failed{0};
  std::atomic<bool> flushes{true};
  ScriptedReplica replica;
};

TEST_F(EngineFigures, AnEngineThatComesBackWithAnotherModelIsWarnedOf) {
  const auto engine = [](std::uint16_t port, const std::string& model) {
    auto started = std::make_unique<ScriptedReplica>([](Exchange& exchange) { play(exchange, vllm_chat(3)); },
                                                     ScriptedReplica::ModelsQuestion::answered_unseen, port);
    started->has_page("/v1/models", json_answer(R"({"data":[{"id":")" + model + R"(","owned_by":"vllm"}]})"));
    started->has_page("/metrics", vllm_page(3, 1, 10));
    return started;
  };
  auto first = engine(0, "good");
  const auto port = first->port();
  auto one = pool_of({first.get()});
  one.engine = settings().engine;
  one.health = settings().health;
  const WeirUnderTest weir(one);
  weir.wait_until_said("replica 'r0' is vLLM, model 'good'");
  first.reset();
  weir.wait_until_said("replica 'r0' is down");
  const auto second = engine(port, "other");
  weir.wait_until_said("replica 'r0' served model 'good' before, and now serves 'other'");
}

TEST_F(EngineFigures, AreOnWeirsPageAndInTheListOfReplicas) {
  const auto admin = free_port();
  WeirUnderTest weir(with_admin(settings(), admin));
  const auto now = with_figures(weir);
  EXPECT_EQ(now.sum("weir_replica_info", {{"engine", "vLLM"}, {"version", "0.10.2"}, {"model", "m?\"x"}}), 1);
  EXPECT_EQ(now.sum("weir_engine_requests", {{"state", "running"}}), 3);
  EXPECT_EQ(now.sum("weir_engine_requests", {{"state", "waiting"}}), 1);
  EXPECT_EQ(now.sum("weir_engine_kv_usage_ratio"), 0.25);
  EXPECT_EQ(now.sum("weir_kv_tokens"), 1600);
  EXPECT_EQ(now.sum("weir_engine_prefix_cache_queries_total"), 400);
  EXPECT_EQ(now.sum("weir_engine_prefix_cache_hits_total"), 100);
  EXPECT_EQ(now.sum("weir_ledger_divergence_requests"), 4) << "all of them are others'";
  EXPECT_GT(now.sum("weir_engine_scrape_duration_seconds"), 0);
  weir.wait_until_said("replica 'r0' is vLLM 0.10.2, model 'm?\"x', KV cache of 1600 tokens, context of 4096");
  const auto shown = boost::json::parse(get_admin(admin, "/api/live").body).at("replicas").at("r0").as_object();
  EXPECT_EQ(member(shown, "address"), at_loopback(replica.port()));
  const auto engine = shown.at("engine").as_object();
  for (const auto& [name, value] : {std::pair{"name", "vLLM"},
                                    {"version", "0.10.2"},
                                    {"model", "m?\"x"},
                                    {"max_context", "4096"}})
    EXPECT_EQ(member(engine, name), value) << name;
  for (const auto& [name, value] : {std::pair{"running", 3.0}, {"waiting", 1.0}})
    EXPECT_EQ(engine.at(name).to_number<double>(), value) << name;
  for (const auto& [name, value] : {std::pair{"usage", 0.25}, {"tokens", 1600.0}})
    EXPECT_EQ(shown.at("kv").at(name).to_number<double>(), value) << name;
}

TEST_F(EngineFigures, NothingIsAskedWhereThePathIsEmpty) {
  auto off = settings();
  off.engine = {{"metrics_path", "\"\""}};
  WeirUnderTest weir(off);
  replica.wait_for_probes(10);
  EXPECT_EQ(replica.asked_for("/metrics"), 0u);
  EXPECT_EQ(replica.asked_for("/version"), 0u);
}

TEST_F(EngineFigures, WhyAPageFailsIsSaidOnce) {
  const struct {
    std::string page, timeout, said;
    std::chrono::milliseconds takes{0};
  } rows[]{
      {page(std::string(2 * 1024 * 1024, '#')), "5", "its answer is too long"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n#", "5", "its answer breaks off"},
      {answer("503 Service Unavailable", ""), "5", "it answers 503"},
      {vllm_page(3, 1, 10), "0.2", "it did not come within 0.2 s", std::chrono::milliseconds(500)},
  };
  for (const auto& row : rows) {
    replica.has_page("/metrics", row.page);
    replica.answers_pages_after(row.takes);
    auto failing = settings();
    failing.health["timeout"] = row.timeout;
    const auto before = replica.asked_for("/metrics");
    WeirUnderTest weir(failing);
    weir.wait_until_said("replica 'r0' gives no metrics page at /metrics: " + row.said + "; without it the engine's");
    while (replica.asked_for("/metrics") < before + 3) replica.wait_for_probes(replica.probes() + 1);
    EXPECT_FALSE(weir.metrics().has("weir_engine_requests"));
    const auto output = weir.output();
    const bool answers = row.takes.count() == 0;
    EXPECT_EQ(output.find("; set metrics_path") != std::string::npos, answers) << output;
    EXPECT_EQ(output.find("; a busy engine may answer late") == std::string::npos, answers) << output;
    EXPECT_EQ(output.find("gives no metrics page"), output.rfind("gives no metrics page")) << output;
  }
}

TEST_F(EngineFigures, CountersThatMoveAreLifeThoughProbesGetNoAnswer) {
  auto ill = settings();
  // A page that takes 20 ms, as it may on a busy machine, is read every 0.4 s.
  ill.health = {{"interval", "\"300ms\""}, {"timeout", "\"1s\""}, {"path", "\"/livez\""}};
  WeirUnderTest weir(ill);
  int made = 10;
  const auto until = [&](int probes) {
    while (probes_failed < probes) {
      replica.has_page("/metrics", vllm_page(3, 1, made += 10));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  until(5);
  EXPECT_EQ(weir.metrics().sum("weir_replica_state", {{"state", "down"}}), 0);
  weir.metrics_when("the replica to be down once they stand still", [](const MetricsPage& now) {
    return now.sum("weir_replica_state", {{"state", "down"}}) == 1;
  });
  weir.wait_until_said("is down");
}

TEST_F(EngineFigures, AnEngineThatSleepsIsBelievedToHoldNothing) {
  const std::string state = "vllm:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} ";
  replica.has_page("/metrics", vllm_page(3, 1, 10, state + "1.0\n"));
  const WeirUnderTest weir(settings());
  with_figures(weir);
  serve_a_prompt(weir);
  replica.has_page("/metrics", vllm_page(3, 1, 10, state + "0.0\n"));
  is_wiped(weir, "asleep");
}

TEST_F(EngineFigures, AnEngineThatSleepsGetsNothingWhileAnotherIsAwake) {
  replica.has_page("/metrics", vllm_page(3, 1, 10, "vllm:engine_sleep_state{sleep_state=\"awake\"} 0.0\n"));
  const ScriptedReplica awake([](Exchange& exchange) { play(exchange, vllm_chat(3)); });
  auto both = pool_of({&replica, &awake});
  both.health = settings().health;
  const auto admin = free_port();
  WeirUnderTest weir(with_admin(both, admin));
  weir.wait_until_said("replica 'r0' says that it sleeps");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).head.field("x-weir-replica"), "r1");
  const auto shown = boost::json::parse(get_admin(admin, "/api/live").body).at("replicas").at("r0").as_object();
  EXPECT_EQ(member(shown, "reason"), "it says that it sleeps");
  EXPECT_EQ(member(shown, "state"), "up");
}

TEST_F(EngineFigures, CountersThatFallAreARestart) {
  const WeirUnderTest weir(settings());
  with_figures(weir);
  serve_a_prompt(weir);
  replica.has_page("/metrics", vllm_page(3, 1, 9));
  is_wiped(weir, "restarted");
}

TEST_F(EngineFigures, AFlushThroughWeirIsKnownOnceItIsAnsweredWell) {
  auto open = settings();
  open.server = {{"paths", R"(["default", "/flush_cache"])"}};
  const WeirUnderTest weir(open);
  serve_a_prompt(weir);
  flushes = false;
  EXPECT_EQ(fetch(weir.port(), post("/flush_cache", "{}")).status, 400u);
  EXPECT_GT(weir.metrics().sum("weir_prefix_held_tokens"), 0);
  flushes = true;
  EXPECT_EQ(fetch(weir.port(), post("/flush_cache", "{}")).status, 200u);
  is_wiped(weir, "flushed");
}

TEST_F(EngineFigures, AReplicaWithoutAPageIsAskedOnceAndWeirSaysSo) {
  ScriptedReplica plain([](Exchange& exchange) { play(exchange, vllm_chat(3)); });
  auto without = pool_of({&plain});
  without.health = {{"interval", "\"50ms\""}};
  WeirUnderTest weir(without);
  weir.wait_until_said(
      "replica 'r0' has no metrics page at /metrics (it answers 404): weir asks again every 5 minutes");
  plain.wait_for_probes(plain.probes() + 20);
  EXPECT_EQ(plain.asked_for("/metrics"), 1u);
  EXPECT_EQ(plain.asked_for("/version"), 1u);
}

}  // namespace
}  // namespace weir::integration
