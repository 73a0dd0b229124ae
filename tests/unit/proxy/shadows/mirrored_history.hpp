// The last records of a weir that has mirrored a request a second for 25 minutes. The candidate's first token takes a
// fifth longer.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "proxy/fleet/snapshot.hpp"
#include "proxy/shadows/history.hpp"

namespace weir::proxy::shadows {

class MirroredHistory : public ::testing::Test {
 protected:
  static constexpr int requests = 1500;

  explicit MirroredHistory(int so_far = requests, std::size_t most = History::usual_most)
      : history(log, most, {}, start) {
    for (int i = 0; i < so_far; ++i) add(i);
    change_snapshot(
        [](fleet::Snapshot& next) { next.settings.slos = {{"fast", "chat", {}, config::Seconds(1), {}, {}}}; });
  }

  /// Request `i` comes `i` seconds after 1970 began, and after `start`.
  metrics::record::RequestRecord primary_of(int i) const {
    metrics::record::RequestRecord primary;
    primary.time += std::chrono::seconds(i);
    primary.id = std::string(24, '0') + std::to_string(10'000'000 + i);
    primary.pool = "chat";
    primary.replica = "gpu0";
    primary.config = "fp16";
    primary.facts.stream = true;
    primary.outcome = metrics::Outcome::ok;
    primary.received = start + std::chrono::seconds(i);
    primary.sent = primary.received;
    primary.shadows = 1;
    primary.answer.end = primary.received + std::chrono::seconds(1);
    primary.answer.last_choice = primary.answer.end;
    primary.answer.prompt_tokens = 100;
    primary.answer.output_tokens = 20;
    primary.answer.token_events_in_different_reads = true;
    primary.answer.events = 20;
    primary.answer.first_token = primary.received + std::chrono::milliseconds(100 + i % 7);
    return primary;
  }
  metrics::record::RequestRecord shadow_of(const metrics::record::RequestRecord& primary, const std::string& name,
                                           const std::string& replica, int i) const {
    auto shadow = primary;
    shadow.answer.first_token = primary.received + std::chrono::milliseconds(120 + i % 5);
    shadow.role = metrics::Role::shadow;
    shadow.shadows = 0;
    shadow.id.replace(0, name.size(), name.size(), 'f');
    shadow.pool = "chat:shadow";
    shadow.replica = replica;
    shadow.config = "fp8";
    shadow.mirrored.make().pair = primary.id;
    shadow.mirrored.make().shadow = name;
    return shadow;
  }
  void add(int i) {
    auto primary = primary_of(i);
    auto shadow = shadow_of(primary, "candidate", "cand0", i);
    change(primary, shadow);
    finished.put(std::move(primary));
    finished.put(std::move(shadow));
    history.take(finished, start);
  }

  /// A twin of gpu0 that is on, and was first sent a request when the first one came.
  std::shared_ptr<fleet::ShadowRuntime> twin(const std::string& name, const std::string& replica) const {
    auto shadow = std::make_shared<fleet::ShadowRuntime>();
    shadow->settings.name = name;
    shadow->settings.of = "chat";
    shadow->settings.twin = "gpu0";
    shadow->state = std::make_shared<fleet::ShadowState>();
    shadow->state->began = start;
    auto runtime = std::make_shared<fleet::Replica>();
    runtime->settings.name = replica;
    runtime->state = std::shared_ptr<fleet::SharedReplica>(new fleet::SharedReplica{.id = 1});
    auto pool = std::make_shared<fleet::PoolRuntime>();
    pool->replicas = {runtime};
    shadow->pool = pool;
    return shadow;
  }
  static fleet::Replica& replica_of(const fleet::ShadowRuntime& shadow) { return *shadow.pool->replicas[0]; }

  template <class Change>
  void change_snapshot(Change with) {
    snapshot = fleet::Snapshot::changed(snapshot.get(), with);
  }
  void set_shadows(std::vector<std::shared_ptr<const fleet::ShadowRuntime>> shadows) {
    change_snapshot([&shadows](fleet::Snapshot& next) { next.shadows = std::move(shadows); });
  }

  const metrics::Moment start = metrics::Moment() + std::chrono::hours(1);
  /// Changes the records that add() makes.
  std::function<void(metrics::record::RequestRecord& primary, metrics::record::RequestRecord& shadow)> change =
      [](auto&, auto&) {};
  metrics::record::RequestLog log{"", "weir"};
  metrics::record::FinishedRecords finished;
  History history;
  std::shared_ptr<const fleet::Snapshot> snapshot;  ///< change_snapshot() changes it.
};

}  // namespace weir::proxy::shadows
