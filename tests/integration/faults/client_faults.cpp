#include "tests/integration/faults/client_faults.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include "tests/integration/faults/strikes.hpp"
#include "tests/integration/peers/deaf_port.hpp"

namespace weir::integration {
namespace {

/// A client that leaves frees the replica within so long, in the median. The goal is a tenth of it.
constexpr std::chrono::milliseconds closes_within{500};
constexpr std::size_t rounds = 3;

void leave(Fault fault, HttpClient& client) {
  if (fault == Fault::client_resets) return client.reset();
  if (fault == Fault::client_closes) return client.close();
  client.finish_sending();
}

/// Leaves, and waits for the end that weir then makes of the connection, if it still can be seen.
void leaves(const CellRun& run, Stage& stage, Asked& asked) {
  leave(run.cell.fault, *asked.client);
  asked.left = true;
  if (run.cell.fault == Fault::client_half_closes) {
    EXPECT_TRUE(asked.client->closed_by_server() || run.cell.phase == Phase::streaming);
  }
  stage.expect_end(asked, run.cell.alone);
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

void leave_while_connecting(const CellRun& run, Stage& stage) {
  const DeafPort port(stage.end_replica(0));
  const auto before = stage.descriptors();
  auto& asked = stage.send(Stage::Kind::well);
  stage.wait_for("weir_requests_in_flight", 1);
  leaves(run, stage, asked);
  const auto deadline = Clock::now() + soon;
  while (stage.descriptors() > before && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(stage.descriptors(), before) << "weir still connects for a client that has left";
}

/// Measures how long weir keeps a replica at work for nobody.
void leave_the_replica_at_work(const CellRun& run, Stage& stage) {
  std::vector<double> took;
  stage.strikes(rounds);
  for (std::size_t i = 1; i <= rounds; ++i) {
    auto& asked = stage.send(Stage::Kind::struck, run.cell.phase == Phase::sending ? does_not_fit : 0);
    stage.wait_for_struck(i);
    if (run.cell.phase == Phase::streaming) stage.read_events(asked, 4);
    const auto left = Clock::now();
    leaves(run, stage, asked);
    took.push_back(std::chrono::duration<double, std::milli>(stage.wait_for_closed(i) - left).count());
  }
  std::ranges::sort(took);
  EXPECT_LT(took[rounds / 2], closes_within.count()) << "ms";
  std::cout << "the replica's connection was closed after " << took[rounds / 2] << " ms, in the median\n";
}

void leave_an_idle_connection(const CellRun& run, Stage& stage) {
  auto& asked = stage.asked();
  asked.client->send(stage.request(Stage::Kind::well, asked));
  stage.read(asked);
  const auto before = stage.descriptors();
  leave(run.cell.fault, *asked.client);
  if (run.cell.fault == Fault::client_half_closes) {
    EXPECT_TRUE(asked.client->closed_by_server());
  }
  const auto deadline = Clock::now() + soon;
  while (stage.descriptors() >= before && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LT(stage.descriptors(), before) << "the connection is still open";
  stage.expect_end(asked, run.cell.alone);
}

void play_stall(const CellRun& run, Stage& stage) {
  auto& asked = stage.asked();
  const auto bytes = stage.request(run.cell.phase == Phase::streaming ? Stage::Kind::struck : Stage::Kind::well, asked);
  if (run.cell.phase == Phase::receiving) {
    asked.client->send(bytes.substr(0, bytes.size() - 5));
    stage.read(asked);
    EXPECT_TRUE(asked.client->closed_by_server());
  } else if (run.cell.phase == Phase::streaming) {
    asked.own = stage.http_client(16 * 1024);
    asked.client = asked.own.get();
    asked.client->send(bytes);
    asked.got = asked.client->response_head();
    asked.left = asked.has_head = true;
    stage.wait_for_closed(1);
    // Later the kernel would give the client up, too.
    EXPECT_EQ(stage.weir().metrics().sum("weir_limit_hits_total", {{"limit", "client_stall"}}), 1);
  } else {
    asked.client->send(bytes);
    stage.read(asked);
    EXPECT_TRUE(asked.client->closed_by_server());
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
  const auto strikes = waits_for_close(phase == Phase::queued ? Phase::prefill : phase);
  wishes.at_head = strikes.at_head;
  wishes.strike = strikes.whole;
  if (phase == Phase::queued) {
    wishes.pool = {{"queue", "16"}};
    wishes.of_replica = {{"max_in_flight", "1"}};
  }
  if (phase == Phase::connecting) wishes.limits = {{"connect", "600"}};
  if (fault == Fault::client_stalls) {
    wishes.limits = {{"body_time", "0.4"}, {"client_stall", "1"}, {"client_idle", "0.4"}};
    wishes.strike = send_without_end;
  }
  Stage stage(std::move(wishes));
  stage.go_on();
  if (fault == Fault::client_stalls) {
    play_stall(run, stage);
  } else if (fault == Fault::client_one_byte_at_a_time) {
    ask_byte_by_byte(run, stage);
  } else if (phase == Phase::receiving) {
    leave_while_receiving(run, stage);
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
