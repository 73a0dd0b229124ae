#include "tests/bench/plan/workloads.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"
#include "metrics/wire/json/writer.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::lab::plan {
namespace {

std::uint64_t answer_length(Random& random) { return about(random, 160, 0.7, 10, 600); }

void make_conversations(Maker& maker, bool two_tenants, std::uint64_t thoughts) {
  constexpr std::size_t conversations = 320;
  constexpr double mean_turns = 5;
  std::vector<Message> systems;
  systems.reserve(8);
  for (int i = 0; i < 8; ++i)
    systems.push_back(maker.message(Role::system, about(maker.random, 1'500, 0.5, 500, 4'000)));
  Arrivals arrivals;
  for (std::size_t c = 0; c < conversations; ++c) {
    const double at = arrivals.next(maker.random, mean_turns);
    Maker::Turn turn;
    turn.thoughts = thoughts;
    if (two_tenants) turn.salt = c % 2 == 0 ? "a" : "b";
    Conversation conversation(maker, at, {systems[maker.random.below(systems.size())]}, turn);
    const std::uint64_t turns = 2 + maker.random.below(7);
    for (std::uint64_t t = 0; t < turns; ++t) {
      conversation.say(about(maker.random, 250, 1.0, 10, 4'000), answer_length(maker.random),
                       8 * maker.random.exponential());
    }
  }
}

/// A step of an agent: a tool has answered, and the model calls the next.
std::size_t step(Maker& maker, Conversation& agent) {
  return agent.say(about(maker.random, 400, 1.0, 20, 6'000), about(maker.random, 80, 0.6, 10, 400),
                   1.5 * maker.random.exponential());
}

void make_agents(Maker& maker) {
  constexpr std::size_t agents = 32;
  constexpr double mean_requests = 26;
  std::vector<Message> systems;
  systems.reserve(3);
  for (int i = 0; i < 3; ++i) systems.push_back(maker.message(Role::system, 5'000));
  Arrivals arrivals;
  for (std::size_t a = 0; a < agents; ++a) {
    const Message system = systems[maker.random.below(systems.size())];
    Conversation agent(maker, arrivals.next(maker.random, mean_requests), {system}, {});
    agent.say(about(maker.random, 600, 0.8, 50, 4'000), about(maker.random, 80, 0.6, 10, 400));
    const std::uint64_t steps = 8 + maker.random.below(17), spawns = 1 + maker.random.below(steps);
    for (std::uint64_t s = 1; s <= steps; ++s) {
      const std::size_t place = step(maker, agent);
      if (s != spawns) continue;
      const Message task = maker.message(Role::user, 1'500);
      const std::uint64_t siblings = 2 + maker.random.below(4);
      for (std::uint64_t n = 0; n < siblings; ++n) {
        Maker::Turn turn;
        turn.parent = place;
        Conversation sibling(maker, agent.at(), {system, task}, turn);
        for (int t = 0; t < 3; ++t) step(maker, sibling);
      }
    }
  }
}

/// Requests on one of these texts, or on none, one after the other.
void make_shared(Maker& maker, std::size_t requests, std::span<const Message> shared, double share) {
  Arrivals arrivals;
  for (std::size_t i = 0; i < requests; ++i) {
    const double at = arrivals.next(maker.random, 1);
    std::vector<Message> before;
    if (maker.random.uniform() < share) before.push_back(shared[maker.random.below(shared.size())]);
    Conversation(maker, at, before, {})
        .say(about(maker.random, before.empty() ? 800 : 200, 0.8, 10, 6'000), answer_length(maker.random));
  }
}

void make_documents(Maker& maker, const Workload& workload, std::uint64_t times) {
  constexpr std::uint64_t length = 2'000;
  std::uint64_t caches = 0;
  for (const auto& settings : workload.engines) caches += settings.kv_tokens;
  std::vector<Message> documents;
  while (documents.size() * length < times * caches) documents.push_back(maker.message(Role::system, length));
  make_shared(maker, 1'500, documents, 1);
}

void make_cold_siblings(Maker& maker) {
  constexpr std::size_t groups = 40, siblings = 16;
  Arrivals arrivals;
  for (std::size_t g = 0; g < groups; ++g) {
    const double at = arrivals.next(maker.random, siblings);
    const Message shared = maker.message(Role::system, about(maker.random, 4'000, 0.4, 1'000, 12'000));
    for (std::size_t n = 0; n < siblings; ++n) {
      Conversation(maker, at, {shared}, {}).say(about(maker.random, 100, 0.6, 10, 600), answer_length(maker.random));
    }
  }
}

void make_long_contexts(Maker& maker) {
  constexpr std::size_t documents = 60;
  Arrivals arrivals;
  for (std::size_t d = 0; d < documents; ++d) {
    const double at = arrivals.next(maker.random, 4);
    const Message document = maker.message(Role::system, 15'000 + maker.random.below(45'000));
    Conversation conversation(maker, at, {document}, {});
    const std::uint64_t questions = 2 + maker.random.below(5);
    for (std::uint64_t q = 0; q < questions; ++q) {
      conversation.say(about(maker.random, 60, 0.8, 5, 500), answer_length(maker.random),
                       10 * maker.random.exponential());
    }
  }
}

/// Each of the trace's blocks is a message of its own, so that prompts part where the trace's do. The template's
/// tokens are taken from the messages.
void make_mooncake(Maker& maker, const std::string& path) {
  const auto trace = load::read_trace_file(path);
  const double rate = static_cast<double>(trace.size() - 1) / trace.back().at;
  std::unordered_map<std::uint64_t, Message> known;
  for (const TraceEntry& entry : trace) {
    std::vector<Message> messages;
    std::uint64_t left = entry.prompt_tokens;
    for (const std::uint64_t id : entry.blocks) {
      if (left <= 4) break;
      const std::uint64_t tokens = std::min(left, entry.block_tokens);
      left -= tokens;
      if (tokens < entry.block_tokens) {
        messages.push_back(maker.message(Role::user, tokens - 4));
        continue;
      }
      const auto [place, fresh] = known.try_emplace(id);
      if (fresh) place->second = maker.message(Role::user, tokens - 4);
      messages.push_back(place->second);
    }
    if (left > 4) messages.push_back(maker.message(Role::user, left - 4));
    if (messages.empty()) messages.push_back(maker.message(Role::user, 1));
    Maker::Turn turn;
    turn.session = maker.new_session();
    maker.add(entry.at * rate, turn, messages, maker.message(Role::assistant, entry.output_tokens));
  }
}

/// Returns how many prompt tokens a cache of so many tokens would save, if one request came after the other.
std::uint64_t saved_by(std::uint64_t kv_tokens, std::span<const TracedRequest> requests) {
  engine::BlockMemory memory(kv_tokens, engine::block_tokens);
  std::uint64_t saved = 0;
  for (const TracedRequest& request : requests) {
    const engine::Sequence sequence{0, request.prompt_tokens, request.output_tokens, request.blocks};
    saved += memory.admit(sequence).value();
    memory.computed(sequence, sequence.tokens() - 1);  // Keys and values of the last token are not there.
    memory.release(sequence);
  }
  return saved;
}

void count_tokens(Workload& workload) {
  std::uint64_t all = 0;
  for (const TracedRequest& request : workload.requests) {
    workload.prompt_tokens += request.prompt_tokens;
    all += request.prompt_tokens + request.output_tokens + engine::block_tokens;
  }
  workload.repeated = saved_by(all, workload.requests);
}

/// A step lasts longer by each token of prefill, so what is saved is time. Engines differ in speed alone.
double capacity_with_reuse(const Workload& workload) {
  engine::EngineSettings settings = workload.engines.front();
  settings.prefix_caching = engine::PrefixCaching::none;
  std::uint64_t caches = 0;
  for (std::size_t e = 0; e + workload.absent < workload.engines.size(); ++e) caches += workload.engines[e].kv_tokens;
  const auto saved = static_cast<double>(saved_by(caches, workload.requests));
  const double token_takes = static_cast<double>(settings.per_prefill_token.count()) * 1e-9 / settings.speed;
  const double saves = saved / static_cast<double>(workload.requests.size()) * token_takes;
  const double of_first = 1 / (1 / capacity_of(settings, workload.requests) - saves);
  double sum = 0;
  for (std::size_t e = 0; e + workload.absent < workload.engines.size(); ++e)
    sum += of_first * workload.engines[e].speed / settings.speed;
  return sum;
}

std::vector<engine::EngineSettings> engines_of(Kind kind) {
  std::vector<engine::EngineSettings> engines = four_engines(kind == Kind::slow_replica ? 0.5 : 1);
  if (kind == Kind::join) engines.push_back(engines.front());
  // As a model of 13B on the same card.
  const bool large = kind == Kind::agents || kind == Kind::long_contexts || kind == Kind::mooncake;
  for (auto& settings : engines) {
    settings.speed *= 0.5;
    settings.prefix_caching = engine::PrefixCaching::blocks;
    settings.kv_tokens = large ? 400'000 : 100'000;
  }
  return engines;
}

/// Returns a script that restarts, flushes or adds the last replica in the middle of the arrivals.
std::function<void(Simulation&, double)> script_of(Kind kind) {
  constexpr std::size_t one = 3;
  const auto in_the_middle = [](auto what) {
    return [what](Simulation& simulation, double seconds) {
      simulation.line().at(seconds / 2, [&simulation, what] { what(simulation); });
    };
  };
  switch (kind) {
    case Kind::restart:
      return in_the_middle([](Simulation& simulation) { simulation.restart(one); });
    case Kind::flush:
      return in_the_middle([](Simulation& simulation) { simulation.line().engines[one].flush(); });
    case Kind::join:
      return in_the_middle([](Simulation& simulation) { simulation.join(); });
    default:
      return {};
  }
}

}  // namespace

void put_in_order(std::vector<TracedRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Children were made behind their parents, and come with the first of their conversation.
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return requests[i].at; });
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<TracedRequest> sorted;
  for (const std::size_t i : order) {
    sorted.push_back(std::move(requests[i]));
    if (sorted.back().parent) sorted.back().parent = place[*sorted.back().parent];
  }
  requests = std::move(sorted);
}

void complete(Workload& workload) {
  put_in_order(workload.requests);
  count_tokens(workload);
  workload.capacity = capacity_with_reuse(workload);
}

double Workload::rate(double load) const {
  if (closed_for) return rate_of(requests);
  return own_rate.value_or(load * capacity);
}

double Workload::seconds(double load) const {
  return closed_for.value_or(static_cast<double>(requests.size()) / rate(load));
}

Workload make_workload(Kind kind, std::uint64_t seed, const std::string& mooncake) {
  Workload workload;
  workload.engines = engines_of(kind);
  Maker maker(seed);
  switch (kind) {
    case Kind::agents:
      make_agents(maker);
      break;
    case Kind::hot_prefix:
      make_shared(maker, 700, std::vector{maker.message(Role::system, 3'000)}, 0.75);
      break;
    case Kind::cold_siblings:
      make_cold_siblings(maker);
      break;
    case Kind::no_reuse:
      make_shared(maker, 700, {}, 0);
      break;
    case Kind::long_contexts:
      make_long_contexts(maker);
      break;
    case Kind::twice_the_cache:
      make_documents(maker, workload, 2);
      break;
    case Kind::four_times_the_cache:
      make_documents(maker, workload, 4);
      break;
    case Kind::mooncake:
      make_mooncake(maker, mooncake);
      break;
    case Kind::tenants:
      make_conversations(maker, true, 0);
      break;
    case Kind::reasoning:
      make_conversations(maker, false, 200);
      break;
    default:
      make_conversations(maker, false, 0);
  }
  if (kind == Kind::wrong_reports) workload.cache_report = engine::CacheReport::half;
  if (kind == Kind::missing_reports) workload.cache_report = engine::CacheReport::none;
  if (kind == Kind::join) workload.absent = 1;
  workload.script = script_of(kind);
  workload.requests = std::move(maker.requests);
  complete(workload);
  return workload;
}

Results serve(const Workload& workload, Setup setup, double load) {
  setup.engines = workload.engines;
  setup.absent = workload.absent;
  setup.cache_report = workload.cache_report;
  setup.kv_tokens_known = true;
  setup.probes = !setup.peer && workload.script;
  Simulation simulation(setup);
  if (workload.script) workload.script(simulation, workload.seconds(load));
  const double last = workload.closed_for ? 4.0 / 3 * *workload.closed_for : never;
  return simulation.serve(workload.requests, workload.rate(load), never, last);
}

namespace {

const metrics::UniversalKey prefix_key{{1, 2}};

using engine::PromptBlocks;

constexpr std::uint64_t begin_tokens = 3, header_tokens = 3;
constexpr std::uint64_t begin_of_text = 1, message_begins = 2, line_break = 3, message_ends = 4;

void add_text(PromptBlocks& blocks, std::uint64_t text, std::uint64_t tokens) {
  for (std::uint64_t i = 0; i < tokens; ++i) blocks.add(text << 32 | i);
}

void begin_message(PromptBlocks& blocks, Role role) {
  for (const std::uint64_t token : {message_begins, 5 + static_cast<std::uint64_t>(role), line_break})
    blocks.add(token);
}

std::vector<std::uint64_t> blocks_of(const Maker::Turn& turn, std::span<const Message> messages, const Message& answer,
                                     std::string_view salt) {
  PromptBlocks blocks(salt);
  for (std::uint64_t i = 0; i < begin_tokens; ++i) blocks.add(begin_of_text);
  for (const Message& one : messages) {
    begin_message(blocks, one.role);
    add_text(blocks, one.text, one.tokens);
    blocks.add(message_ends);
  }
  begin_message(blocks, Role::assistant);
  add_text(blocks, ~answer.text, turn.thoughts);
  add_text(blocks, answer.text, answer.tokens);
  blocks.add(message_ends);
  return blocks.take();
}

}  // namespace

std::size_t Maker::add(double at, const Turn& turn, std::span<const Message> messages, const Message& answer) {
  TracedRequest& request = requests.emplace_back();
  request.at = at;
  request.parent = turn.parent;
  request.think = turn.think;
  request.session = turn.session;
  request.prompt_tokens = begin_tokens + header_tokens;
  for (const Message& one : messages) request.prompt_tokens += header_tokens + one.tokens + 1;
  request.output_tokens = turn.thoughts + answer.tokens + 1;
  request.blocks = blocks_of(turn, messages, answer, turn.salt);
  if (!turn.salt.empty()) request.unsalted = blocks_of(turn, messages, answer, {});
  const std::string body = body_of(messages, turn.salt);
  metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions", nullptr,
                                            &prefix_key);
  inspector.feed(body);
  request.facts = std::make_shared<const metrics::wire::RequestFacts>(inspector.finish());
  request.prefix = inspector.take_prefix();
  return requests.size() - 1;
}

const std::string& Maker::words_of(const Message& message) {
  std::string& text = words_[message.text];
  if (!text.empty()) return text;
  Random random_of_text(seed_ * 0x9e3779b97f4a7c15u + message.text);
  const double written =
      static_cast<double>(message.tokens) / 1.5 * std::exp(usual_text_spread * random_of_text.normal());
  const auto tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(written)));
  return text = engine::prompt_text(tokens, random_of_text);
}

std::string Maker::body_of(std::span<const Message> messages, const std::string& salt) {
  static constexpr std::string_view roles[]{"system", "user", "assistant"};
  metrics::wire::JsonWriter body;
  body.open('{').key("model").text("sim-7b").key("messages").open('[');
  for (const Message& one : messages) {
    body.open('{').key("role").text(roles[static_cast<std::size_t>(one.role)]);
    body.key("content").text(words_of(one)).close('}');
  }
  body.close(']').key("max_tokens").count(max_tokens).key("stream").boolean(true);
  if (!salt.empty()) body.key("cache_salt").text(salt);
  body.key("stream_options").open('{').key("include_usage").boolean(true).close('}');
  return body.close('}').written();
}

std::uint64_t about(Random& random, double median, double sigma, double least, double most) {
  return static_cast<std::uint64_t>(std::clamp(median * std::exp(sigma * random.normal()), least, most));
}

}  // namespace weir::lab::plan
