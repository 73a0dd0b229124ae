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
  const std::tuple<unsigned, unsigned, Command> rows[] = {{422, 400, done},     {400, 422, done},
                                                          {404, 422, done},     {404, 404, done},
                                                          {422, 404, ask_pool}, {404, 401, ask_pool}};
  for (const auto& [first, second, next] : rows) {
    Stories of;
    const auto story = of.begin();
    of.leased_at(*story, 0);
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

}  // namespace
}  // namespace weir::balancer::story
