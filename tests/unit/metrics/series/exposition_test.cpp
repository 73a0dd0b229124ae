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
