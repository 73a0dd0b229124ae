// The opinion that an answer is of another replica that failed the same request, and when no other replica is asked.
#include <tuple>

#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

Story::Request from(std::uint64_t client, Topic topic = 1) {
  auto request = Stories::inference();
  request.caller.client = client;
  request.caller.topic = topic;
  return request;
}
Command refused_at(Stories& of, ReplicaIndex replica, const Story::Request& request, unsigned status = 404) {
  const auto story = of.begin(request);
  of.leased_at(*story, replica);
  return of.over(*story, error(status));
}

TEST(Opinions, OnlyAGoodAnswerOfAnotherReplicaOutdoesARefusal) {
  const std::tuple<ReplicaIndex, unsigned, bool> rows[] = {{1, 200, true},  {1, 302, true},  {1, 400, false},
                                                           {1, 404, false}, {1, 422, false}, {1, 500, false},
                                                           {1, 501, false}, {1, 503, false}, {0, 200, false}};
  for (const auto& [by, status, outdone] : rows) {
    Stories of;
    of.report(0, Sign::client_error, 20);
    for (int i = 0; i < 4 && !of.is_out(0); ++i) {
      of.report(1, Sign::answered, 20);
      const auto story = of.begin();
      of.leased_at(*story, 0);
      ASSERT_EQ(of.over(*story, error(422)), Command::ask_pool);
      of.leased_at(*story, by);
      story->answer_accepted(status, false, of.now);
      of.over(*story, answer_of(status));
    }
    of.report(0, Sign::client_error, 1);
    EXPECT_EQ(of.is_out(0), outdone) << by << " answers " << status;
  }
}

// A third replica may have the model that two lack.
TEST(Opinions, TwoRefusalsAreEnoughUnlessTheSecondIsADoubt) {
  using enum Command;
  const std::tuple<unsigned, unsigned, Command> rows[] = {{422, 400, done},     {400, 422, done},
                                                          {404, 422, done},     {404, 404, ask_pool},
                                                          {422, 404, ask_pool}, {404, 401, ask_pool}};
  for (const auto& [first, second, next] : rows) {
    auto [of, story] = Started();
    EXPECT_EQ(of.over(*story, error(first)), ask_pool);
    of.leased_at(*story, 1);
    EXPECT_EQ(of.over(*story, error(second)), next) << first << ' ' << second;
  }
}

// Requests for a model that few replicas have would use the budget up together.
TEST(Opinions, OnRefusalsTakeNothingFromTheBudgetUnlessTheBodyIsLarge) {
  for (const std::uint64_t bytes : {100U, 100'000U}) {
    Stories of;
    while (of.budget.take(of.now)) continue;
    auto request = Stories::inference();
    request.bytes = bytes;
    const auto story = of.begin(request);
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, error(404)), bytes == 100 ? Command::ask_pool : Command::done);
  }
}

// A refusal inside a 200 stream is what a plain answer with the status that it names is.
TEST(Opinions, ARefusalInBandIsOneMoreOrAskedAboutAsItsStatusIs) {
  using enum Command;
  const std::tuple<unsigned, std::uint16_t, Command> rows[] = {
      {404, 404, ask_pool}, {404, 422, done}, {422, 404, ask_pool}, {404, 503, ask_pool}, {404, 0, ask_pool}};
  for (const auto& [first, second, next] : rows) {
    auto [of, story] = Started();
    EXPECT_EQ(of.over(*story, error(first)), ask_pool);
    of.leased_at(*story, 1);
    EXPECT_EQ(of.over(*story, refusal_in_band(second)), next) << first << ' ' << second;
  }
}

TEST(Opinions, AReplicaIsToldByTheStatusThatItsRefusalNames) {
  Stories of(2);
  for (const std::uint64_t client : {1U, 2U}) {
    const auto story = of.begin(from(client));
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, refusal_in_band(404)), Command::ask_pool);
    of.leased_at(*story, 1);
    EXPECT_EQ(of.over(*story, refusal_in_band(404)), Command::done);
    EXPECT_EQ(story->ending().attempt->verdict.outcome, Outcome::client_error);
  }
  EXPECT_EQ(refused_at(of, 0, from(3)), Command::done) << "two clients were refused with 404";
}

TEST(Opinions, AnErrorOfItsOwnCountsUnlessAnotherReplicaFailsToo) {
  for (const unsigned status : {200u, 404u, 500u, 502u}) {
    Stories of;
    for (int i = 0; i < 6 && !of.is_out(0); ++i) {
      const auto story = of.begin();
      of.leased_at(*story, 0);
      ASSERT_EQ(of.over(*story, error(500)), Command::ask_pool);
      of.leased_at(*story, 1);
      story->answer_accepted(status, false, of.now);
      EXPECT_EQ(of.over(*story, answer_of(status)), Command::done);
    }
    EXPECT_EQ(of.is_out(0), status < 500) << status;
    EXPECT_FALSE(of.is_out(1));
  }
}

// A client with a misspelt model must not spend the budget with each of its requests.
TEST(Opinions, ARefusalThatAnotherReplicaSharesHoldsForAWhileForThatClientTopicAndStatus) {
  using enum Command;
  Stories of;
  const auto story = of.begin(from(1));
  for (const ReplicaIndex replica : {0u, 1u, 2u}) {
    of.leased_at(*story, replica);
    EXPECT_EQ(of.over(*story, error(404)), replica == 2 ? done : ask_pool);
  }
  for (const ReplicaIndex replica : {0u, 1u, 2u}) EXPECT_EQ(refused_at(of, replica, from(1)), done) << replica;
  EXPECT_EQ(refused_at(of, 0, from(1), 401), ask_pool) << "another status";
  EXPECT_EQ(refused_at(of, 0, from(1, 2)), ask_pool) << "another topic";
  EXPECT_EQ(refused_at(of, 0, from(2)), ask_pool) << "another client";
  of.now += Evidence::lately;
  EXPECT_EQ(refused_at(of, 0, from(1)), ask_pool);
}

TEST(Opinions, TwoClientsThatAreRefusedSpeakForAllUnlessAnyIsAnsweredWell) {
  Stories of(2);
  for (const std::uint64_t client : {1U, 2U}) {
    const auto story = of.begin(from(client));
    of.leased_at(*story, 0);
    of.over(*story, error(404));
    of.leased_at(*story, 1);
    EXPECT_EQ(of.over(*story, error(404)), Command::done);
  }
  EXPECT_EQ(refused_at(of, 0, from(3)), Command::done);
  for (const ReplicaIndex replica : {0u, 1u})
    of.pool->health().report(of.key(replica), Sign::answered, of.now, {}, from(1).caller);
  EXPECT_EQ(refused_at(of, 0, from(4)), Command::ask_pool);
}

// A peer that refused like the suspect hid it: one of three peers was more than a quarter.
TEST(Opinions, TwoOfFourThatRefuseAllAreEjected) {
  Stories of(4);
  const auto answers = [](ReplicaIndex replica) { return replica < 2 ? 400u : 200u; };
  unsigned refused = 0;
  for (int i = 0; i < 400; ++i) refused += of.play(answers, from(1 + static_cast<unsigned>(i) % 5)) == 400 ? 1 : 0;
  EXPECT_TRUE(of.is_out(0) && of.is_out(1));
  EXPECT_FALSE(of.is_out(2) || of.is_out(3));
  EXPECT_LT(refused, 80u);
}

// A client that polled a route that no replica has made weir pass on another replica's 404s.
TEST(Opinions, OneClientsPollsOfAMissingRouteHideNoReplicaThatLacksTheModel) {
  Stories of(3);
  const auto lacks_route = [](ReplicaIndex) { return 404u; };
  const auto lacks_model = [](ReplicaIndex replica) { return replica == 0 ? 404u : 200u; };
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(of.play(lacks_route, from(1, 2)), 404u);
    EXPECT_EQ(of.play(lacks_model, from(10 + static_cast<unsigned>(i) % 5, 1)), 200u) << i;
  }
}

TEST(Opinions, BlameTheReplicaThatAnotherOutdidWhereNoRetryIsLeft) {
  for (const bool outdone : {true, false}) {
    Stories of(2, 0);
    if (outdone) of.pool->health().report(of.key(0), Sign::outdone, of.now, {}, from(1).caller);
    const auto story = of.begin(from(1));
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, error(404)), Command::done);
    EXPECT_EQ(story->ending().attempt->verdict.outcome, outdone ? Outcome::replica_refused : Outcome::client_error);
  }
}

const auto well = [](ReplicaIndex) { return 200u; };

// Without a retry no second replica is asked whose fault an error is.
TEST(Blamed, ErrorsThatOneClientProvokesEjectNobodyWhateverTheRetryBudgetIs) {
  for (const double budget : {0.0, 0.2})
    for (const unsigned failure : {500u, 0u}) {
      Stories of(3, budget);
      for (int i = 0; i < 60; ++i) {
        for (int each = 0; i % 20 == 0 && each < 3; ++each) EXPECT_EQ(of.play(well, from(9)), 200u);
        of.play([=](ReplicaIndex) { return failure; }, from(6));
      }
      for (ReplicaIndex i = 0; i < 3; ++i) EXPECT_FALSE(of.is_out(i)) << i << ' ' << failure << ' ' << budget;
    }
}

// Behind a gateway, all requests are one client's.
TEST(Blamed, AReplicaThatFailsAllAloneIsEjectedThoughThereIsOneClient) {
  const auto broken_one = [](ReplicaIndex replica) { return replica == 1 ? 500u : 200u; };
  for (const double budget : {0.0, 0.2}) {
    Stories of(3, budget);
    int failed = 0;
    for (int i = 0; i < 90; ++i) failed += of.play(broken_one, from(1)) == 200 ? 0 : 1;
    EXPECT_TRUE(of.is_out(1));
    EXPECT_FALSE(of.is_out(0) || of.is_out(2));
    EXPECT_LE(failed, 10) << budget;
  }
  Stories of(3, 0);
  int failed = 0;
  for (std::uint64_t i = 0; i < 30; ++i) failed += of.play(broken_one, from(i / 3 % 2)) == 200 ? 0 : 1;
  EXPECT_EQ(failed, 5) << "two clients";
  EXPECT_TRUE(of.is_out(1));
}

TEST(Blamed, ARouteThatNobodyHasIsNobodysIllnessAndOneThatOneReplicaLacksIsServed) {
  Stories of(2);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(of.play([](ReplicaIndex) { return 501u; }), 501u);
    EXPECT_EQ(of.outcome, Outcome::client_error);
  }
  EXPECT_FALSE(of.is_out(0) || of.is_out(1));
  EXPECT_LE(of.retries, 2u) << "an opinion holds for a while";
  Stories one(2);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(one.play([](ReplicaIndex replica) { return replica == 0 ? 501u : 200u; }), 200u);
}

}  // namespace
}  // namespace weir::balancer::story
