// bench_micro measures what single parts cost, in one thread with all they touch in the cache.
// tests/bench/results/micro.txt has the table. tests/bench/relay measures what a token costs in a process, with
// hundreds of streams between one token and the next.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "balancer/estimate.hpp"
#include "balancer/pool.hpp"
#include "balancer/prefix/index.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace {

using namespace weir;
using metrics::Moment;
using metrics::measure::StreamMeter;

constexpr Moment start{std::chrono::hours(5)};

/// Returns a chat chunk as vLLM writes it, with one token in it.
std::string chat_event(const std::string& created) {
  return R"(data: {"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":)" +
         created +
         R"(,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" token"},)"
         R"("logprobs":null,"finish_reason":null,"token_ids":null}]})"
         "\n\n";
}

/// Holds bytes, with what a reader of them may touch behind them.
class Padded {
 public:
  explicit Padded(const std::string& bytes)
      : bytes_(bytes + std::string(StreamMeter::padding, ' ')), size_(bytes.size()) {}
  std::span<const char> span() const { return {bytes_.data(), size_}; }

 private:
  std::string bytes_;
  std::size_t size_;
};

/// Measures one read with one event. With two kinds of event in turn the shape of the last never fits, and each is
/// parsed.
void meter_event(benchmark::State& state, bool strip, const std::string& first, const std::string& second,
                 const metrics::SipKey* fingerprint_key = nullptr) {
  const std::array<Padded, 2> events{Padded(first), Padded(second)};
  metrics::series::ReplicaShard shard;
  StreamMeter::Options options;
  options.api = metrics::Api::openai_chat;
  options.form = metrics::measure::BodyForm::sse;
  options.strip_usage = strip;
  options.fingerprint_key = fingerprint_key;
  StreamMeter meter(options, shard);
  Moment at = start;
  std::size_t turn = 0;
  for (auto _ : state) {
    at += std::chrono::milliseconds(20);
    const auto read = meter.arrived(events[turn ^= 1].span(), at);
    benchmark::DoNotOptimize(read);
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel(std::to_string(first.size()) + " B an event");
}
BENCHMARK_CAPTURE(meter_event, same_shape, false, chat_event("1779866853"), chat_event("1779866853"));
constexpr metrics::SipKey fingerprint_key{1, 2};
BENCHMARK_CAPTURE(meter_event, same_shape_fingerprint, false, chat_event("1779866853"), chat_event("1779866853"),
                  &fingerprint_key);
BENCHMARK_CAPTURE(meter_event, same_shape_usage_taken_out, true, chat_event("1779866853"), chat_event("1779866853"));
BENCHMARK_CAPTURE(meter_event, other_shape, false, chat_event("1779866853"), chat_event("1779866854"));
BENCHMARK_CAPTURE(meter_event, other_shape_usage_taken_out, true, chat_event("1779866853"), chat_event("1779866854"));

/// Measures one read with one event of each of many streams in turn, as a batch of the poller brings them. A stream's
/// memory is in no near cache, and is prefetched two turns ahead.
void meter_event_of_many(benchmark::State& state) {
  const auto streams = static_cast<std::size_t>(state.range(0));
  const Padded event(chat_event("1779866853"));
  metrics::series::ReplicaShard shard;
  StreamMeter::Options options;
  options.api = metrics::Api::openai_chat;
  options.form = metrics::measure::BodyForm::sse;
  options.strip_usage = true;
  std::vector<std::unique_ptr<StreamMeter>> meters;
  std::vector<std::string> between;  // Stands for the rest of a stream: its relay, its sockets.
  for (std::size_t i = 0; i < streams; ++i) {
    meters.push_back(std::make_unique<StreamMeter>(options, shard));
    between.emplace_back(3000, ' ');
  }
  Moment at = start;
  std::size_t turn = 0;
  const auto ahead = [&](std::size_t n) -> const StreamMeter& { return *meters[(turn + n) % streams]; };
  for (auto _ : state) {
    at += std::chrono::microseconds(40);
    ahead(2).prefetch(2);
    ahead(1).prefetch(1);
    const auto read = meters[turn]->arrived(event.span(), at);
    benchmark::DoNotOptimize(read);
    turn = (turn + 1) % streams;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(meter_event_of_many)->Arg(500)->Arg(4000)->Arg(20000);

void sse_event(benchmark::State& state) {
  const Padded bytes(chat_event("1779866853"));
  metrics::wire::SseFramer framer(StreamMeter::carry_limit);
  metrics::wire::SseEvent event;
  for (auto _ : state) {
    framer.feed(bytes.span());
    while (framer.next(event)) benchmark::DoNotOptimize(event);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(sse_event);

void parse_event(benchmark::State& state) {
  const std::string text = chat_event("1779866853");
  const Padded data(text.substr(6, text.size() - 8));
  metrics::wire::EventFacts facts;
  for (auto _ : state) {
    facts.clear();
    metrics::wire::read_event(metrics::Api::openai_chat, {data.span().data(), data.span().size()}, facts);
    benchmark::DoNotOptimize(facts);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(parse_event);

void histogram_observe(benchmark::State& state) {
  metrics::series::Histogram histogram(metrics::series::per_token_bounds);
  // The gaps are about 20 ms, in an order that no branch predictor learns.
  std::array<std::uint64_t, 4096> gaps;
  std::uint64_t random = 1;
  for (auto& gap : gaps) {
    random = random * 6364136223846793005 + 1442695040888963407;
    gap = 5'000'000 + (random >> 33) % 30'000'000;
  }
  std::size_t at = 0;
  for (auto _ : state) histogram.observe(gaps[at++ % gaps.size()]);
  benchmark::DoNotOptimize(histogram.sum());
}
BENCHMARK(histogram_observe);

using metrics::series::Exposition;
using metrics::series::ReplicaShard;

/// Returns what weir knows of a replica whose engine tells its figures.
metrics::series::ReplicaGauges gauges_of(bool busy) {
  metrics::series::ReplicaGauges gauges;
  gauges.gpu = "NVIDIA L40S";
  gauges.engine = "vLLM";
  gauges.version = "0.10.2";
  gauges.model = "meta-llama/Llama-3.1-8B-Instruct";
  gauges.kv_tokens = 400'000;
  gauges.engine_running = gauges.engine_waiting = gauges.ledger_divergence = 0;
  gauges.engine_kv_usage = busy ? 0.4371 : 0;
  gauges.engine_scrape_seconds = 0.004217;
  gauges.balancer_fallbacks = {{"kv_full", 0}, {"unknown_prompt", busy}, {"panic", 0}};
  if (busy) {
    gauges.resident_tokens = gauges.queued_prefill_tokens = 51'234;
    gauges.queued_decode_tokens = 4'321;
    gauges.in_flight = 17;
    gauges.busy_seconds = 86'123.456789;
    gauges.in_flight_seconds = {12'345.678912, 912'345.678912};
  }
  return gauges;
}

/// Counts a day of streamed chats, with something in every bucket.
void count_chats(ReplicaShard& shard) {
  using metrics::series::Histogram;
  for (Histogram* const histogram :
       {&shard.time_to_first_token, &shard.client_time_to_first_token, &shard.inter_token_latency,
        &shard.inter_chunk_latency, &shard.token_overhead, &shard.time_per_output_token, &shard.queue_duration,
        &shard.request_output_tokens_per_second, &shard.request_prompt_tokens, &shard.request_output_tokens,
        &shard.prompt_estimate_ratio, &shard.request_duration(metrics::Api::openai_chat, true)}) {
    for (const auto bound : histogram->bounds()) histogram->observe(bound, 1234);
  }
  metrics::record::RequestRecord record;
  record.facts.api = metrics::Api::openai_chat;
  record.facts.stream = true;
  record.answer.prompt_tokens = record.answer.output_tokens = 550;
  record.answer.token_source = metrics::TokenSource::usage;
  for (const auto outcome : {metrics::Outcome::ok, metrics::Outcome::client_abort, metrics::Outcome::upstream_error}) {
    record.outcome = outcome;
    for (int i = 0; i < 123; ++i) shard.settle(record);
  }
  for (auto& bytes : shard.bytes) bytes.add(12'345'678'901);
}

std::vector<config::Slo> objectives_of(const std::string& pool) {
  return {{"interactive", pool, config::Seconds{1.1}, {}, config::Seconds{0.052}, {}},
          {"whole", pool, {}, {}, {}, config::Seconds{90}}};
}

/// Returns a fleet of so many replicas, ten in a pool, of which so many are busy; with two loops and two objectives.
std::unique_ptr<Exposition> fleet_of(std::int64_t replicas, std::int64_t busy) {
  auto fleet = std::make_unique<Exposition>(2, metrics::series::BuildInfo{"0", "c++"}, objectives_of("chat0"));
  for (std::int64_t i = 0; i < replicas; ++i) {
    const std::string pool = "chat" + std::to_string(i / 10);
    if (i % 10 == 0) fleet->add({pool, "", ""}).waiting = [] { return metrics::series::Waiting{}; };
    auto& replica = fleet->add({pool, "gpu" + std::to_string(i), "vllm-fp16"});
    replica.gauges = [gauges = gauges_of(i < busy)] { return gauges; };
    for (std::size_t loop = 0; i < busy && loop < 2; ++loop) count_chats(replica.shard(loop));
  }
  return fleet;
}

/// Measures what /metrics costs the control thread, and how long the page is.
void scrape(benchmark::State& state) {
  const auto fleet = fleet_of(state.range(0), state.range(1));
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::string page = fleet->text();
    bytes = page.size();
    benchmark::DoNotOptimize(page.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(scrape)
    ->ArgNames({"replicas", "busy"})
    ->Args({1, 0})
    ->Args({20, 0})
    ->Args({200, 0})
    ->Args({200, 20})
    ->Args({200, 200})
    ->Unit(benchmark::kMillisecond);

metrics::wire::RequestFacts chat_of(std::uint64_t letters) {
  metrics::wire::RequestFacts facts;
  facts.api = metrics::Api::openai_chat;
  facts.model = "bench";
  facts.stream = true;
  facts.max_tokens = 256;
  facts.text.code_points[static_cast<std::size_t>(metrics::wire::Script::letters)] = letters;
  facts.text.messages = 3;
  facts.whole_json = true;
  return facts;
}

/// Measures the choice, the first token and the end: every time a request takes the pool's lock.
void pool_request(benchmark::State& state) {
  const auto pool = balancer::Pool::make(config::Policy::least_queued_tokens, 1);
  std::vector<balancer::ReplicaSpec> specs(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].name = "replica" + std::to_string(i);
  pool->set_replicas(specs, start);
  const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(chat_of(2000))};
  // Each replica has four requests, so that no replica is idle when one is chosen.
  std::vector<balancer::Lease> running;
  for (std::size_t i = 0; i < specs.size() * 4; ++i)
    running.push_back(std::move(std::get<balancer::Admitted>(pool->offer(placement, start)).lease));
  balancer::LeaseEnd end(balancer::EndCause::answered);
  end.prompt_tokens = 550;
  end.output_tokens = 150;
  Moment now = start;
  std::size_t oldest = 0;
  for (auto _ : state) {
    now += std::chrono::microseconds(100);
    running[oldest].first_token(now);
    running[oldest].end(end, now);
    running[oldest] = std::move(std::get<balancer::Admitted>(pool->offer(placement, now)).lease);
    oldest = (oldest + 1) % running.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(pool_request)->Arg(4)->Arg(100)->Arg(1000);

/// Keeps the leases that a pool grants.
class Grantees final : public balancer::GrantSink {
 public:
  void grant(std::vector<balancer::Granted> granted) noexcept override {
    for (auto& one : granted) leases.push_back(std::move(std::get<balancer::Lease>(one.what)));
  }
  std::vector<balancer::Lease> leases;
};

/// Measures a request that waits behind so many others of 16 keys: its offer, its grant at the end of another request,
/// its first token and its end.
void pool_request_that_waits(benchmark::State& state) {
  Grantees grantees;
  const auto pool = balancer::Pool::make(config::Policy::least_queued_tokens, 1, &grantees);
  balancer::PoolLimits limits;
  limits.queue = 1'000'000;
  limits.queue_time = std::chrono::hours(1000);
  pool->set_limits(limits, start);
  std::vector<balancer::ReplicaSpec> specs(4);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].name = "replica" + std::to_string(i);
    specs[i].max_in_flight = 4;
  }
  pool->set_replicas(specs, start);
  balancer::PlacementRequest placement;
  placement.facts = std::make_shared<const metrics::wire::RequestFacts>(chat_of(2000));
  placement.waiter = std::make_shared<int>();
  placement.bytes = 9000;
  Moment now = start;
  const auto offer = [&] {
    placement.fair_key = (placement.fair_key + 1) % 16;
    auto offered = pool->offer(placement, now);
    if (auto* const admitted = std::get_if<balancer::Admitted>(&offered))
      grantees.leases.push_back(std::move(admitted->lease));
  };
  for (std::int64_t i = 0; i < 16 + state.range(0); ++i) offer();
  balancer::LeaseEnd end(balancer::EndCause::answered);
  end.prompt_tokens = 550;
  end.output_tokens = 150;
  std::vector<balancer::Lease> running;
  for (auto _ : state) {
    now += std::chrono::microseconds(100);
    running.swap(grantees.leases);
    for (balancer::Lease& lease : running) {
      lease.first_token(now);
      lease.end(end, now);
      offer();
    }
    running.clear();
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(pool_request_that_waits)->Arg(16)->Arg(1000);

/// Measures how long a scrape holds a pool's lock for one replica, which has so many streams under way. Only the latest
/// of them has no token yet.
void replica_load(benchmark::State& state) {
  const auto pool = balancer::Pool::make(config::Policy::least_queued_tokens, 1);
  std::vector<balancer::ReplicaSpec> specs(1);
  specs[0].name = "replica";
  pool->set_replicas(specs, start);
  const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(chat_of(2000))};
  std::vector<balancer::Lease> running;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    if (!running.empty()) running.back().first_token(start);
    running.push_back(std::move(std::get<balancer::Admitted>(pool->offer(placement, start)).lease));
  }
  Moment now = start;
  for (auto _ : state) {
    now += std::chrono::seconds(15);
    benchmark::DoNotOptimize(pool->figures().load(balancer::ReplicaIndex{0}, now));
  }
}
BENCHMARK(replica_load)->Arg(1)->Arg(500);

void estimate(benchmark::State& state) {
  balancer::TokenEstimator estimator;
  const auto facts = chat_of(2000);
  estimator.learn(facts, 550);
  for (auto _ : state) benchmark::DoNotOptimize(estimator.estimate(facts));
}
BENCHMARK(estimate);

void learn(benchmark::State& state) {
  balancer::TokenEstimator estimator;
  const auto facts = chat_of(2000);
  for (auto _ : state) estimator.learn(facts, 550);
}
BENCHMARK(learn);

void inspect(benchmark::State& state, const std::string& body, const metrics::UniversalKey* prefix_key = nullptr) {
  constexpr std::size_t piece = 64 * 1024;
  const metrics::wire::ConversationKey key({1, 2});
  for (auto _ : state) {
    metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions", &key,
                                              prefix_key);
    for (std::size_t at = 0; at < body.size(); at += piece)
      inspector.feed(std::span(body).subspan(at, std::min(piece, body.size() - at)));
    benchmark::DoNotOptimize(inspector.finish());
    benchmark::DoNotOptimize(inspector.take_prefix());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}

/// Inspects a chat of so many bytes, read in pieces as large as the relay's reads, all of it messages with this
/// content.
void inspect_request(benchmark::State& state, const std::string& content) {
  std::string body = R"({"model":"bench","stream":true,"max_tokens":256,"messages":[)";
  while (body.size() < static_cast<std::size_t>(state.range(0)))
    body += R"({"role":"user","content":")" + content + "\"},";
  body.back() = ']';
  inspect(state, body + '}');
}
std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  while (times-- > 0) all += text;
  return all;
}
const std::string mixed = "The weir holds 42 litres; die Wehre halten das Wasser zurück.\\nНе всё сразу.";
BENCHMARK_CAPTURE(inspect_request, short_mixed, mixed)->Arg(512)->Arg(16 * 1024)->Arg(1024 * 1024);
BENCHMARK_CAPTURE(inspect_request, prose,
                  repeated("The weir holds 42 litres, and lets the river through. ", 100) + "\\n")
    ->Arg(256 * 1024);
BENCHMARK_CAPTURE(inspect_request, lines, repeated("  if (weir.holds(42)) return \\\"river\\\";\\n", 100))
    ->Arg(256 * 1024);
BENCHMARK_CAPTURE(inspect_request, chinese, repeated("水坝的作用是控制河流的流量，同时让一部分水自由通过。", 100))
    ->Arg(256 * 1024);

/// Inspects a chat of one long message, all of which opens the conversation.
void inspect_one_message(benchmark::State& state) {
  const std::string prose =
      repeated("The weir holds 42 litres, and lets the river through. ", static_cast<std::size_t>(state.range(0)) / 54);
  inspect(state, R"({"model":"bench","stream":true,"messages":[{"role":"user","content":")" + prose + "\"}]}");
}
BENCHMARK(inspect_one_message)->Arg(256 * 1024);

/// Inspects a chat of so many bytes in messages of some 300, with the anchors of its prompt and without them.
void prefix_keys(benchmark::State& state, bool with) {
  static const metrics::UniversalKey key{{3, 4}};
  const std::string content = repeated("The weir holds 42 litres, and lets the river through. ", 5) + "\\n";
  std::string body = R"({"model":"bench","stream":true,"max_tokens":256,"messages":[)";
  while (body.size() < static_cast<std::size_t>(state.range(0)))
    body += R"({"role":"user","content":")" + content + R"("},{"role":"assistant","content":")" + content + "\"},";
  body.back() = ']';
  inspect(state, body + '}', with ? &key : nullptr);
}
BENCHMARK_CAPTURE(prefix_keys, with, true)->Arg(4096)->Arg(64 * 1024)->Arg(1024 * 1024);
BENCHMARK_CAPTURE(prefix_keys, without, false)->Arg(4096)->Arg(64 * 1024)->Arg(1024 * 1024);

/// Conversations of 26 anchors, as a chat of 4 KiB has, over so many replicas: a look, the entering at the choice, the
/// first token and the answer. Half of the prompts are known.
void prefix_index(benchmark::State& state) {
  const auto replicas = static_cast<balancer::ReplicaIndex>(state.range(0));
  balancer::PrefixIndex index;
  for (balancer::ReplicaIndex i = 0; i < replicas; ++i) index.place({i, i + 1u}, 200'000);
  std::mt19937_64 random(1);
  std::vector<metrics::wire::PromptPrefix> prompts(20'000);
  for (auto& prompt : prompts)
    for (std::uint64_t i = 1; i <= 26; ++i) prompt.anchors.push_back({random() | 1, i * 160});
  for (auto _ : state) {
    const auto& prompt = prompts[random() % (random() % 2 == 0 ? 100 : prompts.size())];
    const auto tokens = index.refine(prompt, 1040);
    index.look(prompt, tokens);
    balancer::ReplicaIndex best = 0;
    for (balancer::ReplicaIndex i = 0; i < replicas; ++i)
      if (index.cached(i, tokens) > index.cached(best, tokens)) best = i;
    const auto prediction = index.sent(prompt, best, tokens);
    index.computed(prompt, prediction, best);
    index.answered(prediction, best, 0, {.prompt = 1040, .cached = prediction.cached, .output = 100});
  }
}
BENCHMARK(prefix_index)->Arg(4)->Arg(12)->Arg(100);

}  // namespace

BENCHMARK_MAIN();
