// Why a shadow is spared a request, and when it is switched off. Clients and replicas are scripted, and the shadows'
// thread is the test: what is posted to it waits until the test lets it work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "proxy/keys/client_keys.hpp"
#include "tests/unit/proxy/exchange/mirrored.hpp"

namespace weir::proxy::exchange {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ShadowDrops : public Mirrored {
 protected:
  static constexpr std::size_t candidate = first_candidate;

  ShadowDrops() : Mirrored(a_twin(), {"cand0"}) { proxy.plan[candidate] = {serve::says(streamed_answer())}; }
  static config::Shadow a_twin() {
    config::Shadow shadow;
    shadow.twin = "gpu0";
    shadow.stop_after = config::Seconds(60);
    return shadow;
  }

  /// A client's request is answered. The shadows' thread has not looked at it then.
  void ask(const std::string& fields = "") {
    client_->got.clear();
    proxy.hears(*client_, serve::post(serve::chat(true), fields));
    EXPECT_EQ(read_answer(client_->got).status, 200u);
  }
  void ask_and_mirror() {
    ask();
    let_shadows_work();
  }

  /// How many requests came to what, as /metrics shows it.
  std::map<std::string, std::uint64_t> counts() const {
    std::map<std::string, std::uint64_t> counts;
    auto& series = *shadow().pool->replicas.front()->series;
    for (std::size_t i = 0; i < metrics::series::mirrored_names.size(); ++i) {
      const auto count = series.shard(0).mirrored[i].value() + series.shard(shadows.loop().index).mirrored[i].value();
      if (count > 0) counts.emplace(metrics::series::mirrored_names[i], count);
    }
    return counts;
  }
  using Counts = std::map<std::string, std::uint64_t>;

  /// The drop reasons of the records since the last call; "" of a request that was sent.
  std::vector<std::string> recorded() {
    std::vector<std::string> reasons;
    for (auto* const loop : {&proxy.loop, &shadows.loop()}) {
      for (const auto& record : loop->finished.take()) {
        if (loop == &proxy.loop && record.role == metrics::Role::primary) continue;
        EXPECT_EQ(record.role, metrics::Role::shadow);
        EXPECT_EQ(record.mirrored->shadow, "fp8");
        reasons.push_back(record.mirrored->drop_reason);
      }
    }
    return reasons;
  }

 private:
  const std::shared_ptr<net::Peer> client_ = proxy.client();
};

TEST_F(ShadowDrops, NothingElse) {
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}}));
  EXPECT_THAT(recorded(), ElementsAre(""));
  EXPECT_EQ(shadow().state->finished, 1u);
}

TEST_F(ShadowDrops, NeverWhatTheyExcludeByItsCredentialInEitherField) {
  auto settings = proxy.snapshot->settings;
  settings.shadows[0].exclude_keys = {keys::hex(keys::sha256("secret"))};
  proxy.fleet.adopt(settings);
  proxy.snapshot = proxy.fleet.snapshot();
  place_replicas();
  for (const auto* fields : {"Authorization: Bearer secret\r\n", "x-api-key: secret\r\n",
                             "Authorization: Bearer secret\r\nx-api-key: other\r\n",
                             "x-api-key: secret\r\nAuthorization: Bearer other\r\n"}) {
    ask(fields);
    let_shadows_work();
    EXPECT_EQ(counts(), Counts()) << fields;
  }
  ask("Authorization: Bearer other\r\nx-api-key: another\r\n");
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}}));
}

TEST_F(ShadowDrops, WhatComesWhileTheMemoryForBuffersIsSpent) {
  auto& buffers = proxy.shared.buffers;
  ask();
  net::BudgetHold others(buffers);
  others.set(buffers.limit());
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"buffer_memory", 1}}));
  EXPECT_THAT(recorded(), ElementsAre("buffer_memory"));
  using metrics::series::Limit;
  EXPECT_EQ(shadows.loop().shard.limit_hits.value(Limit::buffer_memory), 1u);
  others.set(buffers.limit() - net::BufferBudget::step);
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}, {"buffer_memory", 1}}));
}

TEST_F(ShadowDrops, PayForABodyUntilBothHaveSentIt) {
  auto& buffers = proxy.shared.buffers;
  proxy.plan[candidate] = {[](net::Peer&) {}};
  const auto client = proxy.asks(serve::post(R"({"model":"m","stream":true,"messages":[{"role":"user","content":")" +
                                             std::string(100'000, 'x') + "\"}]}"));
  EXPECT_EQ(read_answer(client->got).status, 200u);
  EXPECT_GE(buffers.used(), 96'000u) << "the shadow's job has it";
  let_shadows_work();
  EXPECT_GE(buffers.used(), 96'000u) << "its replica has not accepted it";
  proxy.connections[candidate].front()->says(streamed_answer());
  let_shadows_work();
  EXPECT_EQ(buffers.used(), 0u);
}

TEST_F(ShadowDrops, WhatComesWhileALoopIsLate) {
  auto& lag = proxy.exposition.loop(0).lag_nanoseconds;
  lag = std::chrono::nanoseconds(Shadows::latest).count();
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}})) << "it is not later than that";
  lag = lag + 1;
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}, {"loop_late", 1}}));
  EXPECT_THAT(recorded(), ElementsAre("", "loop_late"));
  lag = 0;
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 2}, {"loop_late", 1}}));
}

TEST_F(ShadowDrops, WhatComesWhileItsThreadIsFarBehindAndKeepNoBodyForIt) {
  proxy.on_connect[candidate] = [](net::Peer&) {};  // So all that is sent is under way together.
  for (std::size_t i = 0; i < Shadows::most_posted; ++i) ask();
  EXPECT_THAT(counts(), IsEmpty()) << "its thread has not looked";
  const auto held = proxy.shared.buffers.used();
  constexpr std::size_t more = Shadows::most_posted;  // One that is dropped must not count as posted.
  for (std::size_t i = 0; i < more; ++i) ask();
  EXPECT_EQ(proxy.shared.buffers.used(), held);
  EXPECT_EQ(counts(), (Counts{{"behind", more}})) << "nothing more is left to a thread that gets no time";
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"sent", Shadows::most_posted}, {"behind", more}}));
  EXPECT_EQ(recorded(), std::vector<std::string>(more, "behind"));
  ask();
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"sent", Shadows::most_posted + 1}, {"behind", more}})) << "it is no longer behind";
}

TEST_F(ShadowDrops, TheLookForClientsThatHaveLeftIsPostedOnce) {
  auto& context = shadows.loop().context;
  for (int i = 0; i < 1000; ++i) shadows.client_left();
  EXPECT_EQ(context.poll(), 1u);
  shadows.client_left();
  EXPECT_EQ(context.poll(), 1u) << "and again once it was done";
}

TEST_F(ShadowDrops, ALineThatIsOneTooManyForTheControlThreadAndCountIt) {
  proxy.shared.draining = true;
  auto& finished = shadows.loop().finished;
  metrics::record::RequestRecord other;
  while (finished.put(metrics::record::RequestRecord(other))) {
  }
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"draining", 1}}));
  EXPECT_EQ(proxy.log.dropped(), 1u);
}

TEST_F(ShadowDrops, WhatComesWhileWeirDrains) {
  proxy.plan[candidate] = {[](net::Peer&) {}};
  ask_and_mirror();
  EXPECT_THAT(recorded(), IsEmpty()) << "it is under way";
  ask();
  proxy.shared.draining = true;
  shadows.end_all();
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"sent", 1}, {"draining", 1}}));
  EXPECT_THAT(recorded(), testing::UnorderedElementsAre("", "draining"));
  for (const auto& connection : proxy.connections[candidate]) EXPECT_TRUE(connection->closed());
}

TEST_F(ShadowDrops, WhatItsClientHasLeftBeforeItWasSent) {
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto client = proxy.asks(serve::post(serve::chat(true)));
  client->breaks();
  let_shadows_work();
  EXPECT_EQ(counts(), (Counts{{"client_left", 1}}));
  EXPECT_THAT(proxy.connections[candidate], IsEmpty());
}

TEST_F(ShadowDrops, AMirroredRequestEndsOnceItsReplicaIsFoundToHang) {
  proxy.plan[candidate] = {[](net::Peer&) {}};
  ask_and_mirror();
  EXPECT_THAT(recorded(), IsEmpty());
  shadow().pool->replicas.front()->state->leaves.hung_at = serve::Clock::now();
  shadows.loop().tick(serve::Clock::now());
  let_shadows_work();
  EXPECT_THAT(recorded(), ElementsAre(""));
  EXPECT_TRUE(proxy.connections[candidate].front()->closed());
}

TEST_F(ShadowDrops, AWantOfDescriptorsLeavesNothingInTheBooksOfTheReplica) {
  const auto queued = [&] {
    const auto& replica = *shadow().pool->replicas.front();
    return shadow().pool->balancer->figures().load(replica.key.index, serve::Clock::now()).prefill_left;
  };
  proxy.refuses_at_once[candidate] = EMFILE;
  ask_and_mirror();
  EXPECT_EQ(queued(), 0u);
  proxy.refuses_at_once[candidate] = EHOSTUNREACH;
  ask_and_mirror();
  EXPECT_GT(queued(), 0u) << "this is its own failure";
}

TEST_F(ShadowDrops, NothingMoreOnceStopAfterIsOver) {
  ask_and_mirror();
  auto& state = *shadow().state;
  const auto began = state.began.load();
  EXPECT_LE(began, serve::Clock::now());
  // The minute passes by moving its begin back. A test takes less than ten seconds.
  state.began = began - std::chrono::seconds(50);
  ask_and_mirror();
  EXPECT_EQ(counts(), (Counts{{"sent", 2}}));
  EXPECT_TRUE(state.on);
  state.began = began - std::chrono::seconds(60);
  ask();
  ask_and_mirror();
  EXPECT_FALSE(state.on);
  EXPECT_EQ(counts(), (Counts{{"sent", 2}})) << "what comes after its end was not to be mirrored, and is no drop";
  EXPECT_THAT(recorded(), ElementsAre("", ""));
  EXPECT_EQ(state.finished, 2u);
}

}  // namespace
}  // namespace weir::proxy::exchange
