#include "tests/integration/faults/plays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <ranges>

#include "tests/integration/faults/strikes.hpp"
#include "tests/integration/peers/deaf_port.hpp"
#include "tests/integration/peers/simulated_replica.hpp"

namespace weir::integration {
namespace {

Stage::Wishes wishes_of(const CellRun& run) {
  const auto [fault, phase] = std::pair(run.cell.fault, run.cell.phase);
  Stage::Wishes wishes{.transport = run.transport};
  wishes.half_closes = fault == Fault::half_close;
  wishes.replicas = run.company == Company::alone ? 1 : 2;
  if (phase == Phase::queued) {
    wishes.pool = {
        {"queue", "16"}, {"queue_time", run.cell.fault == Fault::killed ? "2" : "20"}, {"queue_time_down", "0.5"}};
    wishes.of_replica = {{"max_in_flight", "1"}};
  }
  // The replica that is well gets a large body within the time, too, and small pieces of it through a bridge.
  const auto* const longest = phase != Phase::sending ? "0.5" : run.transport == Transport::tls ? "5" : "1.5";
  if (fault == Fault::stall) wishes.limits = {{"first_token", longest}, {"between_tokens", "0.5"}};
  if (fault == Fault::no_answer_to_connect) {
    wishes.limits = {{"connect", "0.4"}};
    wishes.pool["queue_time"] = "0.6";
  }
  const auto at_phase = run.cell.fault == Fault::early_4xx ? Phase::sending : phase;
  const auto strikes = strikes_of(fault, at_phase);
  wishes.at_head = strikes.at_head;
  wishes.strike = strikes.whole;
  return wishes;
}

std::string_view expected_of(const CellRun& run) {
  return run.company == Company::alone ? run.cell.alone : run.cell.beside;
}

/// The fault befalls the request that has the only place, while another one waits for it.
void play_queued(const CellRun& run, Stage& stage) {
  auto& holder = stage.send(Stage::Kind::struck);
  stage.wait_for_struck(1);
  const bool streams = run.cell.fault == Fault::reset_mid_stream || run.cell.fault == Fault::fin_mid_chunk;
  if (streams) stage.read_events(holder, 3);
  auto& waiter = stage.send(Stage::Kind::well);
  if (run.cell.fault != Fault::stall) stage.wait_for("weir_requests_waiting", 1);
  stage.go_on();
  stage.read(holder);
  stage.read(waiter);
  stage.expect_end(holder, expected_of(run));
  stage.expect_end(waiter, run.cell.waiter);
}

/// The fault befalls an idle connection, or the second request on one.
void play_keep_alive(const CellRun& run, Stage& stage) {
  const auto client = stage.http_client();
  const bool spoilt = run.cell.fault == Fault::garbage_after_the_response;
  const bool idle = spoilt || run.cell.fault == Fault::half_close;
  if (idle) {
    auto& first = stage.send(Stage::Kind::struck, 0, client.get());
    stage.read(first);
    stage.expect_end(first, "ok 200");
    if (spoilt) stage.wait_until_spoilt();
  } else {
    stage.well(client.get());
    if (run.company == Company::beside) stage.well(client.get());
  }
  auto& second = stage.send(idle ? Stage::Kind::well : Stage::Kind::struck,
                            run.cell.fault == Fault::early_4xx ? does_not_fit : 0, client.get());
  stage.read(second);
  stage.expect_end(second, expected_of(run));
}

void play_exchange(const CellRun& run, Stage& stage) {
  auto& asked = stage.send(Stage::Kind::struck, run.cell.phase == Phase::sending ? does_not_fit : 0);
  stage.read(asked);
  stage.expect_end(asked, expected_of(run));
}

/// The first replica is there no more, or does not answer, when weir connects to it.
void play_connecting(const CellRun& run, Stage& stage) {
  const bool deaf = run.cell.fault == Fault::no_answer_to_connect;
  const auto client = stage.http_client();
  const std::size_t requests = run.company == Company::alone ? 1 : 2;
  if (run.cell.phase == Phase::keep_alive)
    for (std::size_t i = 0; i < requests; ++i) stage.well(client.get());
  std::optional<DeafPort> port;
  if (run.cell.fault == Fault::reset_before_head) {
    stage.replica(0).resets_connections(1);
  } else {
    const auto number = stage.end_replica(0);
    if (deaf) port.emplace(number);
  }
  for (std::size_t i = 0; i < requests; ++i) {  // One of them goes to the first replica first.
    auto& asked = stage.send(Stage::Kind::struck, 0, run.cell.phase == Phase::keep_alive ? client.get() : nullptr);
    Asked* waiter = deaf && run.cell.phase == Phase::queued ? &stage.send(Stage::Kind::well) : nullptr;
    stage.read(asked);
    if (run.cell.fault == Fault::reset_before_head && run.company == Company::alone) {
      // The reset comes before weir sees that it is connected, or after.
      EXPECT_THAT(stage.end_of(asked), ::testing::AnyOf(expected_of(run), "upstream_error 502")) << asked.got.body;
    } else {
      stage.expect_end(asked, expected_of(run));
    }
    if (waiter == nullptr) continue;
    stage.read(*waiter);
    stage.expect_end(*waiter, run.cell.waiter);
  }
}

/// A process that is a replica is killed. It runs at such a pace that it has not finished by then.
void play_killed(const CellRun& run, Stage& stage, SimulatedReplica& replica) {
  const auto client = stage.http_client();
  const std::size_t requests = run.company == Company::alone ? 1 : 2;
  const bool stopped = run.cell.phase == Phase::sending;
  if (run.cell.phase == Phase::keep_alive) {
    for (std::size_t i = 0; i < requests; ++i) stage.well(client.get());
    replica.process().send(SIGKILL);
    replica.process().wait(patience);
  }
  if (stopped) replica.process().send(SIGSTOP);
  std::vector<Asked*> asked;
  for (std::size_t i = 0; i < requests; ++i)
    asked.push_back(&stage.send(Stage::Kind::struck, stopped ? does_not_fit : 0,
                                run.cell.phase == Phase::keep_alive ? client.get() : nullptr));
  if (run.cell.phase == Phase::queued) {
    asked.push_back(&stage.send(Stage::Kind::well));
    if (run.company == Company::alone) stage.wait_for("weir_requests_waiting", 1);
  }
  if (run.cell.phase == Phase::streaming)
    for (auto* one : asked) stage.read_events(*one, 3);
  if (run.cell.phase == Phase::prefill || stopped)
    stage.weir().metrics_when("the replica to have a request", [](const MetricsPage& page) {
      return page.sum("weir_requests_in_flight", {{"replica", "r0"}}) > 0;
    });
  replica.process().send(SIGKILL);
  for (auto* one : asked) stage.read(*one);
  for (auto* one : asked) {
    const bool struck = run.cell.phase != Phase::streaming || one->got.head.field("x-weir-replica") == "r0";
    const bool waited = run.cell.phase == Phase::queued && run.company == Company::alone && one == asked.back();
    stage.expect_end(*one, waited ? run.cell.waiter : struck ? expected_of(run) : "ok 200");
  }
}

/// Stray bytes behind an answer may be followed by more, so the connection serves no further request.
void expect_no_more_on_the_struck_connection(Stage& stage) {
  const auto requests = stage.replica(0).requests();
  const auto struck =
      std::ranges::find_if(requests, [](const ReceivedRequest& one) { return one.head.has("x-strike"); });
  if (struck == requests.end()) return;  // It went to the other replica.
  for (const auto& later : std::ranges::subrange(std::next(struck), requests.end()))
    EXPECT_NE(later.connection, struck->connection) << "request " << later.number;
}

}  // namespace

void play_replicas_fault(const CellRun& run) {
  auto wishes = wishes_of(run);
  if (run.cell.fault == Fault::killed) {
    const bool is_slow = run.cell.phase == Phase::prefill || run.cell.phase == Phase::queued;
    SimulatedReplica mortal({"--step-ms", is_slow ? "20000" : "20", "--model", "m"});
    wishes.other_url = mortal.url();
    Stage stage(std::move(wishes));
    play_killed(run, stage, mortal);
    if (run.company == Company::beside) stage.well();
    return stage.expect_rest();
  }
  Stage stage(std::move(wishes));
  if (run.cell.phase != Phase::queued) stage.go_on();
  const bool connects = run.cell.fault == Fault::refuse || run.cell.fault == Fault::no_answer_to_connect ||
                        (run.cell.fault == Fault::reset_before_head && run.cell.phase == Phase::connecting);
  if (connects) {
    play_connecting(run, stage);
  } else if (run.cell.phase == Phase::queued) {
    play_queued(run, stage);
  } else if (run.cell.phase == Phase::keep_alive) {
    play_keep_alive(run, stage);
  } else {
    play_exchange(run, stage);
  }
  const bool any_left = !connects || run.company == Company::beside || run.cell.fault == Fault::reset_before_head;
  if (any_left) stage.well();
  if (run.cell.fault == Fault::garbage_after_the_response) expect_no_more_on_the_struck_connection(stage);
  stage.expect_rest();
}

}  // namespace weir::integration
