// The live view of a fleet of two replicas, with a made-up clock.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../said.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::live {

namespace json = boost::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline config::Settings settings_of(std::vector<std::string> names) {
  config::Pool pool;
  pool.name = "chat";
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto& one = pool.replicas.emplace_back();
    one.name = one.config = names[i];
    const auto port = static_cast<std::uint16_t>(i + 1);
    one.url = {.host = "127.0.0.1", .port = port, .prefix = "", .authority = "127.0.0.1:" + std::to_string(port)};
  }
  config::Settings settings;
  settings.pools = {pool};
  settings.slos = {{"fast", "chat", {}, config::Seconds(1), {}, {}}};
  return settings;
}

/// Weirs of one name on one machine know of each other, and tests run beside each other.
inline const std::string instance = "live-test-" + std::to_string(::getpid());

class LiveTest : public ::testing::Test {
 protected:
  void second(int many = 1) {
    for (; many > 0; --many) {
      now += seconds(1);
      time += seconds(1);
      live.tick(instance, now, time);
    }
  }
  /// The record of a stream of gpu0 that ends now.
  metrics::record::RequestRecord record_of(metrics::Outcome outcome, milliseconds ttft, const std::string& key = "") {
    metrics::record::RequestRecord record;
    record.id = "id" + std::to_string(++ids);
    record.pool = "chat";
    record.replica = "gpu0";
    record.key = key;
    record.outcome = outcome;
    record.facts.stream = true;
    record.facts.api = metrics::Api::openai_chat;
    record.ended = now;
    record.received = now - ttft - milliseconds(2000);
    record.sent = record.received;
    record.answer.events = 101;
    record.answer.first_token = record.answer.first_choice = record.received + ttft;
    record.answer.last_choice = now;
    record.answer.end = now;
    record.answer.token_events_in_different_reads = true;
    record.answer.prompt_tokens = 50;
    record.answer.output_tokens = 101;
    return record;
  }
  /// A stream of gpu0 that ends now.
  void finish(metrics::Outcome outcome, milliseconds ttft, const std::string& key = "") {
    const auto record = record_of(outcome, ttft, key);
    fleet.snapshot()->pools[0]->replicas[0]->series->shard(0).settle(record);
    live.finished(record, now);
  }
  /// A request on a replica of the pool, until the lease is let go.
  balancer::Lease lease() {
    const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>()};
    auto offered = fleet.snapshot()->pools[0]->balancer->offer(placement, now);
    return std::move(std::get<balancer::Admitted>(offered).lease);
  }
  json::value document() { return json::parse(live.document()->json()); }

  Said said;
  metrics::series::Exposition exposition{1, {"0.1", "test"}, settings_of({}).slos};
  fleet::Fleet fleet{settings_of({"gpu0", "gpu1"}), exposition, 1};
  Surroundings around;
  Moment now = std::chrono::steady_clock::now();
  Wall time = Wall() + seconds(1'764'000'000);
  Live live{fleet, exposition, 1, [this] { return around; }, now, time};
  int ids = 0;
};

}  // namespace weir::proxy::live
