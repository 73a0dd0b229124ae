#include "balancer/health.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

using enum ReplicaState;
using std::chrono::milliseconds;

Health known() { return Health(config::Health{}, true, at(0)); }

void show(Health& health, Sign sign, int times, double now, bool may_eject = true) {
  for (int i = 0; i < times; ++i) health.showed(sign, may_eject, at(now));
}

TEST(Health, OneOfTheFirstIsUpAndALaterOneStarts) {
  EXPECT_EQ(known().state(), up);
  EXPECT_EQ(Health(config::Health{}, false, at(0)).state(), starting);
}

TEST(Health, ARefusedConnectionTakesItOutAtOnceAndAPassedProbeBringsItBack) {
  auto health = known();
  show(health, Sign::refused, 1, 1);
  EXPECT_EQ(health.state(), down);
  EXPECT_TRUE(health.refuses());
  EXPECT_EQ(health.reason(), "it refuses connections");
  show(health, Sign::probe_passed, 1, 2);
  EXPECT_EQ(health.state(), starting);
  EXPECT_FALSE(health.refuses());
}

TEST(Health, WhatARefusingReplicaStillFinishesDoesNotBringItBack) {
  auto health = known();
  show(health, Sign::refused, 1, 1);
  show(health, Sign::answered, 5, 2);
  EXPECT_EQ(health.state(), down);
  EXPECT_TRUE(health.refuses());
}

TEST(Health, OneThatRefusesIsProbedSoonAndThenLessAndLess) {
  auto health = known();
  EXPECT_EQ(health.probe_after(), std::chrono::seconds(5));
  std::vector<double> waits;
  for (int i = 0; i < 7; ++i) {
    show(health, Sign::probe_refused, 1, i);
    show(health, Sign::refused, 9, i);
    waits.push_back(health.probe_after().count());
  }
  EXPECT_EQ(waits, (std::vector<double>{0.2, 0.4, 0.8, 1.6, 3.2, 5, 5}));
  show(health, Sign::probe_passed, 1, 8);
  show(health, Sign::refused, 1, 9);
  EXPECT_EQ(health.probe_after(), milliseconds(200)) << "it begins anew";
}

TEST(Health, ThreeFailedProbesInARowTakeItDown) {
  auto health = known();
  show(health, Sign::probe_failed, 2, 1);
  show(health, Sign::probe_passed, 1, 2);
  show(health, Sign::probe_failed, 2, 3);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::probe_failed, 1, 4);
  EXPECT_EQ(health.state(), down);
  EXPECT_EQ(health.reason(), "3 probes in a row failed");
  EXPECT_FALSE(health.refuses()) << "it takes connections, so it is tried where there is no other";
}

TEST(Health, SeveralPassedProbesMayBeWanted) {
  config::Health settings;
  settings.down_after = 1;
  settings.up_after = 2;
  Health health(settings, true, at(0));
  show(health, Sign::probe_failed, 1, 1);
  show(health, Sign::probe_passed, 1, 2);
  show(health, Sign::probe_failed, 1, 3);
  show(health, Sign::probe_passed, 1, 4);
  EXPECT_EQ(health.state(), down);
  show(health, Sign::probe_passed, 1, 5);
  EXPECT_EQ(health.state(), starting);
}

TEST(Health, AnAnswerIsLifeWhateverTheProbesSay) {
  auto health = known();
  show(health, Sign::probe_failed, 2, 1);
  show(health, Sign::answered, 1, 2);
  show(health, Sign::probe_failed, 2, 3);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::probe_failed, 1, 4);
  show(health, Sign::answered, 1, 5);
  EXPECT_EQ(health.state(), starting);
}

TEST(Health, AConnectionThatIsTakenAgainIsNoPassedProbe) {
  auto health = known();
  show(health, Sign::refused, 1, 1);
  show(health, Sign::probe_failed, 1, 2);
  EXPECT_EQ(health.state(), down);
  EXPECT_FALSE(health.refuses());
}

TEST(Health, FiveFailuresInARowEjectIt) {
  auto health = known();
  show(health, Sign::failed, 4, 1);
  show(health, Sign::answered, 1, 1);
  show(health, Sign::failed, 4, 1);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::failed, 1, 1);
  EXPECT_EQ(health.state(), ejected);
  EXPECT_EQ(health.reason(), "5 requests in a row failed, so it is out for 10 s");
}

TEST(Health, ABareClientErrorOrAFullReplicaIsNoFailure) {
  auto health = known();
  show(health, Sign::client_error, 100, 1);
  show(health, Sign::full, 100, 1);
  EXPECT_EQ(health.state(), up);
}

TEST(Health, TwoConnectionsInARowThatAreNotTakenEjectIt) {
  auto health = known();
  show(health, Sign::connect_timed_out, 1, 1);
  show(health, Sign::failed, 1, 1);
  show(health, Sign::connect_timed_out, 1, 1);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::connect_timed_out, 1, 1);
  EXPECT_EQ(health.state(), ejected);
}

TEST(Health, NothingSoftTakesOutWhatThePoolCannotSpare) {
  auto health = known();
  show(health, Sign::failed, 50, 1, false);
  show(health, Sign::connect_timed_out, 50, 1, false);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::refused, 1, 1, false);
  EXPECT_EQ(health.state(), down) << "that is no matter of opinion";
}

TEST(Health, AnEjectionDoublesAndIsHalvedByHealthyMinutes) {
  auto health = known();
  double now = 0;
  const auto ejection = [&] {
    show(health, Sign::failed, 5, now);
    EXPECT_EQ(health.state(), ejected);
    double length = 0;
    for (; health.state() == ejected && length < 1000; ++length) health.advance(at(now + length + 1));
    now += length;
    return length;
  };
  for (const double length : {10, 20, 40, 80, 160, 300, 300}) EXPECT_EQ(ejection(), length);
  now += 125;
  EXPECT_EQ(ejection(), 75) << "two healthy minutes";
  now += 3600;
  EXPECT_EQ(ejection(), 10);
}

TEST(Health, ItComesBackFromAnEjectionSlowly) {
  auto health = known();
  show(health, Sign::failed, 5, 0);
  health.prompt_finished(1000);
  health.advance(at(9.9));
  EXPECT_EQ(health.state(), ejected);
  health.advance(at(10));
  EXPECT_EQ(health.state(), starting);
  EXPECT_EQ(health.finished(), 0u);
  health.prompt_finished(50);
  EXPECT_EQ(health.finished(), 50u);
  health.advance(at(69.9));
  EXPECT_EQ(health.state(), starting);
  health.advance(at(70));
  EXPECT_EQ(health.state(), up) << "no start takes longer than a minute";
}

TEST(Health, PassedProbesDoNotEndAnEjection) {
  auto health = known();
  show(health, Sign::failed, 5, 0);
  show(health, Sign::probe_passed, 5, 1);
  EXPECT_EQ(health.state(), ejected);
}

TEST(Health, OneThatHungComesBackAfterItsTimeAndAPassedProbe) {
  auto health = known();
  health.hung("it stands still", at(0));
  EXPECT_EQ(health.state(), ejected);
  EXPECT_EQ(health.reason(), "it stands still, so it is out for 10 s and until a probe passes");
  health.advance(at(100));
  EXPECT_EQ(health.state(), ejected) << "time alone is not enough";
  show(health, Sign::probe_passed, 1, 101);
  health.advance(at(101));
  EXPECT_EQ(health.state(), starting);
  EXPECT_EQ(health.reason(), "its time out is over, and a probe has passed");
  health.hung("it stands still", at(102));
  show(health, Sign::probe_passed, 1, 103);
  health.advance(at(121.9));
  EXPECT_EQ(health.state(), ejected) << "nor is a probe: this one takes 20 s";
  health.advance(at(122));
  EXPECT_EQ(health.state(), starting);
}

TEST(Health, OneThatHungAndGoesDownServesItsTimeAllTheSame) {
  auto health = known();
  health.hung("it stands still", at(0));
  show(health, Sign::probe_failed, 3, 1);
  EXPECT_EQ(health.state(), down);
  show(health, Sign::probe_passed, 1, 4);
  EXPECT_EQ(health.state(), ejected);
  health.advance(at(9.9));
  EXPECT_EQ(health.state(), ejected);
  health.advance(at(10));
  EXPECT_EQ(health.state(), starting);
  const auto changes = health.take_changes();
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_TRUE(changes[0].hung);
  EXPECT_FALSE(changes[2].hung) << "that is no new hanging";
}

TEST(Health, OneThatHungAndWasStartedAnewRefusesNothingWhileItServesItsTime) {
  auto health = known();
  health.hung("it stands still", at(0));
  show(health, Sign::probe_refused, 3, 1);
  EXPECT_EQ(health.state(), down);
  EXPECT_TRUE(health.refuses());
  show(health, Sign::probe_passed, 1, 4);
  EXPECT_EQ(health.state(), ejected);
  EXPECT_FALSE(health.refuses()) << "it is tried where there is no other";
  show(health, Sign::refused, 1, 5);
  EXPECT_EQ(health.probe_after(), milliseconds(200)) << "it begins anew";
}

TEST(Health, TheReasonOfOneThatIsDownIsTheLatest) {
  auto health = known();
  health.unresolved("its name has no address", at(1));
  show(health, Sign::refused, 1, 2);
  EXPECT_EQ(health.reason(), "it refuses connections");
  EXPECT_EQ(health.since(), at(1));
  EXPECT_EQ(health.take_changes().size(), 1u);
}

TEST(Health, AProbeThatFailsAfterOneThatPassedKeepsItOut) {
  auto health = known();
  health.hung("it stands still", at(0));
  show(health, Sign::probe_passed, 1, 1);
  show(health, Sign::probe_failed, 1, 6);
  health.advance(at(20));
  EXPECT_EQ(health.state(), ejected);
  show(health, Sign::probe_passed, 1, 21);
  health.advance(at(21));
  EXPECT_EQ(health.state(), starting);
}

TEST(Health, TokensThatCameWhileAProbeFailedAreLifeButNoPassedProbe) {
  auto health = known();
  show(health, Sign::probe_failed, 2, 1);
  show(health, Sign::probe_excused, 1, 2);
  show(health, Sign::probe_failed, 2, 3);
  EXPECT_EQ(health.state(), up);
  show(health, Sign::probe_failed, 1, 4);
  EXPECT_EQ(health.state(), down);
  show(health, Sign::probe_excused, 9, 5);
  EXPECT_EQ(health.state(), down);
  auto other = known();
  other.hung("it stands still", at(0));
  show(other, Sign::probe_excused, 9, 5);
  other.advance(at(60));
  EXPECT_EQ(other.state(), ejected);
}

TEST(Health, OneThatIsOutAndHangsStaysAsItIsAndThatIsTold) {
  auto refuses = known();
  show(refuses, Sign::refused, 1, 1);
  refuses.hung("it stands still", at(2));
  EXPECT_EQ(refuses.state(), down);
  EXPECT_TRUE(refuses.take_changes().back().hung);
  show(refuses, Sign::probe_passed, 1, 3);
  EXPECT_EQ(refuses.state(), starting);

  auto fails = known();
  show(fails, Sign::failed, 5, 1);
  fails.hung("it stands still", at(2));
  EXPECT_TRUE(fails.take_changes().back().hung);
  fails.advance(at(60));
  EXPECT_EQ(fails.state(), ejected) << "until a probe passes";
}

TEST(Health, IsFullForAsLongAsItSays) {
  auto health = known();
  EXPECT_FALSE(health.is_full(at(1)));
  health.full(at(3));
  EXPECT_TRUE(health.is_full(at(2.9)));
  EXPECT_FALSE(health.is_full(at(3)));
}

TEST(Health, TellsEachChangeOnce) {
  auto health = known();
  show(health, Sign::refused, 2, 1);
  show(health, Sign::probe_passed, 1, 2);
  health.started(at(3));
  const auto changes = health.take_changes();
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].from, up);
  EXPECT_EQ(changes[0].to, down);
  EXPECT_EQ(changes[1].to, starting);
  EXPECT_EQ(changes[1].at, at(2));
  EXPECT_EQ(changes[2].to, up);
  EXPECT_TRUE(health.take_changes().empty());
}

TEST(Health, APardonedReplicaStartsAndItsEjectionsAreForgotten) {
  for (const bool hung : {false, true}) {
    auto health = known();
    show(health, Sign::failed, 5, 1);
    health.advance(at(12));
    if (hung)
      health.hung("it gave no sign of life for 9 s", at(13));
    else
      show(health, Sign::failed, 5, 13);
    ASSERT_EQ(health.state(), ejected);
    EXPECT_TRUE(health.pardon(at(14)));
    EXPECT_EQ(health.state(), starting);
    EXPECT_TRUE(health.is_new(at(14)));
    EXPECT_FALSE(health.pardon(at(14))) << "once";
    show(health, Sign::failed, 4, 15);
    EXPECT_EQ(health.state(), starting) << "its failures count from the beginning";
    show(health, Sign::failed, 1, 15);
    EXPECT_EQ(health.state(), ejected);
    health.advance(at(26));
    EXPECT_EQ(health.state(), starting) << "its next time out is a first one";
  }
}

TEST(Health, OnlyAnEjectedReplicaIsPardoned) {
  auto health = known();
  EXPECT_FALSE(health.pardon(at(1)));
  EXPECT_EQ(health.state(), up);
  show(health, Sign::refused, 1, 1);
  EXPECT_FALSE(health.pardon(at(1))) << "one that refuses connections takes no request, whatever anybody says";
  EXPECT_EQ(health.state(), down);
}

}  // namespace
}  // namespace weir::balancer
