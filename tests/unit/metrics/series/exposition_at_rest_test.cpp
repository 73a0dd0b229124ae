// Some series stand on /metrics before anything has happened; others appear with their first use.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden.hpp"
#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

using record::streamed;

/// Returns the page without the process's figures, and of a histogram's buckets those that hold something and the last.
std::string legible(const std::string& page) {
  std::istringstream lines(page);
  std::string said, before = "0";
  for (std::string line; std::getline(lines, line);) {
    const auto value = line.substr(line.rfind(' ') + 1);
    const bool is_bucket = line.find("_bucket{") != line.npos;
    const bool is_shown = is_bucket ? value != before || line.find("+Inf") != line.npos : !line.starts_with("process_");
    before = is_bucket ? value : "0";
    if (is_shown) said += line + '\n';
  }
  return said;
}

/// What rates need is there at zero from the start; of a replica at rest there is nothing else, and nothing unknown is
/// 0.
TEST_F(ExpositionTest, AtRestReadsAsItsGoldenFile) {
  exposition.add({"chat", "", ""});
  tests::expect_golden("metrics_at_rest.txt", legible(exposition.text()));
}

void use(ReplicaGauges& gauges) {
  gauges.state = ReplicaState::ejected;
  gauges.queued_prefill_tokens = 1000;
  gauges.queued_decode_tokens = 200;
  gauges.resident_tokens = 5000;
  gauges.in_flight = 7;
  gauges.max_in_flight = 4;
  gauges.kv_tokens = 100'000;
  gauges.oldest_unanswered_seconds = 1.25;
  gauges.busy_seconds = 60.5;
  gauges.in_flight_seconds = {12, 300};
  gauges.injection_disabled = true;
  gauges.gpu = "L40S";
  gauges.engine = "vLLM";
  gauges.version = "0.10.2";
  gauges.model = "a \"b\" \\";
  gauges.engine_running = 7;
  gauges.engine_waiting = 0;
  gauges.engine_kv_usage = 0.25;
  gauges.engine_prefix_queries = 400;
  gauges.engine_prefix_hits = 100;
  gauges.engine_scrape_seconds = 0.125;
  gauges.ledger_divergence = -2;
  gauges.shadow_active = 0;
  gauges.balancer_fallbacks = {{"unknown_prompt", 0}, {"kv_full", 2}};
  gauges.prefix = PrefixGauges{.tokens = {{"looked_up", 10}, {"best", 0}},
                               .errors = {{"over", 1}},
                               .wipes = {{"missed", 1}},
                               .held = 5,
                               .capacity = 9};
}

void use(ReplicaShard& shard) {
  for (auto* histogram : {&shard.time_to_first_token, &shard.client_time_to_first_token, &shard.inter_chunk_latency,
                          &shard.ttft_measured_by_predicted, &shard.token_overhead})
    histogram->observe(1'000'000);
  shard.retries.add(Retry::connect);
  shard.unparsed.add(Unparsed::broken_json);
  shard.malformed.add(Malformed::chunks);
  shard.bytes[0].add(10);
  shard.mirrored.add(Mirrored::behind);
  for (auto* counter : {&shard.itl_unknown_requests, &shard.coalesced_token_reads, &shard.itl_suspect_requests,
                        &shard.client_blocked_events, &shard.token_reads})
    counter->add();
}

void use(LoopShard& loop, std::uint64_t number) {
  loop.limit_hits.add(Limit::request_body, number);
  loop.denied.add(Denied::no_key, number);
  loop.dropped_fields.add(number);
  loop.tls_handshakes[0][1].add(number);
  loop.tls_handshakes[1][2].add(number);
}

/// Series appear with their first use; counts of loops are added up. Only what a request can have that reached no
/// replica has an empty replica.
TEST_F(ExpositionTest, InUseReadsAsItsGoldenFile) {
  use(gauges);
  record::RequestRecord one = streamed(), rejected;  // It has 102 ms, 10 ms a token, and 1.102 s.
  replica.shard(0).settle(one);
  one.facts.api = Api::tgi_generate;
  replica.shard(1).settle(one);
  use(replica.shard(1));
  rejected.facts.stream = true;
  rejected.outcome = Outcome::rejected;
  ReplicaSeries& chat = exposition.add({"chat", "", ""});
  chat.shard(1).settle(rejected);
  chat.waiting = [] { return Waiting{3, 900}; };
  exposition.add({"embed", "", ""}).waiting = [] { return Waiting{}; };
  ReplicaSeries& gone = exposition.add({"gone", "", ""});
  gone.waiting = [] { return Waiting{1, 10}; };
  exposition.retire(gone);
  exposition.unassigned().shard(0).settle(rejected);
  use(exposition.loop(0), 2);
  use(exposition.loop(1), 3);
  exposition.loop(1).ticked(std::chrono::milliseconds(30));
  exposition.loop(1).ticked(std::chrono::microseconds(1500));
  exposition.log_lines_dropped = [] { return 42U; };
  exposition.internal_errors.count(Part::prober);
  exposition.bypass = [] { return true; };
  exposition.buffer_memory = [] { return BufferMemory{12'345, 67'890}; };
  exposition.last_load.successful = false;
  exposition.last_load.last_success = std::chrono::system_clock::time_point{std::chrono::seconds(1'800'000'000)};
  exposition.findings = [] {
    return std::vector<Exposition::Finding>{{"slow_replica", "gpu1"}, {"late_loop", "weir"}};
  };
  exposition.comparisons = [] {
    return std::vector<ComparisonGauges>{{"fp8",
                                          {{"ttft", 0.08, std::pair(0.06, 0.1)}, {"tpot", -0.5, std::nullopt}},
                                          {{"failed", 9, 1, 15.5}},
                                          {{"too_few", false}, {"running", true}},
                                          {{"same", true}, {"unknown", false}}},
                                         {"new", {}, {}, {{"too_few", true}, {"running", false}}, {}}};
  };
  const auto page = legible(exposition.text());
  tests::expect_golden("metrics_in_use.txt", page);
  EXPECT_EQ(legible(exposition.text()), page) << "a scrape changes nothing";
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
