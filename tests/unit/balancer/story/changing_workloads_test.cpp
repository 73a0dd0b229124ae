// Workloads that change, settle at one replica or have many names: what was true of a client's requests a minute ago
// says nothing against a replica that does now what all others do.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "balancer/pool_health.hpp"
#include "stories.hpp"

namespace weir::balancer::story {
namespace {

Story::Request of_one(std::uint64_t client, Topic topic = 1) {
  auto request = Stories::inference();
  request.caller.client = client;
  request.caller.topic = topic;
  return request;
}

void answered_at(Stories& of, ReplicaIndex at, const Story::Request& request, unsigned tokens) {
  auto over = answer_of();
  over.answer.output_tokens = over.answer.counted_tokens = over.answer.token_events = tokens;
  over.answer.events = tokens + 1;
  over.answer.output_chars = std::uint64_t{3} * tokens;
  if (tokens == 0) over.verdict.outcome = Outcome::ok_empty;
  const auto story = of.begin(request);
  of.leased_at(*story, at);
  story->answer_accepted(200, false, of.now);
  of.over(*story, std::move(over));
}

void answered_at(Stories& of, ReplicaIndex at, std::uint64_t client, unsigned tokens) {
  answered_at(of, at, of_one(client), tokens);
}

unsigned out(Stories& of) {
  unsigned count = 0;
  for (ReplicaIndex i = 0; i < of.specs.size(); ++i) count += of.is_out(i) ? 1 : 0;
  return count;
}

// The peers' last answers were of before, and half of the pool was ejected.
TEST(ChangingWorkload, ThatGetsLittleOrFailsAtAllReplicasEjectsNone) {
  enum class Then { empty, resets };
  for (const auto then : {Then::empty, Then::resets})
    for (const unsigned replicas : {2U, 4U, 8U})
      for (const unsigned clients : {1U, 2U}) {
        Stories of(replicas);
        const auto in_turn = [&](unsigned each, const auto& play) {
          for (unsigned i = 0; i < each * replicas; ++i) {
            of.now += std::chrono::milliseconds(50);
            if (!of.is_out(i % replicas)) play(i % replicas, 1 + i / replicas % clients);
          }
        };
        in_turn(60, [&](ReplicaIndex at, std::uint64_t client) { answered_at(of, at, client, 50); });
        in_turn(40, [&](ReplicaIndex at, std::uint64_t client) {
          if (then != Then::resets) return answered_at(of, at, client, 0);
          auto request = of_one(client);
          request.repeatable = false;
          const auto story = of.begin(request);
          of.leased_at(*story, at);
          of.over(*story, broken());
        });
        EXPECT_EQ(out(of), 0U) << static_cast<int>(then) << ' ' << replicas << ' ' << clients;
      }
}

// Each user behind a gateway has a credential, and sees the replica seldom.
TEST(BrokenReplica, ThatGivesNothingToManyCredentialsOfOneAddressIsEjected) {
  Stories of(4);
  for (std::uint64_t i = 0; i < 200; ++i) {
    of.now += std::chrono::milliseconds(50);
    auto request = of_one(i % 50);
    request.caller.voice = 1000;
    const auto at = static_cast<ReplicaIndex>(i % 4);
    if (!of.is_out(at)) answered_at(of, at, request, at == 0 ? 0 : 50);
  }
  EXPECT_TRUE(of.is_out(0));
  EXPECT_EQ(out(of), 1U);
}

TEST(ChangingWorkload, OfAClientWhoseKeyWasRevokedCostsNoSecondOpinions) {
  Stories of(4, 0.2);
  unsigned asked = 0;
  for (int i = 0; i < 100; ++i) {
    of.play([](ReplicaIndex) { return 200U; }, of_one(1));
    asked = 0;
    of.play([&](ReplicaIndex) { return ++asked, 401U; }, of_one(2));
  }
  EXPECT_EQ(asked, 1U);
}

TEST(ChangingWorkload, OfConversationsThatAReplicaDoesNotKnowKeepsNobodyElseAway) {
  Stories of(4);
  for (std::uint64_t i = 0; i < 20; ++i) of.play([](ReplicaIndex) { return 200U; }, of_one(50 + i % 5));
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto request = of_one(1 + i % 2);
    request.state = 77 + i;
    const auto story = of.begin(request);
    of.leased_at(*story, 0);
    ASSERT_EQ(of.over(*story, error(404)), Command::ask_pool);
    of.leased_at(*story, 1);
    story->answer_accepted(200, false, of.now);
    of.over(*story, answer_of());
  }
  unsigned at_the_first = 0;
  for (int i = 0; i < 40; ++i)
    of.play([&](ReplicaIndex at) { return at_the_first += at == 0 ? 1 : 0, 200U; }, of_one(9));
  EXPECT_EQ(at_the_first, 10U);
}

// Long answers and few streams: none has ended at the replica lately.
TEST(ChangingWorkload, OfOneClientThatFailsEjectsNoReplicaThatStreamsToOthers) {
  Stories of(3, 0.0);
  for (int i = 0; i < 30; ++i) of.play([](ReplicaIndex) { return 200U; }, of_one(1));
  std::vector<std::unique_ptr<Story>> open;
  std::vector<Lease> streams;
  for (const std::uint64_t client : {10U, 11U}) {
    open.push_back(of.begin(of_one(client)));
    of.leased_at(*open.back(), 0);
    streams.push_back(open.back()->take_lease());
    streams.back().first_token(of.now);
  }
  of.now += std::chrono::seconds(12);
  for (int i = 0; i < 8; ++i) {
    for (Lease& stream : streams) stream.tokens(1);
    for (const ReplicaIndex peer : {1U, 2U}) answered_at(of, peer, 1, 50);
    const auto story = of.begin(of_one(1));
    of.leased_at(*story, 0);
    of.over(*story, error(500));
    EXPECT_FALSE(of.is_out(0)) << i;
  }
}

// Each adapter has one customer, and is asked for once in five seconds.
TEST(ChangingWorkload, OfManyNamesLetsABrokenReplicaGoWithinTenSeconds) {
  Stories of(4);
  std::mt19937_64 draws(5);
  double time = 0;
  while (time < 135 && !of.is_out(0)) {
    time += 5.0 / 30;
    of.now = at(time);
    const auto topic = draws() % 30;
    of.play([&](ReplicaIndex replica) { return replica == 0 && time > 120 ? 500U : 200U; },
            of_one(topic * 10, 100 + topic));
  }
  EXPECT_LT(time, 132);
}

}  // namespace
}  // namespace weir::balancer::story
