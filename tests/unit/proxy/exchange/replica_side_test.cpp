// These tests run the replica's half without a client, as a mirror does, which drops what it brings.
#include "proxy/exchange/replica_side.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MirrorOfOne {
 public:
  explicit MirrorOfOne(bool injected = false, bool reused = false) {
    ReplicaSide::Options options{.limits = limits};
    options.api = Api::openai_chat;
    options.stream = true;
    if (injected) options.asked = metrics::wire::Ask::usage;
    options.reused = reused;
    options.received = at(-1);
    options.started = at(-0.5);
    balancer::ReplicaSpec spec;
    spec.name = "shadow0";
    pool->set_replicas({&spec, 1}, at(-2));
    metrics::wire::RequestFacts facts;
    facts.api = options.api;
    facts.stream = true;
    facts.max_tokens = 50;
    facts.prompt_token_ids = 100;
    auto offered = pool->offer(facts, at(-1));
    machine.emplace(options, std::move(std::get<balancer::Admitted>(offered).lease), shard);
    machine->sent(at(0));
  }

  /// Plays a read; what it brings is written down and dropped.
  ReplicaSide::Progress arrives(std::string_view bytes, Moment when) {
    buffer.assign(bytes);
    buffer.append(metrics::measure::StreamMeter::padding, '"');
    auto progress = machine->arrived({buffer.data(), bytes.size()}, when);
    for (const auto span : progress.body) body.append(span);
    return progress;
  }

  config::Limits limits;
  std::shared_ptr<balancer::Pool> pool = balancer::Pool::make(config::Policy::round_robin, 0.05, 1);
  metrics::series::ReplicaShard shard;
  std::optional<ReplicaSide> machine;
  std::string buffer, body;
};

TEST(ReplicaSide, MeasuresAStreamThatNobodyReads) {
  MirrorOfOne mirrored;
  const auto first = mirrored.arrives(sse_head() + chunk(token("a")), at(1));
  ASSERT_TRUE(first.head);
  EXPECT_EQ(first.head->status, 200u);
  EXPECT_TRUE(first.event_stream);
  EXPECT_EQ(first.token_events, 1u);
  EXPECT_FALSE(first.end);
  EXPECT_EQ(mirrored.machine->state(), ReplicaSide::State::body);
  EXPECT_EQ(mirrored.pool->load(0, at(1)).prefill_left, 0u) << "the first token has taken the prompt off the queue";
  EXPECT_EQ(mirrored.pool->in_flight(), 1u);

  const auto last = mirrored.arrives(
      chunk(token("b")) + chunk(finish_event) + chunk(usage_event) + chunk(done_event) + last_chunk, at(2));
  EXPECT_FALSE(last.head) << "it is told once";
  EXPECT_EQ(last.end, End::whole);
  EXPECT_EQ(mirrored.machine->state(), ReplicaSide::State::done);
  EXPECT_EQ(mirrored.machine->verdict().outcome, Outcome::ok);
  EXPECT_TRUE(mirrored.machine->reusable());
  EXPECT_EQ(mirrored.machine->answer().output_tokens, 3u);
  EXPECT_EQ(mirrored.machine->answer().first_token, at(1));
  EXPECT_EQ(mirrored.machine->deadline(), Moment::max());
  EXPECT_EQ(mirrored.pool->in_flight(), 0u) << "the lease ends with the replica's work";
  EXPECT_EQ(mirrored.body, token("a") + token("b") + finish_event + usage_event + done_event);
}

TEST(ReplicaSide, TakesOutWhatWeirAskedFor) {
  MirrorOfOne mirrored(true);
  mirrored.arrives(sse_head() + chunk(token("a") + finish_event + usage_event + done_event) + last_chunk, at(1));
  EXPECT_THAT(mirrored.body, Not(HasSubstr("usage")));
  EXPECT_EQ(mirrored.machine->answer().output_tokens, 3u);
}

TEST(ReplicaSide, IsLeftWhenNobodyWantsTheRest) {
  MirrorOfOne mirrored;
  mirrored.arrives(sse_head() + chunk(token("a")), at(1));
  mirrored.machine->left(End::client_left, at(2), false);
  EXPECT_EQ(mirrored.machine->state(), ReplicaSide::State::done);
  EXPECT_EQ(mirrored.machine->verdict().outcome, Outcome::client_abort);
  EXPECT_EQ(mirrored.machine->verdict().phase, metrics::Phase::decode);
  EXPECT_FALSE(mirrored.machine->reusable());
  EXPECT_EQ(mirrored.pool->in_flight(), 0u);
}

TEST(ReplicaSide, WhatItCannotReadHasArrivedInTimeAsATokenHas) {
  const std::string unread = "data: {\"novel\":\"text\"}\n\n", ping = ": ping\n\n";
  MirrorOfOne mirrored;
  const auto& limits = mirrored.limits;
  const Moment first_due = at(0) + metrics::ticks(limits.first_token);
  mirrored.arrives(sse_head() + chunk(ping), at(1));
  EXPECT_EQ(mirrored.machine->deadline(), first_due);
  mirrored.arrives(chunk(unread), at(200));
  EXPECT_EQ(mirrored.machine->deadline(), at(200) + metrics::ticks(limits.between_tokens));
  EXPECT_FALSE(mirrored.machine->awaited_first_token());
}

TEST(ReplicaSide, TellsHowTheReplicaBrokeOff) {
  const std::pair<End, End> ends[]{{End::reset, End::reset},
                                            {End::closed, End::closed},
                                            {End::bad_framing, End::bad_framing},
                                            {End::timed_out, End::timed_out}};
  for (const auto& [how, end] : ends) {
    MirrorOfOne within;
    within.arrives(sse_head() + chunk(token("a")), at(1));
    EXPECT_EQ(within.machine->ended(how, at(2)).end, end);
    MirrorOfOne before;
    EXPECT_EQ(before.machine->ended(how, at(2)).end, end);
    EXPECT_FALSE(before.machine->reusable());
    MirrorOfOne behind_the_marker;
    behind_the_marker.arrives(sse_head() + chunk(token("a") + done_event), at(1));
    EXPECT_EQ(behind_the_marker.machine->ended(how, at(2)).end, End::marked);
    EXPECT_EQ(behind_the_marker.machine->verdict().outcome, Outcome::ok);
  }
}

TEST(ReplicaSide, KeepsTheLeaseOfARequestThatIsToGoOutAgain) {
  MirrorOfOne stale(false, true);
  EXPECT_EQ(stale.machine->ended(End::closed, at(1)).end, End::stale);
  EXPECT_TRUE(stale.machine->take_lease());
  MirrorOfOne slow(false, true);
  EXPECT_EQ(slow.machine->ended(End::timed_out, at(1)).end, End::timed_out)
      << "time was lost: it is no stale one";
  EXPECT_FALSE(slow.machine->take_lease());
  MirrorOfOne refused(true);
  EXPECT_EQ(refused.arrives(answer("400 Bad Request", "{}"), at(1)).end, End::option_refused);
  EXPECT_TRUE(refused.machine->take_lease());
}

TEST(ReplicaSide, PassesOnNothingOfAHeadThatIsNotWhole) {
  MirrorOfOne mirrored;
  const auto head = sse_head();
  const auto first = mirrored.arrives(head.substr(0, 20), at(1));
  EXPECT_FALSE(first.head);
  EXPECT_EQ(mirrored.machine->state(), ReplicaSide::State::head);
  EXPECT_EQ(mirrored.machine->status(), 0u);
  const auto second = mirrored.arrives(head.substr(20) + chunk(token("a")), at(2));
  ASSERT_TRUE(second.head);
  EXPECT_EQ((*second.head)["content-type"], "text/event-stream; charset=utf-8");
  EXPECT_EQ(mirrored.machine->head_at(), at(2));
}

}  // namespace
}  // namespace weir::proxy::exchange
