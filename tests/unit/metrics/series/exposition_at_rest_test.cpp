// Some series stand on /metrics before anything has happened; others appear with their first use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

using record::streamed;

/// Returns every outcome as weir_requests_total has it.
std::vector<std::string> outcome_labels() {
  std::vector<std::string> labels;
  for (const auto outcome : outcome_names) {
    if (outcome != "client_abort") labels.push_back("outcome=\"" + std::string(outcome) + "\"");
  }
  for (const auto phase : phase_names)
    labels.push_back("outcome=\"client_abort\",phase=\"" + std::string(phase) + "\"");
  return labels;
}

TEST_F(ExpositionTest, HasWhatRatesNeedAtZeroFromTheStart) {
  const Scrape now = scrape();
  for (const auto& outcome : outcome_labels()) EXPECT_EQ(now.gpu0("weir_requests_total", outcome), 0) << outcome;
  for (const std::string name :
       {"weir_prompt_tokens_total", "weir_cached_prompt_tokens_total", "weir_prompt_tokens_cache_known_total",
        "weir_output_tokens_total", "weir_output_tokens_overcounted_total", "weir_aborted_output_tokens_total",
        "weir_resident_tokens", "weir_requests_in_flight", "weir_oldest_unanswered_seconds", "weir_injection_disabled"})
    EXPECT_EQ(now.gpu0(name), 0) << name;
  for (const std::string phase : {"prefill", "decode"})
    EXPECT_EQ(now.gpu0("weir_queued_tokens", "phase=\"" + phase + "\""), 0);
  EXPECT_EQ(now.gpu0("weir_replica_info", R"(gpu="",engine="",version="",model="")"), 1);
  // weir's own series are a handful, and an alert must see their first increment.
  for (const auto limit : limit_names) {
    EXPECT_EQ(now.at("weir_limit_hits_total{limit=\"" + std::string(limit) + "\"}"), 0);
  }
  for (const auto reason : operator_refusal_names)
    EXPECT_EQ(now.at("weir_operator_refusals_total{reason=\"" + std::string(reason) + "\"}"), 0);
  for (const auto reason : denied_names)
    EXPECT_EQ(now.at("weir_denied_requests_total{reason=\"" + std::string(reason) + "\"}"), 0);
  EXPECT_EQ(now.at("weir_dropped_fields_total"), 0);
  for (const auto side : tls_side_names)
    for (const auto result : tls_result_names)
      EXPECT_EQ(now.at("weir_tls_handshakes_total{side=\"" + std::string(side) + "\",result=\"" + std::string(result) +
                       "\"}"),
                0);
  for (const auto part : part_names)
    EXPECT_EQ(now.at("weir_internal_errors_total{part=\"" + std::string(part) + "\"}"), 0);
  EXPECT_EQ(now.at("weir_log_lines_dropped_total"), 0);
  EXPECT_EQ(now.at("weir_bypass"), 0);
}

/// Returns the names of the replicas' series in a scrape, without _bucket, _sum and _count.
std::set<std::string> families_of_replicas(const Scrape& scrape) {
  static const std::regex part("_(bucket|sum|count)$");
  std::set<std::string> names;
  for (const auto& [series, value] : scrape.samples) {
    if (series.find("role=") != std::string::npos)
      names.insert(std::regex_replace(series.substr(0, series.find('{')), part, ""));
  }
  return names;
}

TEST_F(ExpositionTest, HasNothingElseOfAReplicaAtRest) {
  exposition.add({"chat", "", ""});
  const Scrape now = scrape();
  std::istringstream names(
      "aborted_output_tokens_total cached_prompt_tokens_total coalesced_token_reads_total injection_disabled "
      "oldest_unanswered_seconds output_tokens_overcounted_total output_tokens_total prompt_tokens_cache_known_total "
      "prompt_tokens_total queued_tokens replica_info replica_state requests_in_flight requests_total resident_tokens "
      "token_reads_total");
  std::set<std::string> expected;
  for (std::string name; names >> name;) expected.insert("weir_" + name);
  EXPECT_EQ(families_of_replicas(now), expected);
  for (const auto& [series, value] : now.samples) EXPECT_EQ(series.find("replica=\"\""), std::string::npos) << series;
}

TEST_F(ExpositionTest, ASeriesAppearsWithItsFirstUseAndStays) {
  gauges.balancer_fallbacks = {{"unknown_prompt", 0}, {"kv_full", 2}};
  gauges.prefix = PrefixGauges{.tokens = {{"looked_up", 10}, {"best", 0}},
                               .errors = {{"over", 1}},
                               .wipes = {{"missed", 1}},
                               .held = 5,
                               .capacity = 9};
  gauges.busy_seconds = 1.5;
  gauges.in_flight_seconds = {0.5, 0};
  auto& shard = replica.shard(1);
  record::RequestRecord record = streamed();
  record.facts.api = Api::tgi_generate;
  shard.settle(record);
  shard.time_to_first_token.observe(1);
  shard.client_time_to_first_token.observe(1);
  shard.inter_chunk_latency.observe(1);
  shard.ttft_measured_by_predicted.observe(1000);
  shard.token_overhead.observe(1);
  shard.retries.add(Retry::connect);
  shard.unparsed.add(Unparsed::broken_json);
  shard.malformed.add(Malformed::chunks);
  shard.bytes[0].add(10);
  shard.mirrored.add(Mirrored::behind);
  gauges.shadow_active = 0;
  for (auto* counter : {&shard.itl_unknown_requests, &shard.coalesced_token_reads, &shard.itl_suspect_requests,
                        &shard.client_blocked_events, &shard.token_reads})
    counter->add();

  const std::string duration = R"(api="tgi.generate",stream="true")";
  for (int scrapes = 0; scrapes < 2; ++scrapes) {
    const Scrape now = scrape();
    for (const auto& [name, type] : now.types) {
      // No engine here has told anything, no pool has a queue or a rollout, no shadow is on, and nothing is wrong.
      const bool told = name.starts_with("weir_comparison_") || name.starts_with("weir_rollout_") ||
                        name == "weir_finding" || name == "weir_pool_saturation" || name == "weir_kv_tokens" || name == "weir_requests_waiting" || name == "weir_finding" ||
                        name.starts_with("weir_engine_") || name.starts_with("weir_ledger_");
      if (told || !name.starts_with("weir_")) continue;
      const bool there = std::ranges::any_of(
          now.samples, [&, &family = name](const auto& one) { return one.first.starts_with(family); });
      EXPECT_TRUE(there) << name;
    }
    EXPECT_EQ(now.gpu0("weir_shadow_requests_total", R"(result="behind")"), 1);
    EXPECT_EQ(now.gpu0("weir_shadow_active"), 0);
    EXPECT_EQ(now.gpu0("weir_request_duration_seconds_count", duration), 1);
    EXPECT_EQ(now.gpu0("weir_request_duration_seconds_count", R"(api="tgi.generate",stream="false")"), std::nullopt);
    EXPECT_EQ(now.gpu0("weir_api_requests_total", duration + R"(,outcome="ok")"), 1);
    EXPECT_EQ(now.gpu0("weir_api_requests_total", duration + R"(,outcome="timeout")"), std::nullopt);
    EXPECT_EQ(now.gpu0("weir_retries_total", R"(reason="connect")"), 1);
    EXPECT_EQ(now.gpu0("weir_retries_total", R"(reason="reset")"), 0) << "all reasons with the first";
    EXPECT_EQ(now.gpu0("weir_slo_requests_total", R"(slo="interactive",result="good")"), 1);
    EXPECT_EQ(now.gpu0("weir_slo_requests_total", R"(slo="interactive",result="bad")"), 0) << "so that a share is 0";
    EXPECT_EQ(now.gpu0("weir_requests_by_token_source_total", R"(source="none")"), 0);
    EXPECT_EQ(now.gpu0("weir_balancer_fallbacks_total", R"(reason="kv_full")"), 2);
    EXPECT_EQ(now.gpu0("weir_balancer_fallbacks_total", R"(reason="unknown_prompt")"), 0)
        << "all reasons with the first";
    EXPECT_EQ(now.gpu0("weir_prefix_tokens_total", R"(kind="looked_up")"), 10);
    EXPECT_EQ(now.gpu0("weir_prefix_tokens_total", R"(kind="best")"), 0);
    EXPECT_EQ(now.gpu0("weir_prefix_error_tokens_total", R"(direction="over")"), 1);
    EXPECT_EQ(now.gpu0("weir_prefix_wipes_total", R"(reason="missed")"), 1);
    EXPECT_EQ(now.gpu0("weir_prefix_held_tokens"), 5);
    EXPECT_EQ(now.gpu0("weir_prefix_capacity_tokens"), 9);
    EXPECT_EQ(now.gpu0("weir_prefix_believed_ratio"), 1);
    EXPECT_EQ(now.gpu0("weir_in_flight_seconds_total", R"(phase="prefill")"), 0.5);
    EXPECT_EQ(now.gpu0("weir_in_flight_seconds_total", R"(phase="decode")"), std::nullopt);
  }
}

TEST_F(ExpositionTest, RequestsByApiAddUpToTheRequests) {
  std::uint64_t sent = 0;
  for (std::size_t outcome = 0; outcome < outcome_names.size(); ++outcome) {
    for (const auto phase : {Phase::queue, Phase::prefill, Phase::decode}) {
      record::RequestRecord record;
      record.outcome = static_cast<Outcome>(outcome);
      if (record.outcome == Outcome::client_abort) record.phase = phase;
      record.facts.api = phase == Phase::queue ? Api::openai_chat : Api::ollama_chat;
      record.facts.stream = phase == Phase::decode;
      replica.shard(sent++ % 2).settle(record);
    }
  }
  const Scrape now = scrape();
  std::map<std::string, double> sums;
  for (const auto& [series, value] : now.samples) {
    for (const auto* name : {"weir_requests_total", "weir_api_requests_total"}) {
      if (series.starts_with(std::string(name) + "{")) sums[name] += value;
    }
  }
  EXPECT_EQ(sums["weir_requests_total"], sent);
  EXPECT_EQ(sums["weir_api_requests_total"], sent);
  EXPECT_EQ(now.gpu0("weir_requests_total", R"(outcome="ok")"), 3);
  for (const auto phase : phase_names)
    EXPECT_EQ(now.gpu0("weir_requests_total", R"(outcome="client_abort",phase=")" + std::string(phase) + "\""), 1);
  EXPECT_EQ(now.gpu0("weir_api_requests_total", R"(api="openai.chat",stream="false",outcome="client_abort")"), 1);
  EXPECT_EQ(now.gpu0("weir_api_requests_total", R"(api="ollama.chat",stream="true",outcome="client_abort")"), 1);
  EXPECT_EQ(exposition.requests().all, sent);
  EXPECT_EQ(exposition.requests().well, 6U) << "ok and ok_empty";
}

/// Two hundred replicas in twenty pools, of which so many have answered a streamed chat.
std::string page_of_a_fleet(int busy) {
  Exposition exposition{
      3, {"0.1.0", "clang"}, {{"interactive", "pool0", config::Seconds{0.3}, {}, config::Seconds{0.009}, {}}}};
  for (int i = 0; i < 200; ++i) {
    const auto pool = "pool" + std::to_string(i / 10), name = "gpu" + std::to_string(i);
    exposition.add({pool, "", ""});
    auto& replica = exposition.add({pool, name, "vllm-fp16"});
    replica.gauges = [] {
      ReplicaGauges gauges;
      gauges.kv_tokens = 100'000;
      gauges.gpu = "NVIDIA L40S";
      gauges.engine = "vLLM";
      gauges.model = "meta-llama/Llama-3.1-8B-Instruct";
      gauges.engine_running = gauges.engine_waiting = gauges.engine_kv_usage = gauges.ledger_divergence = 0;
      gauges.balancer_fallbacks = {{"unknown_prompt", 0}, {"kv_full", 0}};
      return gauges;
    };
    if (i >= busy) continue;
    replica.shard(0).settle(streamed());
    for (auto* histogram : {&replica.shard(1).time_to_first_token, &replica.shard(1).client_time_to_first_token,
                            &replica.shard(1).inter_chunk_latency, &replica.shard(1).token_overhead})
      histogram->observe(1'000'000);
  }
  return exposition.text();
}

TEST(ExpositionOfAFleet, APageOf200ReplicasIsAtMost2MegabytesWithATenthOfThemBusy) {
  EXPECT_LE(page_of_a_fleet(0).size(), 1'000'000U);
  EXPECT_LE(page_of_a_fleet(20).size(), 2'000'000U);
}

}  // namespace
}  // namespace weir::metrics::series
