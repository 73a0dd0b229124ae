#include "tests/integration/faults/plays.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/integration/faults/strikes.hpp"
#include "tests/integration/peers/deaf_port.hpp"

namespace weir::integration {
namespace {

void leave(Fault fault, HttpClient& client) {
  if (fault == Fault::client_resets) return client.reset();
  if (fault == Fault::client_closes) return client.close();
  client.finish_sending();
}

/// Waits for the end that weir makes of the connection of a client that has left, if it still can be seen.
void expect_end_of(const CellRun& run, Stage& stage, Asked& asked) {
  asked.left = true;
  if (run.cell.fault != Fault::client_closes && run.cell.fault != Fault::client_resets) {
    EXPECT_TRUE(asked.client->closed_by_server() || run.cell.phase == Phase::streaming);
  }
  stage.expect_end(asked, run.cell.alone);
}

void leaves(const CellRun& run, Stage& stage, Asked& asked) {
  leave(run.cell.fault, *asked.client);
  expect_end_of(run, stage, asked);
}

void expect_freed_replica(const CellRun& run, std::vector<Clock::duration> took) {
  const std::string departure = std::string(name_of(run.cell.fault)) + " at " + std::string(name_of(run.cell.phase)) +
                                ", " + std::string(name_of(run.transport));
  expect_prompt_close(departure, std::move(took));
}

void leave_while_receiving(const CellRun& run, Stage& stage) {
  auto& asked = stage.asked();
  const auto bytes = stage.request(Stage::Kind::well, asked);
  asked.client->send(bytes.substr(0, bytes.size() - 5));
  // A client that closes with unread bytes at weir is seen to leave all the same.
  leaves(run, stage, asked);
  EXPECT_EQ(stage.replica(0).connections(), 0u);
}

void leave_the_queue(const CellRun& run, Stage& stage) {
  auto& holder = stage.send(Stage::Kind::struck);
  stage.wait_for_struck(1);
  auto& asked = stage.send(Stage::Kind::well);
  stage.wait_for("weir_requests_waiting", 1);
  leaves(run, stage, asked);
  stage.wait_for("weir_requests_waiting", 0);
  leave(Fault::client_closes, *holder.client);
  holder.left = true;
  stage.wait_for_closed(1);
}

/// Returns when weir has no more descriptors than that.
Clock::time_point wait_for_descriptors(const Stage& stage, std::size_t at_most) {
  const auto deadline = Clock::now() + soon;
  while (stage.descriptors() > at_most && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto now = Clock::now();
  EXPECT_LE(stage.descriptors(), at_most) << "a connection is still open for a client that has left";
  return now;
}

void leave_while_connecting(const CellRun& run, Stage& stage) {
  const DeafPort port(stage.end_replica(0));
  const auto before = stage.descriptors();
  std::vector<Clock::duration> took;
  for (std::size_t i = 0; i < departures; ++i) {
    auto& asked = stage.send(Stage::Kind::well);
    stage.wait_for("weir_requests_in_flight", 1);
    const auto left = Clock::now();
    leave(run.cell.fault, *asked.client);
    took.push_back(wait_for_descriptors(stage, before) - left);
    expect_end_of(run, stage, asked);
  }
  expect_freed_replica(run, std::move(took));
}

/// Measures how long weir keeps a replica at work for nobody.
void leave_the_replica_at_work(const CellRun& run, Stage& stage) {
  std::vector<Clock::duration> took;
  stage.strikes(departures);
  for (std::size_t i = 1; i <= departures; ++i) {
    auto& asked = stage.send(Stage::Kind::struck, run.cell.phase == Phase::sending ? does_not_fit : 0);
    stage.wait_for_struck(i);
    if (run.cell.phase == Phase::streaming) stage.read_events(asked, 4);
    const auto left = Clock::now();
    leaves(run, stage, asked);
    took.push_back(stage.wait_for_closed(i) - left);
  }
  expect_freed_replica(run, std::move(took));
}

/// Ends the client's direction. weir's system has the end, or the bridge before it, when the replica goes on.
void end_direction(Stage& stage, Asked& asked) {
  asked.client->finish_sending();
  asked.client->wait_until_taken();
  stage.go_on();
}

/// Where the settings allow it, a client that has ended its direction reads its answer to the end.
void half_close_and_read(const CellRun& run, Stage& stage) {
  const auto phase = run.cell.phase;
  if (phase == Phase::connecting) {
    const DeafPort port(stage.end_replica(0));
    auto& asked = stage.send(Stage::Kind::well);
    stage.wait_for("weir_requests_in_flight", 1);
    end_direction(stage, asked);
    stage.read(asked);
    return stage.expect_end(asked, run.cell.alone);
  }
  stage.strikes(phase == Phase::queued || phase == Phase::sending ? 2 : 1);
  auto& first = stage.send(Stage::Kind::struck, phase == Phase::sending ? does_not_fit : 0);
  stage.wait_for_struck(1);
  if (phase == Phase::streaming) stage.read_events(first, 4);
  Asked* waiter = nullptr;
  if (phase == Phase::queued) {
    waiter = &stage.send(Stage::Kind::struck);
    stage.wait_for("weir_requests_waiting", 1);
  }
  end_direction(stage, waiter != nullptr ? *waiter : first);
  stage.read(first);
  stage.expect_end(first, run.cell.alone);
  if (waiter == nullptr) return;
  stage.read(*waiter);
  stage.expect_end(*waiter, run.cell.waiter);
}

void leave_an_idle_connection(const CellRun& run, Stage& stage) {
  auto& asked = stage.asked();
  asked.client->send(stage.request(Stage::Kind::well, asked));
  stage.read(asked);
  const auto before = stage.descriptors();
  leave(run.cell.fault, *asked.client);
  if (run.cell.fault == Fault::client_half_closes || run.cell.fault == Fault::client_half_closes_and_reads) {
    EXPECT_TRUE(asked.client->closed_by_server());
  }
  wait_for_descriptors(stage, before - 1);
  stage.expect_end(asked, run.cell.alone);
}

void play_stall(const CellRun& run, Stage& stage) {
  auto& asked = stage.asked();
  const auto bytes = stage.request(run.cell.phase == Phase::streaming ? Stage::Kind::struck : Stage::Kind::well, asked);
  if (run.cell.phase == Phase::receiving) {
    asked.client->send(bytes.substr(0, bytes.size() - 5));
    stage.read(asked);
    EXPECT_TRUE(asked.client->closed_by_server());
  } else {
    asked.own = stage.http_client(16 * 1024);
    asked.client = asked.own.get();
    asked.client->send(bytes);
    asked.got = asked.client->response_head();
    asked.left = asked.has_head = true;
    stage.wait_for_closed(1);
    // Later the kernel would give the client up, too.
    EXPECT_EQ(stage.weir().metrics().sum("weir_limit_hits_total", {{"limit", "client_stall"}}), 1);
  }
  stage.expect_end(asked, run.cell.alone);
}

void ask_byte_by_byte(const CellRun& run, Stage& stage) {
  const bool reads = run.cell.phase == Phase::streaming;
  const auto client = stage.http_client(reads ? 4096 : 0);
  for (std::size_t i = 0; i < (run.cell.phase == Phase::keep_alive ? 2 : 1); ++i) {
    auto& asked = stage.asked(client.get());
    const auto bytes = stage.request(Stage::Kind::well, asked);
    if (reads) {
      asked.client->send(bytes);
      asked.client->read_bytewise();
    } else {
      for (std::size_t at = 0; at < bytes.size(); ++at) asked.client->send(bytes.substr(at, 1));
    }
    stage.read(asked);
    stage.expect_end(asked, run.cell.alone);
  }
}

/// More than weir and the kernel hold for a client, so that the replica would go on for ever.
void send_without_end(Exchange& exchange, Stage& stage) {
  exchange.small_send_buffer();
  exchange.send(sse_head());
  const auto many = chunk(vllm_chat(2000).body(false));
  try {
    for (;;) exchange.send(many);
  } catch (const PeerGone&) {
    stage.saw_close(Clock::now());
  }
  exchange.close();
}

}  // namespace

void play_clients_fault(const CellRun& run) {
  const auto [fault, phase] = std::pair(run.cell.fault, run.cell.phase);
  Stage::Wishes wishes{.transport = run.transport};
  const bool reads_on = fault == Fault::client_half_closes_and_reads;
  const auto strikes =
      reads_on ? answers_step_by_step(phase) : waits_for_close(phase == Phase::queued ? Phase::prefill : phase);
  wishes.half_closes = reads_on || fault == Fault::client_half_closes;
  if (reads_on) wishes.server = {{"half_close", "\"allow\""}};
  wishes.at_head = strikes.at_head;
  wishes.strike = strikes.whole;
  if (phase == Phase::queued) {
    wishes.pool = {{"queue", "16"}};
    wishes.of_replica = {{"max_in_flight", "1"}};
  }
  if (phase == Phase::connecting) wishes.limits = {{"connect", reads_on ? "0.6" : "600"}};
  if (fault == Fault::client_stalls) {
    wishes.limits = {{"client_stall", "1"}};
    wishes.strike = send_without_end;
  }
  Stage stage(std::move(wishes));
  if (!reads_on || phase == Phase::keep_alive) stage.go_on();
  if (fault == Fault::client_stalls) {
    play_stall(run, stage);
  } else if (fault == Fault::client_one_byte_at_a_time) {
    ask_byte_by_byte(run, stage);
  } else if (phase == Phase::receiving) {
    leave_while_receiving(run, stage);
  } else if (reads_on && phase != Phase::keep_alive) {
    half_close_and_read(run, stage);
  } else if (phase == Phase::queued) {
    leave_the_queue(run, stage);
  } else if (phase == Phase::connecting) {
    leave_while_connecting(run, stage);
  } else if (phase == Phase::keep_alive) {
    leave_an_idle_connection(run, stage);
  } else {
    leave_the_replica_at_work(run, stage);
  }
  if (phase != Phase::connecting) stage.well();
  stage.expect_rest();
}

}  // namespace weir::integration
