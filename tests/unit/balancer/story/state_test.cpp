// Requests for state that some replica keeps: what their 404 means, and who else is asked.
#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

constexpr std::uint64_t id = 77;

Story::Request for_state(std::uint64_t home = 0) {
  auto request = Stories::inference();
  request.state = id;
  request.ties = {.home = home, .seeks = home == 0};
  return request;
}
std::uint64_t identity(ReplicaIndex replica) { return metrics::hash_of_name(std::to_string(replica)); }

/// Only this replica has the state.
auto kept_at(ReplicaIndex home) {
  return [home](ReplicaIndex replica) { return replica == home ? 200U : 404U; };
}

TEST(StoryState, IsSoughtAtOneReplicaAfterTheOtherAndThenKnown) {
  for (ReplicaIndex home = 0; home < 6; ++home) {
    Stories of(6, 0.01);
    EXPECT_EQ(of.play(kept_at(home), for_state()), 200u);
    if (of.retries == 0) {
      EXPECT_EQ(of.homes.find(id, of.now), std::nullopt) << "an engine may ignore the id";
      EXPECT_EQ(of.play([](ReplicaIndex) { return 404U; }, for_state()), 404u);
    } else {
      EXPECT_EQ(of.homes.find(id, of.now)->replica, identity(home));
    }
    of.expect_rest();
  }
}

TEST(StoryState, ThatNobodyHasEndsWithThe404OfAll) {
  Stories of(5);
  EXPECT_EQ(of.play([](ReplicaIndex) { return 404U; }, for_state()), 404u);
  EXPECT_EQ(of.retries, 4u) << "each once";
  EXPECT_EQ(of.outcome, Outcome::client_error);
  EXPECT_EQ(of.homes.size(), 0u);
  of.expect_rest();
}

TEST(StoryState, IsNotSaidToBeUnknownWhileAReplicaThatMayHaveItWasNotHeard) {
  const auto after_404 = [](const auto& ends) {
    Stories of(2, 1, 9);
    const auto story = of.begin(for_state());
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, error(404)), Command::ask_pool);
    ends(of, *story);
    return story->ending().told;
  };
  using enum Refused::Reason;
  for (const auto reason : {expired, queue_full, too_late})
    EXPECT_EQ(after_404([&](Stories& of, Story& story) { story.resume(Refused{reason}, of.now); }), Told::refused);
  EXPECT_EQ(after_404([](Stories& of, Story& story) {
              of.leased_at(story, 1);
              of.over(story, ended_by(End::bad_framing));
            }),
            Told::failed);
  EXPECT_EQ(after_404([](Stories& of, Story& story) {
              of.leased_at(story, 1);
              of.over(story, error(404));
            }),
            Told::kept_error);
}

TEST(StoryState, ByANameThatTheClientMadeUpIsAskedAboutAsAnyOther404Is) {
  Stories of(2);
  auto request = for_state(1);
  request.ties = {.pin = 5};
  const auto story = of.begin(std::move(request));
  of.leased_at(*story, 0);
  EXPECT_EQ(of.over(*story, error(404)), Command::ask_pool) << "the replica may lack the model";
}

TEST(StoryState, WithALargeBodyIsSoughtWithinTheBudget) {
  Stories of(5, 0);
  auto request = for_state();
  request.bytes = 100'000;
  EXPECT_EQ(of.play([](ReplicaIndex replica) { return replica == 4 ? 200U : 404U; }, std::move(request)), 404u);
}

// After weir has begun anew all clients seek at once.
TEST(StoryState, IsSoughtOutsideTheBudget) {
  Stories of(5, 0);
  EXPECT_EQ(of.play([](ReplicaIndex replica) { return replica == 4 ? 200U : 404U; }, for_state()), 200u);
}

TEST(StoryState, IsSoughtByWhatIsNoInferenceToo) {
  Stories of(3);
  auto request = for_state();
  request.repeatable = request.leaves_hung = request.may_go_twice = false;
  const auto story = of.begin(std::move(request));
  of.leased_at(*story, 0);
  EXPECT_TRUE(story->request().keeps_errors());
  EXPECT_EQ(of.over(*story, error(404)), Command::ask_pool);
  of.leased_at(*story, 1);
  EXPECT_EQ(of.over(*story, error(500)), Command::done) << "the request may have done something there";
  EXPECT_EQ(story->ending().attempt->status, 500u) << "the one that has the state, by all that is known";
}

TEST(StoryState, IsWaitedForWhereNoReplicaIsThere) {
  Stories of(1, 1, 8);
  const auto story = of.begin(for_state());
  of.ask(*story);
  EXPECT_EQ(of.over(*story, unconnected(ConnectFailure::refused)), Command::ask_pool);
  EXPECT_EQ(of.ask(*story), std::nullopt) << "nobody has said that it does not have the state";
  of.now += std::chrono::seconds(5);
  of.report(0, Sign::probe_passed, 1);
  EXPECT_EQ(of.granted.size(), 1u);
}

TEST(StoryState, OfAKnownHomeIsSoughtNowhereElse) {
  Stories of(3);
  EXPECT_EQ(of.play([](ReplicaIndex) { return 404U; }, for_state(identity(1))), 404u);
  EXPECT_EQ(of.retries, 0u);
  const auto story = of.begin(for_state(identity(2)));
  of.ask(*story);
  EXPECT_EQ(story->replica().key.index, 2u);
}

/// The other errors of such a request are those of any other.
TEST(StoryState, A404ForItSaysNothingOfAReplica) {
  for (const bool split : {false, true}) {
    Stories of(2);
    of.specs[0].candidate = true;
    of.pool->set_replicas(of.specs, of.now);
    if (split) of.pool->set_split(0.5, of.now);
    for (int i = 0; i < 100; ++i) {
      of.report(1, Sign::answered, 1);
      of.play(kept_at(1), for_state());
      of.play([](ReplicaIndex) { return 404U; }, for_state(identity(0)));
    }
    EXPECT_FALSE(of.is_out(0));
    EXPECT_EQ(of.pool->split().candidate.failed, 0u);
    EXPECT_EQ(of.pool->split().candidate.ended, 0u);
    EXPECT_EQ(of.pool->split().candidate.refused + of.pool->split().stable.refused, 0u);
    EXPECT_EQ(of.play(kept_at(1)), 200u) << "another request's 404 has its second opinion";
  }
}

TEST(StoryState, IsHandedOutByTheReplicaOfTheAttempt) {
  Stories of(3);
  auto request = Stories::inference();
  request.lot = 5;
  const auto keeps_none = of.begin(request);
  of.leased_at(*keeps_none, 2);
  EXPECT_EQ(keeps_none->plan().handed_out.homes, nullptr);
  request.hands_out = true;
  const auto story = of.begin(request);
  of.leased_at(*story, 2);
  EXPECT_EQ(story->plan().handed_out.homes, &of.homes);
  EXPECT_EQ(story->plan().handed_out.home, (Home{identity(2), 5}));
}

}  // namespace
}  // namespace weir::balancer::story
