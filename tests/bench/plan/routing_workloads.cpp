#include "tests/bench/plan/routing_workloads.hpp"

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "lab/engine/engine_model.hpp"
#include "tests/bench/plan/workloads.hpp"

namespace weir::lab::plan {
namespace {

using engine::EngineSettings;

std::vector<EngineSettings> with_caches(std::vector<EngineSettings> engines) {
  for (auto& settings : engines) settings.prefix_caching = engine::PrefixCaching::blocks;
  return engines;
}

std::vector<EngineSettings> four_of(std::string_view preset) {
  return with_caches(std::vector<EngineSettings>(4, engine::engine_preset(preset).value()));
}

/// Users who ask one question after the other, all behind the same system text.
struct SharedText {
  std::uint64_t tokens = 0;
  std::size_t users = 0;
  std::string preset;
};

constexpr double shared_seconds = 90;

Workload make_shared_text(const SharedText& shared, std::uint64_t seed) {
  constexpr std::uint64_t question_tokens = 40, answer_tokens = 200;
  constexpr double think = 0.5, users_begin_every = 0.2;
  Workload workload;
  workload.engines = four_of(shared.preset);
  workload.closed_for = shared_seconds;
  // No engine answers faster than its steps, so that no user runs out of questions.
  const double step = std::chrono::duration<double>(workload.engines.front().step_base).count();
  const double least_round = think + 0.97 * step * static_cast<double>(answer_tokens);
  const auto rounds = static_cast<std::size_t>(4.0 / 3 * shared_seconds / least_round) + 1;
  Maker maker(seed);
  const Message system = maker.message(Role::system, shared.tokens);
  for (std::size_t user = 0; user < shared.users; ++user) {
    Maker::Turn turn;
    turn.session = maker.new_session();
    for (std::size_t round = 0; round < rounds; ++round) {
      const std::array messages{system, maker.message(Role::user, question_tokens)};
      const double at = users_begin_every * static_cast<double>(user);
      turn.parent = maker.add(at, turn, messages, maker.message(Role::assistant, answer_tokens));
      turn.think = think;
    }
  }
  workload.requests = std::move(maker.requests);
  put_in_order(workload.requests);
  for (const TracedRequest& request : workload.requests) workload.prompt_tokens += request.prompt_tokens;
  return workload;
}

Workload make_warm_restart(std::uint64_t seed) {
  Workload workload = make_shared_text({10'000, 40, "4090"}, seed);
  workload.script = [](Simulation& simulation, double seconds) {
    simulation.line().at(seconds / 2, [&simulation] { simulation.restart_weir(); });
  };
  return workload;
}

Workload make_added(std::uint64_t seed) {
  Workload workload = make_shared_text({3'000, 24, "4090"}, seed);
  workload.absent = 1;
  workload.script = [](Simulation& simulation, double seconds) {
    simulation.line().at(seconds / 2, [&simulation] { simulation.join(); });
  };
  return workload;
}

/// Questions that come by Poisson and share nothing but a system text.
struct Chat {
  std::size_t requests = 1'100;
  std::uint64_t system_tokens = 0;
  double prompt = 700, prompt_sigma = 0.8;
  double answer = 200, answer_sigma = 0.7;
  double long_share = 0;  ///< So many of the answers are ten times as long.
  double least_prompt = 10, most_prompt = 6'000;
};

std::vector<TracedRequest> make_chat(const Chat& chat, std::uint64_t seed) {
  constexpr double most_answer = 2'000, most_long_answer = 6'000;
  Maker maker(seed);
  maker.max_tokens = static_cast<std::uint64_t>(most_long_answer);
  std::vector<Message> before;
  if (chat.system_tokens > 0) before.push_back(maker.message(Role::system, chat.system_tokens));
  double at = 0;
  for (std::size_t i = 0; i < chat.requests; ++i) {
    at += maker.random.exponential();
    const bool is_long = maker.random.uniform() < chat.long_share;
    const double answer = is_long ? 10 * chat.answer : chat.answer, most = is_long ? most_long_answer : most_answer;
    const std::uint64_t prompt =
        about(maker.random, chat.prompt, chat.prompt_sigma, chat.least_prompt, chat.most_prompt);
    Conversation(maker, at, before, {}).say(prompt, about(maker.random, answer, chat.answer_sigma, 10, most));
  }
  return std::move(maker.requests);
}

Workload chat_on(std::vector<EngineSettings> engines, const Chat& chat, std::uint64_t seed) {
  Workload workload;
  workload.engines = std::move(engines);
  workload.requests = make_chat(chat, seed);
  complete(workload);
  return workload;
}

/// Questions about texts of which the replicas together can hold all, and one of them half of them.
Workload make_many_texts(std::uint64_t seed) {
  constexpr std::size_t texts = 30, requests = 1'500;
  constexpr std::uint64_t text_tokens = 4'000;
  Workload workload;
  workload.engines = with_caches(four_engines());
  Maker maker(seed);
  std::vector<Message> all;
  for (std::size_t i = 0; i < texts; ++i) all.push_back(maker.message(Role::system, text_tokens));
  double at = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    at += maker.random.exponential();
    const auto which = static_cast<std::size_t>(maker.random.uniform() * static_cast<double>(texts)) % texts;
    Conversation(maker, at, {all[which]}, {})
        .say(about(maker.random, 60, 0.5, 10, 300), about(maker.random, 150, 0.5, 10, 600));
  }
  workload.requests = std::move(maker.requests);
  complete(workload);
  return workload;
}

/// Engines as by default, whose prompts may repeat.
Workload chat_on_four(const Chat& chat, std::uint64_t seed) { return chat_on(with_caches(four_engines()), chat, seed); }

Workload make_batch_16(std::uint64_t seed) {
  auto engines = with_caches(four_engines());
  for (auto& settings : engines) settings.max_batch = 16;
  return chat_on(std::move(engines), {}, seed);
}

/// Every 10 s another replica stands still.
Workload make_stalls(std::uint64_t seed) {
  Workload workload = chat_on_four({.requests = 1'000, .long_share = 0.1}, seed);
  workload.script = [seed](Simulation& simulation, double seconds) {
    Random random(seed);
    for (std::size_t k = 1; 10 * static_cast<double>(k) < seconds; ++k) {
      const double at = 10 * static_cast<double>(k) - 4 * random.uniform(), lasts = 1 + 4 * random.uniform();
      simulation.line().at(
          at, [&simulation, k, lasts] { simulation.line().engines[k % 4].stall(simulation.line().now(), lasts); });
    }
  };
  return workload;
}

/// Gives each replica a pace by the number of the period: `pace_of(replica, period)`.
template <class PaceOf>
std::function<void(Simulation&, double)> in_turn(double period, const PaceOf& pace_of) {
  return [period, pace_of](Simulation& simulation, double) {
    for (std::size_t r = 0; r < 4; ++r) {
      const auto pace = [=](double now) { return pace_of(r, static_cast<std::size_t>(now / period)); };
      simulation.line().engines[r].set_pace(pace);
    }
  };
}

Workload make_half_speed_in_turn(std::uint64_t seed) {
  Workload workload = chat_on_four({.requests = 3'000}, seed);
  workload.script = in_turn(60, [](std::size_t r, std::size_t minute) { return minute % 4 == r ? 2.0 : 1.0; });
  return workload;
}

Workload make_rotating(std::uint64_t seed) {
  static constexpr std::array speeds{1.0, 0.5, 2.0, 1.0};
  Workload workload = chat_on_four({.requests = 1'400}, seed);
  workload.capacity *= (speeds[0] + speeds[1] + speeds[2] + speeds[3]) / 4;
  workload.script = in_turn(15, [](std::size_t r, std::size_t turn) { return 1 / speeds[(r + turn) % 4]; });
  return workload;
}

/// From 20 to 80 s one replica needs about 8 s for a prompt of usual length.
Workload make_slow_first(std::uint64_t seed) {
  Workload workload = chat_on_four({.requests = 1'100}, seed);
  workload.script = [](Simulation& simulation, double) {
    constexpr std::size_t slow = 2;
    simulation.line().at(
        20, [&simulation] { simulation.line().engines[slow].set_prefill_time(std::chrono::microseconds(11'000)); });
    simulation.line().at(
        80, [&simulation] { simulation.line().engines[slow].set_prefill_time(EngineSettings{}.per_prefill_token); });
  };
  return workload;
}

Workload make_chat_h800(std::uint64_t seed, double rate, std::size_t requests) {
  Workload workload = chat_on(four_of("h800"), {.requests = requests}, seed);
  workload.own_rate = rate;
  return workload;
}

Workload make_trace(const TraceOptions& traces, std::uint64_t seed) {
  Workload workload;
  workload.engines = four_engines(traces.slow_speed);
  workload.requests =
      requests_of(read_trace_file(traces.conversations), traces.requests, seed, usual_text_spread, traces.in_order);
  for (const TracedRequest& request : workload.requests) workload.prompt_tokens += request.prompt_tokens;
  workload.capacity = capacity_of(workload.engines, workload.requests);
  return workload;
}

}  // namespace

std::vector<NamedWorkload> routing_workloads(const TraceOptions& traces) {
  const std::vector loads{0.5, 0.7, 0.85};
  std::vector<NamedWorkload> all;
  for (const auto& [name, kind] : kind_words) {
    const auto make = [kind, mooncake = traces.mooncake](std::uint64_t seed) {
      return make_workload(kind, seed, mooncake);
    };
    all.push_back({std::string(name), loads, make});
  }
  all.push_back({"trace", loads, [traces](std::uint64_t seed) { return make_trace(traces, seed); }});
  for (const std::uint64_t tokens : {500u, 3'000u, 10'000u, 25'000u}) {
    for (const std::size_t users : {12u, 24u, 60u}) {
      for (const char* const preset : {"4090", "h800", "h20"}) {
        const SharedText shared{tokens, users, preset};
        all.push_back({"shared-" + std::to_string(tokens) + "-" + std::to_string(users) + "-" + preset,
                       {},
                       [shared](std::uint64_t seed) { return make_shared_text(shared, seed); }});
      }
    }
  }
  all.push_back({"warm_restart", {}, make_warm_restart});
  all.push_back({"added", {}, make_added});
  all.push_back({"batch_16", {0.8, 0.9}, make_batch_16});
  all.push_back({"stalls", {0.5, 0.7}, make_stalls});
  all.push_back({"half_speed_in_turn", {0.7}, make_half_speed_in_turn});
  all.push_back({"rotating", {0.7}, make_rotating});
  all.push_back({"long_among_short", {0.7}, [](std::uint64_t seed) {
                   return chat_on_four({.answer = 150, .long_share = 0.1}, seed);
                 }});
  all.push_back({"rag", {0.7}, [](std::uint64_t seed) {
                   const Chat chat{.requests = 400,
                                   .system_tokens = 300,
                                   .prompt = 5'500,
                                   .prompt_sigma = 0.25,
                                   .answer = 150,
                                   .least_prompt = 3'700,
                                   .most_prompt = 7'700};
                   return chat_on_four(chat, seed);
                 }});
  all.push_back({"many_texts", loads, make_many_texts});
  all.push_back({"slow_first", {0.5}, make_slow_first});
  all.push_back({"chat_h800", {}, [](std::uint64_t seed) { return make_chat_h800(seed, 30, 2'700); }});
  all.push_back({"chat_fast", {}, [](std::uint64_t seed) { return make_chat_h800(seed, 2, 300); }});
  return all;
}

}  // namespace weir::lab::plan
