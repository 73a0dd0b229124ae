// The opinion that an answer is of another replica that failed the same request, and when no other replica is asked.
#include <tuple>

#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

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

TEST(Opinions, TwoRefusalsAreEnoughUnlessTheSecondIsADoubtOfItsOwn) {
  using enum Command;
  const std::tuple<unsigned, unsigned, Command> rows[] = {{422, 400, done}, {400, 422, done},     {404, 422, done},
                                                          {404, 404, done}, {422, 404, ask_pool}, {404, 401, ask_pool}};
  for (const auto& [first, second, next] : rows) {
    auto [of, story] = Started();
    EXPECT_EQ(of.over(*story, error(first)), ask_pool);
    of.leased_at(*story, 1);
    EXPECT_EQ(of.over(*story, error(second)), next) << first << ' ' << second;
  }
}

TEST(Opinions, AnErrorOfItsOwnCountsOnceAnotherReplicaDoesBetter) {
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

TEST(Opinions, AnErrorOfWhichNobodyWasAskedCountsUnlessSuchAreAbout) {
  for (const bool about : {false, true}) {
    Stories of(3, 0);
    if (about) of.report(2, Sign::absolved, 1);
    for (int i = 0; i < 6 && !of.is_out(0); ++i) {
      const auto story = of.begin();
      of.leased_at(*story, 0);
      ASSERT_EQ(of.over(*story, error(500)), Command::done);
    }
    EXPECT_EQ(of.is_out(0), !about);
  }
}

TEST(Opinions, OfADoubtfulRefusalHoldForAWhile) {
  using Opinion = SecondOpinions::Opinion;
  const auto of_zero = [](Stories& of) { return of.opinions.of({of.key(0).serial, 404, "m"}, of.now); };
  // The opinion that another replica's answer is of replica 0.
  const std::pair<unsigned, Opinion> rows[] = {{200, Opinion::better}, {400, Opinion::better}, {404, Opinion::same},
                                               {401, Opinion::same},   {501, Opinion::same},   {429, Opinion::none},
                                               {503, Opinion::none},   {500, Opinion::none}};
  for (const auto& [status, opinion] : rows) {
    auto [of, story] = Started();
    ASSERT_EQ(of.over(*story, error(404)), Command::ask_pool);
    of.leased_at(*story, 1);
    story->answer_accepted(status, false, of.now);
    EXPECT_EQ(of_zero(of), opinion) << status;
    of.over(*story, answer_of(status));
  }
  Stories both;
  const auto ask = [&](ReplicaIndex first) {
    const auto story = both.begin();
    both.leased_at(*story, first);
    return both.over(*story, error(404));
  };
  const auto story = both.begin();
  both.leased_at(*story, 0);
  both.over(*story, error(404));
  both.leased_at(*story, 1);
  EXPECT_EQ(both.over(*story, error(404)), Command::done);
  EXPECT_EQ(ask(0), Command::done) << "they are of one mind";
  EXPECT_EQ(ask(1), Command::done);
  EXPECT_EQ(ask(2), Command::ask_pool);
  both.now += SecondOpinions::lasting;
  EXPECT_EQ(ask(0), Command::ask_pool);
}

TEST(Opinions, AreNoneWhereNoOtherReplicaAnswered) {
  for (const bool again : {false, true}) {
    auto [of, story] = Started(3, again ? 1 : 0);
    ASSERT_EQ(of.over(*story, error(404)), again ? Command::ask_pool : Command::done);
    if (again) {
      of.leased_at(*story, 0);
      EXPECT_EQ(of.over(*story, error(404)), Command::done);
    }
    EXPECT_EQ(of.opinions.of({of.key(0).serial, 404, "m"}, of.now), SecondOpinions::Opinion::none);
  }
}

TEST(Opinions, BlameTheOddReplicaWhereNoRetryIsLeft) {
  for (const bool odd : {true, false}) {
    Stories of(2, 0);
    of.opinions.note({of.key(0).serial, 404, "m"},
                     odd ? SecondOpinions::Opinion::better : SecondOpinions::Opinion::same, of.now);
    const auto story = of.begin();
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, error(404)), Command::done);
    EXPECT_EQ(story->told_attempt().verdict.outcome, odd ? Outcome::replica_refused : Outcome::client_error);
  }
}

Story::Request from(std::uint64_t client) {
  auto request = Stories::inference();
  request.caller.client = client;
  return request;
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
