// A rollout of a fleet of two replicas, in made-up time, with its file in a directory of the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/rollout/rollouts.hpp"

namespace weir::proxy::rollout {

class RolloutsOfAFleet : public ::testing::Test {
 protected:
  using Wish = Rollouts::Wish;

  RolloutsOfAFleet() { std::filesystem::create_directories(path); }
  ~RolloutsOfAFleet() override { std::filesystem::remove_all(path); }

  config::Settings settings() const {
    config::Settings all;
    all.admin.state = path;
    config::Pool pool;
    pool.name = "chat";
    for (const std::string name : {"old", "new"}) {
      config::Replica replica;
      replica.name = name;
      replica.config = name;
      replica.url = {"127.0.0.1", 8000, "/" + name, "127.0.0.1:8000"};
      pool.replicas.push_back(replica);
    }
    all.pools = {pool};
    all.slos = {{"fast", "chat", config::Seconds(1), {}, {}, {}}};
    config::Rollout rollout;
    rollout.name = "fp8";
    rollout.pool = "chat";
    rollout.candidate = "new";
    rollout.slo = "fast";
    rollout.steps = {
        {false, 0.05, config::Seconds(60)}, {false, 0.5, config::Seconds(60)}, {false, 1, config::Seconds(0)}};
    all.rollouts = {rollout};
    return all;
  }
  /// The same with a shadow of the replica `old`, to which the first step of the rollout mirrors for a minute.
  config::Settings mirrored_settings() const {
    auto all = settings();
    config::Shadow& shadow = all.shadows.emplace_back();
    shadow.name = "mirror";
    shadow.of = "chat";
    shadow.twin = "old";
    shadow.replicas = {all.pools[0].replicas[1]};
    shadow.replicas[0].name = "copy";
    auto& rollout = all.rollouts[0];
    rollout.shadow = "mirror";
    rollout.steps.insert(rollout.steps.begin(), {true, 0, config::Seconds(60)});
    return all;
  }
  void begin() {
    rollouts.reset();
    rollouts.emplace(context, fleet, history, slow, read_rollouts(path));
    rollouts->adopt(now);
    finish_writing();
  }
  /// Begins with a rollout in its first live step, as an earlier weir left it: nothing was worse in a shadow step, and
  /// so many requests have ended since that it passes after its least time.
  void begin_about_to_pass() {
    KeptRollouts kept;
    auto& one = kept.rollouts["fp8"] = {"chat", "new", {}};
    one.standing.state = balancer::rollout::State::live;
    one.standing.share = 0.05;
    one.standing.in_step = 30;
    one.standing.shadow_passed = true;
    one.standing.failures.candidate = balancer::rollout::Machine::least_requests;
    one.standing.failures.stable = 19 * one.standing.failures.candidate;
    EXPECT_EQ(write_rollouts(path, kept), std::nullopt);
    begin();
    tick();
    finish_slow_answers();  // The gate is unknown.
  }
  void adopt(const config::Settings& wanted) {
    fleet.adopt(wanted);
    rollouts->adopt(now);
    finish_writing();
  }
  ApiAnswer answer_to(Wish wanted, std::string_view body = {}) {
    auto answer = rollouts->carry_out("fp8", wanted, now, body);
    finish_writing();
    return answer;
  }
  unsigned ask(Wish wanted) { return answer_to(wanted).status; }
  /// A write is work of the context until its outcome is told.
  void finish_writing() {
    context.restart();
    context.run();
  }
  void finish_slow_answers() {
    for (; slow.under_way() > 0; context.restart()) context.run_for(std::chrono::milliseconds(1));
  }
  void tick() {
    now += std::chrono::seconds(1);
    rollouts->tick(now);
    finish_writing();
  }
  std::optional<double> share() const { return fleet.snapshot()->pools[0]->balancer->split().share; }
  std::string state() const {
    return std::string(boost::json::parse(rollouts->list().body).at("rollouts").at(0).at("state").as_string());
  }
  void show(std::size_t replica, balancer::Sign sign, int times) {
    const auto& pool = *fleet.snapshot()->pools[0];
    for (int i = 0; i < times; ++i) pool.balancer->health().report(pool.replicas[replica]->key, sign, now);
  }
  std::uint64_t moves(std::string_view reason) const {
    const auto all = rollouts->gauges();
    for (const auto& [name, count] : all.at(0).moves)
      if (name == reason) return count;
    return 0;
  }
  /// A request of the pool ended, after this time to the first token.
  void end_request(const std::string& config, std::chrono::milliseconds ttft,
                   metrics::Outcome outcome = metrics::Outcome::ok) {
    metrics::record::RequestRecord record;
    record.id = std::string(24, '0') + std::to_string(10'000'000 + ++pairs);
    record.pool = "chat";
    record.replica = record.config = config;
    record.facts.stream = true;
    record.outcome = outcome;
    record.time = first_pair + std::chrono::duration_cast<std::chrono::microseconds>(now - began);
    record.received = now;
    record.sent = now;
    record.answer.first_token = now + ttft;
    record.answer.end = now + ttft;
    finished.put(std::move(record));
  }

  /// A request of the replica `old` and its shadow ended, for these reasons. It came so much later than the first one.
  void end_pair(const std::string& reason, const std::string& reason_of_shadow, std::chrono::milliseconds later = {}) {
    metrics::record::RequestRecord primary;
    primary.time = first_pair + std::chrono::duration_cast<std::chrono::microseconds>(now + later - began);
    primary.id = std::string(24, '0') + std::to_string(10'000'000 + ++pairs);
    primary.pool = "chat";
    primary.replica = primary.config = "old";
    primary.facts.stream = true;
    primary.outcome = metrics::Outcome::ok;
    primary.shadows = 1;
    primary.received = now + later;
    primary.sent = primary.received;
    primary.answer.first_token = primary.received + std::chrono::milliseconds(100);
    primary.answer.last_choice = primary.answer.end = primary.received + std::chrono::milliseconds(200);
    primary.answer.first_output_tokens = 1;
    primary.answer.prompt_tokens = primary.answer.output_tokens = 100;
    primary.answer.finish_reason = reason;
    auto shadow = primary;
    shadow.id = std::string(8, 'f') + primary.id.substr(8);
    shadow.role = metrics::Role::shadow;
    shadow.shadows = 0;
    shadow.pool = "chat:shadow";
    shadow.replica = "copy";
    shadow.config = "new";
    shadow.answer.finish_reason = reason_of_shadow;
    shadow.mirrored.make().pair = primary.id;
    shadow.mirrored.make().shadow = "mirror";
    finished.put(std::move(primary));
    finished.put(std::move(shadow));
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir-rollouts-of-a-fleet-" + std::to_string(::getpid()));
  boost::asio::io_context context{1};
  metrics::series::Exposition exposition{1, {"test", "test"}};
  fleet::Fleet fleet{settings(), exposition, 1};
  metrics::record::RequestLog log{"", "weir"};
  metrics::record::FinishedRecords finished;
  History history{log};
  SlowAnswers slow{context};
  std::optional<Rollouts> rollouts;
  const metrics::Moment began = std::chrono::steady_clock::now();
  metrics::Moment now = began;
  const std::chrono::system_clock::time_point first_pair = std::chrono::system_clock::now() + std::chrono::seconds(1);
  int pairs = 0;
};

/// A directory in the place of the file beside it, so that it cannot be written, as on a full disk.
class RolloutsOnAFullDisk : public RolloutsOfAFleet {
 protected:
  void fill_disk() const { std::filesystem::create_directories(path / "rollouts.json.new" / "full"); }
  void make_room() const { std::filesystem::remove_all(path / "rollouts.json.new"); }
  double share_after_restart() {
    fleet::Fleet next(settings(), exposition, 2);
    Rollouts again(context, next, history, slow, read_rollouts(path));
    again.adopt(now);
    finish_writing();
    return *next.snapshot()->pools[0]->balancer->split().share;
  }
};

}  // namespace weir::proxy::rollout
