#include "metrics/series/exposition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

using record::at;
using record::streamed;

using testing::Contains;
using testing::HasSubstr;

TEST_F(ExpositionTest, NamesTheFamiliesOfItsPageAndTheirLabels) {
  gauges.kv_tokens = 100'000;
  gauges.balancer_fallbacks = {{"unknown_prompt", 1}};
  gauges.prefix = PrefixGauges{{{"looked_up", 1}}, {{"over", 1}}, {{"missed", 1}}};
  gauges.engine_running = gauges.engine_waiting = 1;
  exposition.add({"chat", "", ""}).waiting = [] { return Waiting{3, 900}; };
  exposition.findings = [] { return std::vector{Exposition::Finding{"late_loop", "weir"}}; };
  auto& shard = replica.shard(0);
  shard.settle(streamed());
  for (auto* const counter : {&shard.retries[0], &shard.unparsed[0], &shard.malformed[0], &shard.mirrored[0]})
    counter->add(1);
  std::map<std::string, std::string> types;
  std::map<std::string, std::set<std::string>> labels;
  const auto note = [&](const std::vector<Family>& families, const std::set<std::string>& of_replica) {
    for (const auto& [text, type] : families) {
      types.emplace(text.name, name_of(type));
      auto& own = labels[std::string(text.name)];
      std::istringstream words{std::string(text.labels)};
      for (std::string word; std::getline(words >> std::ws, word, ',');) own.insert(word);
      if (!own.contains("pool")) own.insert(of_replica.begin(), of_replica.end());
    }
  };
  const auto [of_replicas, of_weir] = exposition.families();
  note(of_replicas, {"pool", "replica", "config", "role"});
  note(of_weir, {});
  const Scrape now = scrape();
  EXPECT_EQ(now.types, types);
  for (const auto& [sample, value] : now.samples) {
    auto read = read_sample(sample + " 0");
    ASSERT_TRUE(read) << sample;
    std::string family(read->name);
    if (!types.contains(family)) family.resize(family.rfind('_'));
    std::set<std::string> names;
    for (const auto& [label, text] : read->labels)
      if (label != "le") names.emplace(label);
    if (family == "weir_requests_total" && !names.contains("phase")) names.insert("phase");  // A client_abort's alone.
    EXPECT_EQ(names, labels.at(family)) << sample;
  }
}

TEST_F(ExpositionTest, ShowsHowManyRequestsWaitInEachPoolThatTellsIt) {
  exposition.add({"chat", "", ""}).waiting = [] { return Waiting{3, 900}; };
  exposition.add({"embed", "", ""}).waiting = [] { return Waiting{}; };
  ReplicaSeries& gone = exposition.add({"gone", "", ""});
  gone.waiting = [] { return Waiting{1, 10}; };
  exposition.retire(gone);
  const Scrape now = scrape();
  EXPECT_EQ(now.at(R"(weir_requests_waiting{pool="chat",role="primary"})"), 3);
  EXPECT_EQ(now.at(R"(weir_requests_waiting{pool="embed",role="primary"})"), 0);
  EXPECT_THAT(now.samples,
              testing::Not(Contains(testing::Key(R"(weir_requests_waiting{pool="gone",role="primary"})"))));
  EXPECT_THAT(now.samples, testing::Not(Contains(testing::Key(R"(weir_requests_waiting{pool="",role="primary"})"))));
}

TEST_F(ExpositionTest, IsSortedAndExplainsEveryFamily) {
  const Scrape now = scrape();
  // The families of replicas come first, then those of weir itself (own_families_test.cpp).
  const auto own = std::ranges::is_sorted_until(now.order);
  EXPECT_NE(own, now.order.end());
  EXPECT_TRUE(std::ranges::is_sorted(own, now.order.end()));
  for (const auto& [name, type] : now.types) EXPECT_THAT(now.helps, Contains(testing::Key(name)));
  for (const auto& [name, help] : now.helps) EXPECT_GT(help.size(), 10U) << name;
}

TEST_F(ExpositionTest, AddsUpTheLoops) {
  record::RequestRecord record = streamed();
  record.answer.counted_tokens = 0;
  replica.shard(0).settle(record);
  replica.shard(1).settle(record);
  replica.shard(1).settle(record);
  const Scrape now = scrape();
  EXPECT_EQ(now.gpu0("weir_requests_total", R"(outcome="ok")"), 3);
  EXPECT_EQ(now.gpu0("weir_output_tokens_total"), 303);
  EXPECT_EQ(now.gpu0("weir_time_per_output_token_seconds_count"), 3);
}

TEST_F(ExpositionTest, CountsRequestsAgainstTheObjectivesOfTheirPool) {
  ReplicaSeries& nowhere = exposition.add({"chat", "", ""});
  replica.shard(0).settle(streamed());  // It has 102 ms, 10 ms a token, and 1.102 s.
  record::RequestRecord rejected;
  rejected.facts.stream = true;
  rejected.outcome = Outcome::rejected;
  nowhere.shard(1).settle(rejected);
  exposition.unassigned().shard(0).settle(rejected);
  const Scrape now = scrape();
  EXPECT_EQ(now.gpu0("weir_slo_requests_total", R"(slo="interactive",result="good")"), 1);
  EXPECT_EQ(now.gpu0("weir_slo_requests_total", R"(slo="interactive",result="bad")"), 0);
  EXPECT_EQ(now.gpu0("weir_slo_requests_total", R"(slo="whole",result="bad")"), 1);
  const auto of_pool = [&](const std::string& name, const std::string& own) {
    return now.at(name + R"({pool="chat",replica="",config="",role="primary",)" + own + "}");
  };
  EXPECT_EQ(of_pool("weir_slo_requests_total", R"(slo="interactive",result="bad")"), 1);
  EXPECT_EQ(of_pool("weir_slo_requests_total", R"(slo="whole",result="bad")"), 1);
  EXPECT_EQ(of_pool("weir_requests_total", R"(outcome="rejected")"), 1);
  EXPECT_EQ(of_pool("weir_api_requests_total", R"(api="other",stream="true",outcome="rejected")"), 1);
  std::set<std::string> with_empty_replica;
  for (const auto& [series, value] : now.samples) {
    if (series.find("replica=\"\"") != std::string::npos) with_empty_replica.insert(series.substr(0, series.find('{')));
  }
  EXPECT_EQ(with_empty_replica,
            (std::set<std::string>{"weir_requests_total", "weir_api_requests_total", "weir_slo_requests_total"}))
      << "only what a request can have that reached no replica";
}

TEST_F(ExpositionTest, HasEveryThresholdAsABoundWhateverThePool) {
  replica.shard(0).time_to_first_token.observe(2'000'000'000);
  replica.shard(1).client_time_to_first_token.observe(2'000'000'000);
  replica.shard(1).request_duration(Api::openai_chat, false).observe(2'000'000'000);
  const Scrape now = scrape();
  for (const std::string name : {"weir_client_time_to_first_token_seconds", "weir_time_to_first_token_seconds"}) {
    for (const std::string le : {"0.3", "0.7"}) EXPECT_EQ(now.gpu0(name + "_bucket", "le=\"" + le + "\""), 0) << le;
  }
  EXPECT_EQ(now.gpu0("weir_request_duration_seconds_bucket", R"(api="openai.chat",stream="false",le="1")"), 0);
}

TEST_F(ExpositionTest, NeverShowsARequestWithoutItsTokens) {
  record::RequestRecord record = streamed();
  record.answer.counted_tokens = 0;
  const std::jthread loop([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) replica.shard(0).settle(record);
  });
  for (int i = 0; i < 20; ++i) {
    const Scrape now = scrape();
    const auto requests = *now.gpu0("weir_requests_total", R"(outcome="ok")");
    EXPECT_GE(*now.gpu0("weir_output_tokens_total"), 101 * requests);
    EXPECT_GE(*now.gpu0("weir_prompt_tokens_total"), 550 * requests);
    EXPECT_GE(now.gpu0("weir_time_per_output_token_seconds_count").value_or(0), requests);
  }
}

TEST_F(ExpositionTest, ExportsBaseUnits) {
  replica.shard(0).settle(streamed());
  const Scrape now = scrape();
  EXPECT_DOUBLE_EQ(*now.gpu0("weir_time_per_output_token_seconds_sum"), 0.010);
  EXPECT_EQ(now.gpu0("weir_time_per_output_token_seconds_bucket", R"(le="0.0091")"), 0);
  EXPECT_EQ(now.gpu0("weir_time_per_output_token_seconds_bucket", R"(le="0.01")"), 1);
  EXPECT_DOUBLE_EQ(*now.gpu0("weir_request_duration_seconds_sum", R"(api="openai.chat",stream="true")"), 1.102);
  EXPECT_DOUBLE_EQ(*now.gpu0("weir_request_output_tokens_per_second_sum"), 100);
  EXPECT_EQ(now.gpu0("weir_request_output_tokens_per_second_bucket", R"(le="75")"), 0);
  EXPECT_EQ(now.gpu0("weir_request_output_tokens_per_second_bucket", R"(le="100")"), 1);
  EXPECT_DOUBLE_EQ(*now.gpu0("weir_prompt_estimate_ratio_sum"), 0.966);
  EXPECT_EQ(now.gpu0("weir_prompt_estimate_ratio_bucket", R"(le="0.95")"), 0);
  EXPECT_EQ(now.gpu0("weir_prompt_estimate_ratio_bucket", R"(le="1.05")"), 1);
  EXPECT_EQ(now.gpu0("weir_request_prompt_tokens_sum"), 550);
}

TEST_F(ExpositionTest, WritesBoundsAsTheyAreSpoken) {
  replica.shard(0).settle(streamed());
  replica.shard(0).token_overhead.observe(1);
  const std::regex bound("le=\"([^\"]*)\"");
  for (const auto& [series, value] : scrape().samples) {
    std::smatch found;
    if (std::regex_search(series, found, bound)) {
      EXPECT_LE(found[1].length(), 7) << series;
    }
  }
}

TEST_F(ExpositionTest, CountsAreTheInfBucketAndBucketsNeverFall) {
  for (int i = 0; i < 50; ++i) {
    record::RequestRecord record = streamed();
    record.answer.last_choice = at(103 + i * i * 10);
    replica.shard(static_cast<std::size_t>(i % 2)).settle(record);
    replica.shard(0).time_to_first_token.observe(static_cast<std::uint64_t>(i) * 100'000'000'000);
  }
  std::size_t seen = 0;
  for (const auto& [name, one] : histograms_of(exposition.text())) {
    ASSERT_FALSE(one.buckets.empty()) << name;
    EXPECT_EQ(one.buckets.back().first, std::numeric_limits<double>::infinity()) << name;
    EXPECT_EQ(one.buckets.back().second, one.count) << name;
    EXPECT_TRUE(std::ranges::is_sorted(one.buckets, {}, &std::pair<double, double>::first)) << name;
    EXPECT_TRUE(std::ranges::is_sorted(one.buckets, {}, &std::pair<double, double>::second)) << name;
    seen += static_cast<std::size_t>(*one.count);
  }
  EXPECT_GT(seen, 50U);
}

TEST_F(ExpositionTest, NeverGoesBackwardsOrDisagreesWithItselfWhileALoopWrites) {
  const std::jthread loop([&](const std::stop_token& stop) {
    for (std::uint64_t i = 0; !stop.stop_requested(); ++i)
      replica.shard(0).time_to_first_token.observe(i % 3'000'000'000);
  });
  double before = 0;
  for (int i = 0; i < 5; ++i) {
    const Scrape now = scrape();
    const auto count = now.gpu0("weir_time_to_first_token_seconds_count");
    EXPECT_EQ(count, now.gpu0("weir_time_to_first_token_seconds_bucket", "le=\"+Inf\""));
    EXPECT_GE(count.value_or(0), before);
    before = count.value_or(0);
  }
}

TEST_F(ExpositionTest, ShowsWhatTheBalancerKnows) {
  gauges.queued_prefill_tokens = 1000;
  gauges.queued_decode_tokens = 200;
  gauges.resident_tokens = 5000;
  gauges.in_flight = 7;
  gauges.oldest_unanswered_seconds = 1.25;
  gauges.busy_seconds = 60.5;
  gauges.in_flight_seconds = {12, 300};
  gauges.injection_disabled = true;
  gauges.gpu = "L40S";
  gauges.state = ReplicaState::ejected;
  gauges.balancer_fallbacks = {{"unknown_prompt", 3}};
  EXPECT_EQ(scrape().gpu0("weir_kv_tokens"), std::nullopt) << "exists only where known";
  gauges.kv_tokens = 100'000;
  const Scrape now = scrape();
  EXPECT_EQ(now.gpu0("weir_queued_tokens", R"(phase="prefill")"), 1000);
  EXPECT_EQ(now.gpu0("weir_queued_tokens", R"(phase="decode")"), 200);
  EXPECT_EQ(now.gpu0("weir_resident_tokens"), 5000);
  EXPECT_EQ(now.gpu0("weir_requests_in_flight"), 7);
  EXPECT_EQ(now.gpu0("weir_oldest_unanswered_seconds"), 1.25);
  EXPECT_EQ(now.gpu0("weir_busy_seconds_total"), 60.5);
  EXPECT_EQ(now.gpu0("weir_in_flight_seconds_total", R"(phase="prefill")"), 12);
  EXPECT_EQ(now.gpu0("weir_in_flight_seconds_total", R"(phase="decode")"), 300);
  EXPECT_EQ(now.gpu0("weir_injection_disabled"), 1);
  EXPECT_EQ(now.gpu0("weir_replica_info", R"(gpu="L40S",engine="",version="",model="")"), 1);
  EXPECT_EQ(now.gpu0("weir_replica_state", R"(state="ejected")"), 1);
  for (const auto other : {"up", "starting", "draining", "down"})
    EXPECT_EQ(now.gpu0("weir_replica_state", "state=\"" + std::string(other) + '"'), 0);
  EXPECT_EQ(now.gpu0("weir_balancer_fallbacks_total", R"(reason="unknown_prompt")"), 3);
  EXPECT_EQ(now.gpu0("weir_kv_tokens"), 100'000);
}

TEST_F(ExpositionTest, ShowsWhatTheEngineToldAndNothingOfWhatItDidNot) {
  gauges.engine = "vLLM";
  gauges.version = "0.10.2";
  gauges.model = "a \"b\" \\";
  const Scrape unknown = scrape();
  EXPECT_EQ(unknown.gpu0("weir_replica_info", R"(gpu="",engine="vLLM",version="0.10.2",model="a \"b\" \\")"), 1);
  for (const auto name :
       {"weir_engine_kv_usage_ratio", "weir_engine_prefix_cache_queries_total", "weir_engine_prefix_cache_hits_total",
        "weir_ledger_divergence_requests", "weir_engine_scrape_duration_seconds"})
    EXPECT_EQ(unknown.gpu0(name), std::nullopt) << name << ": unknown is not 0";
  EXPECT_EQ(unknown.gpu0("weir_engine_requests", R"(state="running")"), std::nullopt);

  gauges.engine_running = 7;
  gauges.engine_waiting = 0;
  gauges.engine_kv_usage = 0.25;
  gauges.engine_prefix_queries = 400;
  gauges.engine_prefix_hits = 100;
  gauges.ledger_divergence = -2;
  gauges.engine_scrape_seconds = 0.125;
  const Scrape now = scrape();
  EXPECT_EQ(now.gpu0("weir_engine_requests", R"(state="running")"), 7);
  EXPECT_EQ(now.gpu0("weir_engine_requests", R"(state="waiting")"), 0) << "an empty queue is known";
  EXPECT_EQ(now.gpu0("weir_engine_kv_usage_ratio"), 0.25);
  EXPECT_EQ(now.gpu0("weir_engine_prefix_cache_queries_total"), 400);
  EXPECT_EQ(now.gpu0("weir_engine_prefix_cache_hits_total"), 100);
  EXPECT_EQ(now.gpu0("weir_ledger_divergence_requests"), -2);
  EXPECT_EQ(now.gpu0("weir_engine_scrape_duration_seconds"), 0.125);
}

TEST_F(ExpositionTest, ShowsWhatBelongsToNoReplica) {
  exposition.loop(0).limit_hits.add(Limit::request_body, 2);
  exposition.loop(1).limit_hits.add(Limit::request_body, 3);
  exposition.loop(0).denied.add(Denied::no_key, 3);
  exposition.loop(1).denied.add(Denied::no_key, 4);
  exposition.loop(0).dropped_fields.add(2);
  exposition.loop(1).dropped_fields.add(6);
  exposition.loop(0).tls_handshakes[0][1].add(4);
  exposition.loop(1).tls_handshakes[0][1].add(1);
  exposition.loop(1).tls_handshakes[1][2].add(7);
  exposition.loop(1).ticked(std::chrono::milliseconds(30));
  exposition.loop(1).ticked(std::chrono::microseconds(1500));
  exposition.log_lines_dropped = [] { return 42U; };
  exposition.internal_errors.count(Part::prober);
  EXPECT_EQ(scrape().at("weir_bypass"), 0);
  EXPECT_EQ(scrape().at("weir_config_last_reload_successful"), 1);
  exposition.bypass = [] { return true; };
  exposition.buffer_memory = [] { return BufferMemory{12'345, 67'890}; };
  exposition.last_load.successful = false;
  exposition.last_load.last_success = std::chrono::system_clock::time_point{std::chrono::seconds(1'800'000'000)};
  record::RequestRecord refused;
  refused.outcome = Outcome::rejected;
  refused.facts.api = Api::tgi_generate;
  exposition.unassigned().shard(1).settle(refused);
  const Scrape now = scrape();
  EXPECT_EQ(now.at(R"(weir_limit_hits_total{limit="request_body"})"), 5);
  EXPECT_EQ(now.at(R"(weir_denied_requests_total{reason="no_key"})"), 7);
  EXPECT_EQ(now.at(R"(weir_denied_requests_total{reason="wrong_key"})"), 0);
  EXPECT_EQ(now.at("weir_dropped_fields_total"), 8);
  EXPECT_EQ(now.at(R"(weir_tls_handshakes_total{side="client",result="resumed"})"), 5);
  EXPECT_EQ(now.at(R"(weir_tls_handshakes_total{side="replica",result="failed"})"), 7);
  EXPECT_EQ(now.at(R"(weir_loop_lag_seconds{loop="0"})"), 0);
  EXPECT_EQ(now.at(R"(weir_loop_lag_seconds{loop="1"})"), 0.0015) << "the latest";
  EXPECT_EQ(now.at(R"(weir_loop_delay_seconds_count{loop="0"})"), 0);
  EXPECT_EQ(now.at(R"(weir_loop_delay_seconds_bucket{loop="1",le="0.002"})"), 1);
  EXPECT_EQ(now.at(R"(weir_loop_delay_seconds_bucket{loop="1",le="0.05"})"), 2) << "all of them";
  EXPECT_EQ(now.at("weir_log_lines_dropped_total"), 42);
  EXPECT_EQ(now.at(R"(weir_internal_errors_total{part="prober"})"), 1);
  EXPECT_EQ(now.at("weir_bypass"), 1);
  EXPECT_EQ(now.at("weir_buffer_memory_bytes"), 12'345);
  EXPECT_EQ(now.at("weir_buffer_memory_limit_bytes"), 67'890);
  EXPECT_EQ(now.at("weir_config_last_reload_successful"), 0);
  EXPECT_EQ(now.at("weir_config_last_reload_success_timestamp_seconds"), 1'800'000'000);
  EXPECT_EQ(now.at(R"(weir_build_info{version="0.1.0",compiler="g++ 12"})"), 1);
  const std::string nowhere = R"({pool="",replica="",config="",role="primary",)";
  EXPECT_EQ(now.at("weir_requests_total" + nowhere + R"(outcome="rejected"})"), 1);
  EXPECT_EQ(now.at("weir_api_requests_total" + nowhere + R"(api="tgi.generate",stream="false",outcome="rejected"})"),
            1);
}

TEST_F(ExpositionTest, ShowsHowShadowsCompareWhileTheyAreOn) {
  std::vector<ComparisonGauges> shadows{{"fp8",
                                         {{"ttft", 0.08, std::pair(0.06, 0.1)}, {"tpot", -0.5, std::nullopt}},
                                         {{"failed", 9, 1, 15.5}},
                                         {{"too_few", false}, {"running", true}},
                                         {{"same", true}, {"unknown", false}}},
                                        {"new", {}, {}, {{"too_few", true}, {"running", false}}, {}}};
  exposition.comparisons = [&] { return shadows; };
  const auto compared = [&] {
    std::map<std::string, double> found;
    for (const auto& one : scrape().samples)
      if (one.first.starts_with("weir_comparison_")) found.insert(one);
    return found;
  };
  EXPECT_THAT(compared(),
              testing::ElementsAre(
                  testing::Pair(R"(weir_comparison_effect{shadow="fp8",metric="tpot",bound="estimate"})", -0.5),
                  testing::Pair(R"(weir_comparison_effect{shadow="fp8",metric="ttft",bound="estimate"})", 0.08),
                  testing::Pair(R"(weir_comparison_effect{shadow="fp8",metric="ttft",bound="high"})", 0.1),
                  testing::Pair(R"(weir_comparison_effect{shadow="fp8",metric="ttft",bound="low"})", 0.06),
                  testing::Pair(R"(weir_comparison_fault_evidence{shadow="fp8",fault="failed"})", 15.5),
                  testing::Pair(R"(weir_comparison_faults{shadow="fp8",fault="failed",only="other"})", 1),
                  testing::Pair(R"(weir_comparison_faults{shadow="fp8",fault="failed",only="shadow"})", 9),
                  testing::Pair(R"(weir_comparison_same{shadow="fp8",answers="same"})", 1),
                  testing::Pair(R"(weir_comparison_same{shadow="fp8",answers="unknown"})", 0),
                  testing::Pair(R"(weir_comparison_state{shadow="fp8",state="running"})", 1),
                  testing::Pair(R"(weir_comparison_state{shadow="fp8",state="too_few"})", 0),
                  testing::Pair(R"(weir_comparison_state{shadow="new",state="running"})", 0),
                  testing::Pair(R"(weir_comparison_state{shadow="new",state="too_few"})", 1)));
  shadows.clear();
  EXPECT_TRUE(compared().empty());
}

TEST_F(ExpositionTest, FindingsAreThereWhileTheyStand) {
  std::vector<Exposition::Finding> findings{{"slow_replica", "gpu1"}, {"late_loop", "weir"}};
  exposition.findings = [&] { return findings; };
  EXPECT_EQ(scrape().samples.at(R"(weir_finding{what="slow_replica",who="gpu1"})"), 1);
  EXPECT_EQ(scrape().samples.at(R"(weir_finding{what="late_loop",who="weir"})"), 1);
  findings.clear();
  for (const auto& one : scrape().samples) EXPECT_FALSE(one.first.starts_with("weir_finding")) << one.first;
}

TEST_F(ExpositionTest, ShowsTheProcess) {
  const Scrape now = scrape();
  EXPECT_GT(now.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(now.at("process_resident_memory_bytes"), 1'000'000);
  EXPECT_GT(now.at("process_virtual_memory_bytes"), now.at("process_resident_memory_bytes"));
  EXPECT_GE(now.at("process_open_fds"), 3);
  EXPECT_GE(now.at("process_max_fds"), now.at("process_open_fds"));
  EXPECT_GT(now.at("process_start_time_seconds"), 1'500'000'000);
  EXPECT_EQ(now.at("process_start_time_seconds"), scrape().at("process_start_time_seconds"));
}

TEST_F(ExpositionTest, CountsADescriptorThatWasOpened) {
  const auto before = scrape().at("process_open_fds");
  const std::ifstream one("/proc/self/stat");
  EXPECT_EQ(scrape().at("process_open_fds"), *before + 1);
}

TEST_F(ExpositionTest, AReplicaThatIsGoneIsExportedUntilNobodyOwnsIt) {
  auto owned = exposition.add({"chat", "gpu1", "vllm-fp16"}).shared_from_this();
  const auto tokens = R"(weir_output_tokens_total{pool="chat",replica="gpu1",config="vllm-fp16",role="primary"})";
  exposition.retire(*owned);
  owned->shard(0).output_tokens.add(3);
  owned->shard(0).requests[0][0][0].add(2);
  EXPECT_EQ(scrape().at(tokens), 3) << "a request that still runs there is counted";
  EXPECT_EQ(&exposition.add({"chat", "gpu1", "vllm-fp16"}), owned.get()) << "and goes on if it comes back";
  exposition.retire(*owned);
  owned.reset();
  EXPECT_EQ(scrape().at(tokens), std::nullopt);
  EXPECT_EQ(exposition.requests().all, 2U) << "its requests are in the sum for good";
}

TEST_F(ExpositionTest, ComparesWithOtherObjectivesOnceItsLoopsFollow) {
  const auto counted = [](const std::string& slo) { return R"(slo=")" + slo + R"(",result="good")"; };
  replica.shard(0).settle(record::streamed());
  replica.shard(1).settle(record::streamed());
  ASSERT_EQ(scrape().gpu0("weir_slo_requests_total", R"(slo="whole",result="bad")"), 2);
  exposition.set_slos({{"whole", "chat", {}, {}, {}, config::Seconds{7}}});
  EXPECT_TRUE(exposition.follow(replica, 0));
  replica.shard(0).settle(record::streamed());
  const auto between = scrape();
  EXPECT_EQ(between.gpu0("weir_slo_requests_total", R"(slo="whole",result="bad")"), 2);
  EXPECT_EQ(between.gpu0("weir_slo_requests_total", counted("whole")), 1);
  EXPECT_EQ(between.gpu0("weir_slo_requests_total", counted("interactive")), std::nullopt);
  EXPECT_TRUE(exposition.follow(replica, 1));
  const auto api = std::string(R"(api="openai.chat",stream="true")");
  EXPECT_EQ(scrape().gpu0("weir_request_duration_seconds_bucket", api + R"(,le="7")"), 3);
  EXPECT_EQ(scrape().gpu0("weir_request_duration_seconds_count", api), 3);
}

TEST_F(ExpositionTest, GivesTheSameLabelsTheSameSeries) {
  EXPECT_EQ(&exposition.add({"chat", "gpu0", "vllm-fp16"}), &replica);
  EXPECT_NE(&exposition.add({"chat", "gpu0", "vllm-fp8"}), &replica);
  EXPECT_NE(&exposition.add({"chat:shadow", "gpu0", "vllm-fp16", "shadow"}), &replica);
  const Scrape now = scrape();
  EXPECT_EQ(now.at(R"(weir_output_tokens_total{pool="chat:shadow",replica="gpu0",config="vllm-fp16",role="shadow"})"),
            0);
  EXPECT_EQ(now.at(R"(weir_resident_tokens{pool="chat",replica="gpu0",config="vllm-fp8",role="primary"})"),
            std::nullopt)
      << "a replica that the balancer was not asked about has no gauge";
}

}  // namespace
}  // namespace weir::metrics::series
