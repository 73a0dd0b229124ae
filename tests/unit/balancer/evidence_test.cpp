// The law of evidence: a replica that fails one client, model or request is the same as before for the others whom it
// answers; and a replica that is broken for all is out, whatever it answers with.
#include "balancer/evidence.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

Caller from(Client client, Topic topic = 1) { return {.client = client, .topic = topic}; }
bool avoids(const Evidence& evidence, const Caller& caller, double now) {
  return evidence.advise(caller, at(now)).avoid;
}
bool is_full(const Evidence& evidence, const Caller& caller, double now) {
  return evidence.advise(caller, at(now)).full;
}

TEST(Evidence, OfOneClientKeepsThatClientAwayOnThatTopicAlone) {
  Evidence evidence;
  for (int i = 0; i < 4; ++i) evidence.showed(Sign::failed, from(1), at(1));
  EXPECT_FALSE(avoids(evidence, from(1), 1));
  evidence.showed(Sign::failed, from(1), at(1));
  EXPECT_TRUE(avoids(evidence, from(1), 1));
  EXPECT_FALSE(avoids(evidence, from(1, 2), 1)) << "another topic";
  EXPECT_FALSE(avoids(evidence, from(2), 1)) << "another client";
  EXPECT_FALSE(avoids(evidence, from({}), 1)) << "nobody knows whose";
  EXPECT_FALSE(evidence.has_failed_several({}, at(1)));
}

TEST(Evidence, OfTwoClientsKeepsAllAwayOnThatTopicUntilOneIsAnsweredWell) {
  Evidence evidence;
  for (const std::uint64_t client : {1U, 1U, 1U, 2U}) {
    evidence.showed(Sign::failed, from(client), at(1));
    EXPECT_FALSE(avoids(evidence, from(3), 1));
  }
  evidence.showed(Sign::failed, from(1), at(1));
  EXPECT_TRUE(evidence.has_failed_several({}, at(1)));
  EXPECT_TRUE(avoids(evidence, from(3), 1));
  EXPECT_TRUE(avoids(evidence, from({}), 1));
  EXPECT_FALSE(avoids(evidence, from(3, 2), 1)) << "another topic";
  evidence.showed(Sign::answered, from(4), at(2));
  EXPECT_FALSE(avoids(evidence, from(3), 2));
  EXPECT_FALSE(evidence.has_failed_several({}, at(1)));
}

TEST(Evidence, KeepsAwayForTenSecondsAndTwiceAsLongEachTimeUpToFiveMinutes) {
  Evidence evidence;
  double now = 0;
  for (int i = 0; i < 4; ++i) evidence.showed(Sign::failed, from(1), at(now));
  for (const double time : {10, 20, 40, 80, 160, 300, 300}) {
    evidence.showed(Sign::failed, from(1), at(now));
    evidence.showed(Sign::failed, from(1), at(now + time / 2));
    EXPECT_TRUE(avoids(evidence, from(1), now + time - 0.001)) << time;
    now += time;
    EXPECT_FALSE(avoids(evidence, from(1), now)) << "more failures meanwhile make it no longer: " << time;
  }
  evidence.showed(Sign::answered, from(1), at(now));
  for (int i = 0; i < 5; ++i) evidence.showed(Sign::failed, from(1), at(now));
  EXPECT_FALSE(avoids(evidence, from(1), now + 10)) << "a good answer ends the doubling";
}

TEST(Evidence, OfRefusalsThatAnotherAnsweredWellNeedsThree) {
  Evidence evidence;
  for (const std::uint64_t client : {1U, 2U}) evidence.showed(Sign::outdone, from(client), at(1));
  EXPECT_FALSE(avoids(evidence, from(3), 1));
  evidence.showed(Sign::outdone, from(1), at(1));
  EXPECT_TRUE(avoids(evidence, from(3), 1));
  EXPECT_TRUE(evidence.is_outdone(from(3), at(1)));
  EXPECT_TRUE(evidence.past_of(from(1), at(10.9)).was_outdone);
  EXPECT_TRUE(evidence.past_of(from(9), at(10.9)).was_outdone) << "two clients";
  EXPECT_FALSE(evidence.past_of(from(1), at(11)).was_outdone);
  EXPECT_FALSE(evidence.past_of(from(1, 2), at(1)).was_outdone);
  EXPECT_FALSE(evidence.past_of({.client = 1, .topic = 1, .status = 404}, at(1)).refuses);
  EXPECT_FALSE(evidence.has_failed_several({}, at(1))) << "a refusal is no failure";
  evidence.showed(Sign::answered, from(5), at(2));
  EXPECT_FALSE(avoids(evidence, from(3), 2));
  EXPECT_FALSE(evidence.is_outdone(from(3), at(2)));
}

TEST(Evidence, OfOneClientsRefusalsSaysNothingOfTheReplicaWhereItServesOthers) {
  for (const std::uint64_t last : {1U, 2U}) {
    Evidence evidence;
    evidence.showed(Sign::answered, from(9), at(1));
    for (const std::uint64_t client : {std::uint64_t{1}, std::uint64_t{1}, last})
      evidence.showed(Sign::outdone, from(client), at(1));
    EXPECT_EQ(evidence.is_outdone(from(1), at(1)), last == 2) << "two clients";
    EXPECT_TRUE(evidence.is_outdone(from(1), at(12))) << "it serves no other any more";
  }
}

TEST(Evidence, FullForOneClientIsFullForAllOnceASecondIsTold) {
  Evidence evidence;
  evidence.showed(Sign::full, from(1), at(0), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(1), 59));
  EXPECT_FALSE(is_full(evidence, from(2), 1));
  evidence.showed(Sign::full, from(2), at(1), std::chrono::seconds(5));
  EXPECT_TRUE(is_full(evidence, from(3), 1.249));
  EXPECT_FALSE(is_full(evidence, from(3), 1.25)) << "for 250 ms, whatever the two were told";
  EXPECT_TRUE(is_full(evidence, from(2), 5.9));
  EXPECT_TRUE(is_full(evidence, from(1), 6));
}

// Each has a limit of its own at the engines.
TEST(Evidence, FullForClientsThatItNeverServesIsFullForNoOther) {
  Evidence evidence;
  double now = 0;
  for (int i = 0; i < 20; ++i, now += 0.5) {
    evidence.showed(Sign::answered, from(9), at(now));
    for (const std::uint64_t client : {1U, 2U}) {
      evidence.showed(Sign::full, from(client), at(now));
      EXPECT_TRUE(is_full(evidence, from(client), now));
    }
    if (i > 0) EXPECT_FALSE(is_full(evidence, from(3), now)) << i;
  }
  for (const std::uint64_t client : {1U, 2U}) evidence.showed(Sign::answered, from(client), at(now));
  for (const std::uint64_t client : {1U, 2U}) evidence.showed(Sign::full, from(client), at(now));
  EXPECT_TRUE(is_full(evidence, from(3), now)) << "they have been served since";
}

// Users behind one credential, or behind one address without any, are one client for weir.
TEST(Evidence, FullForAClientWhomItServesIsALimitOfOneOfItsUsers) {
  Evidence evidence;
  evidence.showed(Sign::answered, from(1), at(0));
  evidence.showed(Sign::full, from(1), at(1), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(1), 1.249));
  EXPECT_FALSE(is_full(evidence, from(1), 1.25));
  evidence.showed(Sign::full, from(1), at(2), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(1), 2.1));
  evidence.showed(Sign::answered, from(1), at(2.1));
  EXPECT_FALSE(is_full(evidence, from(1), 2.1));
  evidence.showed(Sign::full, from(1), at(13), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(1), 72.9)) << "ten seconds without an answer";
}

TEST(Evidence, OfTwoClientsOfDifferentTimesIsThatOfOne) {
  Evidence evidence;
  evidence.showed(Sign::full, from(1), at(0), std::chrono::seconds(60));
  evidence.showed(Sign::full, from(2), at(10), std::chrono::seconds(60));
  EXPECT_FALSE(is_full(evidence, from(3), 10));
  evidence.showed(Sign::full, from(4), at(19.9), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(3), 19.9));
  Evidence refusals;
  for (const unsigned now : {0U, 10U})
    refusals.showed(Sign::client_error, {.client = now, .topic = 1, .status = 404}, at(now));
  EXPECT_FALSE(refusals.past_of({.client = 7, .topic = 1, .status = 404}, at(10)).refuses);
}

TEST(Evidence, FullOfOneModelIsFullOfAllUnlessAnotherOneIsAnswered) {
  for (const bool answers : {false, true}) {
    Evidence evidence;
    if (answers) evidence.showed(Sign::answered, from(9, 2), at(0));
    for (const std::uint64_t client : {1U, 2U})
      evidence.showed(Sign::full, from(client), at(1), std::chrono::seconds(60));
    EXPECT_TRUE(is_full(evidence, from(3), 1));
    EXPECT_EQ(is_full(evidence, from(3, 2), 1), !answers);
  }
}

TEST(Evidence, FullOfAllLastsTwiceAsLongEachTimeUpToEightSeconds) {
  Evidence evidence;
  double now = 0;
  std::uint64_t client = 0;
  for (const double time : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0}) {
    for (int i = 0; i < 4; ++i) evidence.showed(Sign::full, from(++client), at(now));
    EXPECT_TRUE(is_full(evidence, from(99), now + time - 0.001)) << time;
    now += time;
    EXPECT_FALSE(is_full(evidence, from(99), now)) << time;
  }
}

TEST(Evidence, AGoodAnswerToAnotherEndsWhatWasToldForAll) {
  Evidence evidence;
  for (const std::uint64_t client : {1U, 2U})
    evidence.showed(Sign::full, from(client), at(1), std::chrono::seconds(60));
  EXPECT_TRUE(is_full(evidence, from(4), 1.1));
  evidence.showed(Sign::answered, from(3), at(1.1));
  EXPECT_FALSE(is_full(evidence, from(4), 1.1));
  EXPECT_TRUE(is_full(evidence, from(1), 2)) << "who was told keeps away";
  evidence.showed(Sign::full, from(1), at(3), std::chrono::seconds(60));
  EXPECT_FALSE(is_full(evidence, from(4), 3)) << "one client since that answer";
  evidence.showed(Sign::answered, from(1), at(4));
  EXPECT_TRUE(is_full(evidence, from(1), 4)) << "it has said so itself";
}

TEST(Evidence, AFullReplicaThatDoesNotSayForHowLongIsLeftAloneForTwiceAsLongEachTimeUpToEightSeconds) {
  Evidence evidence;
  double now = 0;
  for (const double time : {1, 2, 4, 8, 8}) {
    evidence.showed(Sign::full, from(1), at(now));
    EXPECT_TRUE(is_full(evidence, from(1), now + time - 0.001));
    now += time;
    EXPECT_FALSE(is_full(evidence, from(1), now)) << time;
  }
  evidence.showed(Sign::answered, from(1), at(now));
  evidence.showed(Sign::full, from(1), at(now));
  EXPECT_FALSE(is_full(evidence, from(1), now + 1));
  evidence.showed(Sign::full, from(1), at(now + 1));
  evidence.showed(Sign::answered, from(1), at(now + 1.5));
  EXPECT_FALSE(is_full(evidence, from(1), now + 1.5)) << "it had guessed";
}

// Without keys of weir's own, anybody can send any credential.
TEST(Evidence, OfManyCredentialsOfOneAddressIsOneWord) {
  Evidence evidence;
  evidence.showed(Sign::answered, from(50), at(1));
  for (std::uint64_t credential = 1; credential < 40; ++credential) {
    Caller caller = from(credential);
    caller.voice = 7;
    for (int i = 0; i < 5; ++i) evidence.showed(Sign::failed, caller, at(1));
    evidence.showed(Sign::full, caller, at(1), std::chrono::seconds(60));
  }
  EXPECT_FALSE(evidence.has_failed_several({}, at(1)));
  EXPECT_FALSE(avoids(evidence, from(99), 1));
  EXPECT_FALSE(is_full(evidence, from(99), 1));
}

// A request that finds no room goes back to the queue, and the next one finds the same.
TEST(Evidence, BehindOneAddressIsAFullReplicaFullForAllCredentials) {
  Evidence evidence;
  for (std::uint64_t credential = 1; credential <= 2; ++credential) {
    Caller caller = from(credential);
    caller.voice = 7;
    evidence.showed(Sign::answered, caller, at(1));
    EXPECT_FALSE(is_full(evidence, from(99), 1));
  }
  for (std::uint64_t credential = 1; credential <= 2; ++credential) {
    Caller caller = from(credential);
    caller.voice = 7;
    evidence.showed(Sign::full, caller, at(1));
  }
  EXPECT_TRUE(is_full(evidence, from(99), 1));
}

TEST(Evidence, WhatNobodysClientSawSpeaksForAllOnAllTopics) {
  Evidence evidence;
  evidence.showed(Sign::full, {}, at(0), std::chrono::seconds(5));
  EXPECT_TRUE(is_full(evidence, from(7, 9), 1));
  EXPECT_TRUE(is_full(evidence, {}, 1));
  evidence.showed(Sign::failed, {}, at(0));
  EXPECT_TRUE(evidence.has_failed_several({}, at(1)));
}

TEST(Evidence, AReplicaRestsAfterAFailureForThoseOfTheQueueOnlyIfItFailsAgainOrAnswersNobody) {
  const auto advice = [](const Evidence& evidence, const Caller& caller) { return evidence.advise(caller, at(20.9)); };
  Evidence silent;
  silent.begin_rest(from(1), at(20));
  EXPECT_TRUE(advice(silent, from(1)).rests_for_queue) << "it has answered nobody lately";
  EXPECT_TRUE(advice(silent, from(2)).rests_for_queue);
  Evidence works;
  works.showed(Sign::answered, from(2), at(15));
  works.begin_rest(from(1), at(20));
  EXPECT_TRUE(advice(works, from(1)).rests);
  EXPECT_FALSE(advice(works, from(1)).rests_for_queue);
  for (int i = 0; i < 2; ++i) works.showed(Sign::failed, from(1), at(20));
  works.begin_rest(from(1), at(20));
  EXPECT_TRUE(advice(works, from(1)).rests_for_queue) << "the third in a row";
  EXPECT_FALSE(advice(works, from(2)).rests);
  works.begin_rest(from(3), at(20));
  EXPECT_FALSE(advice(works, from(2)).rests) << "the replica has served neither";
  works.showed(Sign::answered, from(4), at(20));
  works.showed(Sign::failed, from(4), at(20));
  works.begin_rest(from(3), at(20));
  EXPECT_TRUE(advice(works, from(2)).rests) << "two clients, of whom it has served one";
  EXPECT_FALSE(works.advise(from(2), at(21)).rests);
}

TEST(Evidence, AReplicaThatIsFullForOneClientRestsForNoOther) {
  Evidence evidence;
  evidence.begin_rest(from(1), at(20));
  evidence.showed(Sign::full, from(1), at(20), std::chrono::seconds(60));
  EXPECT_TRUE(evidence.advise(from(1), at(20)).rests);
  EXPECT_FALSE(evidence.advise(from(2), at(20)).rests) << "whether it has answered anybody lately or not";
}

TEST(Evidence, OfAClientWithManyTopicsHidesNoOther) {
  Evidence evidence;
  for (const std::uint64_t client : {1U, 2U})
    evidence.showed(Sign::full, from(client), at(0), std::chrono::seconds(60));
  evidence.showed(Sign::answered, from(3, 7), at(0));
  for (const std::uint64_t client : {1U, 2U}) evidence.showed(Sign::answered, from(client), at(0));
  for (const std::uint64_t client : {1U, 2U})
    evidence.showed(Sign::full, from(client), at(0), std::chrono::seconds(60));
  for (Topic topic = 10; topic < 1000; ++topic) {
    evidence.showed(Sign::failed, from(4, topic), at(0.1));
    evidence.showed(Sign::client_error, from(4, topic), at(0.1));
  }
  EXPECT_TRUE(is_full(evidence, from(1), 1));
  EXPECT_TRUE(is_full(evidence, from(2), 1));
  EXPECT_TRUE(is_full(evidence, from(9), 0.2));
  EXPECT_TRUE(evidence.serves_others(from(4), at(1)));
}

TEST(Evidence, OfOneAddressHidesNoneOfItsOwnThatKeepsAway) {
  Evidence evidence;
  const auto via = [](std::uint64_t credential, Topic topic) {
    Caller caller = from(credential, topic);
    caller.voice = 7;
    return caller;
  };
  for (int i = 0; i < 5; ++i) evidence.showed(Sign::failed, via(1, 1), at(0));
  for (std::uint64_t credential = 100; credential < 150; ++credential)
    evidence.showed(Sign::answered, via(credential, 2), at(1));
  EXPECT_TRUE(avoids(evidence, via(1, 1), 2));
}

TEST(Evidence, OfAFullReplicaIsNotHiddenByTheAnswersOfMany) {
  Evidence evidence;
  evidence.showed(Sign::full, from(1), at(0), std::chrono::seconds(60));
  for (std::uint64_t client = 10; client < 500; ++client) evidence.showed(Sign::answered, from(client, 2), at(1));
  EXPECT_TRUE(is_full(evidence, from(1), 2));
}

TEST(Evidence, OfARefusalWithAnotherStatusIsAnotherRow) {
  Evidence evidence;
  evidence.showed(Sign::client_error, {.client = 1, .topic = 1, .status = 404}, at(1));
  evidence.showed(Sign::client_error, {.client = 2, .topic = 1, .status = 401}, at(1));
  EXPECT_TRUE(evidence.past_of({.client = 2, .topic = 1, .status = 401}, at(1)).refuses);
  EXPECT_FALSE(evidence.past_of({.client = 9, .topic = 1, .status = 401}, at(1)).refuses) << "one client had that";
}

TEST(Evidence, OfManyClientsThatAreAnsweredHidesNoneOfThoseThatAreNot) {
  Evidence evidence;
  for (int i = 0; i < 5; ++i) evidence.showed(Sign::failed, from(1), at(0));
  for (std::uint64_t client = 10; client < 500; ++client) evidence.showed(Sign::answered, from(client, 2), at(1));
  EXPECT_TRUE(avoids(evidence, from(1), 2));
  for (std::uint64_t client = 1000; client < 1500; ++client) evidence.showed(Sign::full, from(client, 3), at(1.5));
  EXPECT_TRUE(evidence.serves_others(from(1), at(2))) << "and the other way round";
}

TEST(Evidence, CountsTheLastAnswersOfEachClientAndTopic) {
  Evidence evidence;
  for (int i = 0; i < 1000; ++i) evidence.showed(Sign::answered, from(1), at(1));
  for (int i = 0; i < 30; ++i) evidence.showed(Sign::client_error, from(1), at(1));
  const auto counts = evidence.counts(1, 1, at(1));
  EXPECT_LE(counts.answers(), 40u);
  EXPECT_GT(counts.refused, counts.good);
  EXPECT_EQ(evidence.counts(2, 0, at(1)).answers(), 0u);
  EXPECT_EQ(evidence.counts({}, 2, at(1)).answers(), 0u);
  for (const auto& same : {evidence.counts({}, 1, at(1)), evidence.counts({}, 0, at(1))})
    EXPECT_EQ(same.answers(), counts.answers());
  EXPECT_EQ(evidence.counts({}, 0, at(61)).answers(), 0u) << "a minute old";
  evidence.showed(Sign::answered, from(1), at(61));
  EXPECT_EQ(evidence.counts(1, 1, at(61)).answers(), 1u);
}

// Each of many clients asks once, so that the replica remembers few of them.
TEST(Evidence, OfManyClientsThatAskOnceIsThatOfTheirTopic) {
  Evidence evidence;
  const auto time = [](std::uint64_t client) { return at(0.9 + 1e-4 * static_cast<double>(client)); };
  for (std::uint64_t client = 1; client <= 200; ++client)
    evidence.showed(Sign::client_error, from(client, 1 + client % 2), time(client));
  for (const Topic topic : {0U, 1U, 2U}) EXPECT_GE(evidence.counts({}, topic, at(1)).refused, 20u) << topic;
  Evidence fails;
  for (std::uint64_t client = 1; client <= 200; ++client) fails.showed(Sign::answered, from(client), time(client));
  for (std::uint64_t client = 201; client <= 205; ++client) fails.showed(Sign::failed, from(client), time(client));
  EXPECT_TRUE(avoids(fails, from(7), 1));
}

// Its key is refused there, say, while others are answered.
TEST(Evidence, OfOneClientLastsWhileOthersAreAnswered) {
  Evidence evidence;
  for (int i = 0; i < 3; ++i) {
    evidence.showed(Sign::outdone, from(1), at(1));
    for (const std::uint64_t client : {2U, 3U}) evidence.showed(Sign::answered, from(client), at(1));
  }
  EXPECT_TRUE(avoids(evidence, from(1), 1));
  EXPECT_FALSE(avoids(evidence, from(2), 1));
}

TEST(Evidence, OfAMinuteAgoIsForgotten) {
  Evidence evidence;
  for (int i = 0; i < 4; ++i) evidence.showed(Sign::failed, from(1), at(0));
  evidence.showed(Sign::failed, from(2), at(61));
  EXPECT_FALSE(avoids(evidence, from(3), 61));
  EXPECT_FALSE(evidence.has_failed_several({}, at(61)));
}

TEST(Evidence, OfAConnectionThatFailsIsNoTopics) {
  Evidence evidence;
  evidence.showed(Sign::answered, from(1), at(1));
  EXPECT_FALSE(evidence.answers_other_topics(0, at(1)));
  EXPECT_TRUE(evidence.answers_other_topics(2, at(1)));
  Caller no_engine = from(1, 3);
  no_engine.infers = false;
  Evidence front;
  front.showed(Sign::answered, no_engine, at(1));
  EXPECT_FALSE(front.answers_other_topics(2, at(1))) << "an engine's front answers a route that needs no engine";
}

TEST(TopicOf, TellsModelsAndRoutesApart) {
  std::set<Topic> topics;
  for (const auto* model : {"", "a", "b", "openai.chat"})
    for (const auto* route : {"", "a", "openai.chat", "/v1/x"}) topics.insert(topic_of(model, route));
  EXPECT_EQ(topics.size(), 16u);
  EXPECT_FALSE(topics.contains(0));
}

/// A pool that judges by the evidence of its replicas.
class PoolEvidence : public PoolWithKeys {
 protected:
  void report(std::size_t replica, Sign sign, const Caller& caller, double now,
              std::optional<std::chrono::duration<double>> full_for = {}) {
    pool->health().report(keys[replica], sign, at(now), full_for, caller);
  }
  void report(std::size_t replica, Sign sign, const Caller& caller, int times, double now) {
    for (int i = 0; i < times; ++i) report(replica, sign, caller, now);
  }
  bool is_out(std::size_t replica, double now) { return state(replica, now) == ReplicaState::ejected; }
  std::set<ReplicaIndex> chosen(const Caller& caller, double now) {
    std::set<ReplicaIndex> found;
    for (std::size_t i = 0; i < 4 * keys.size(); ++i) {
      PlacementRequest request{shared(prompt_of(10))};
      request.caller = caller;
      auto lease = admitted(pool->offer(request, at(now)));
      found.insert(lease.replica());
      lease.end(LeaseEnd(EndCause::unsent), at(now));
    }
    return found;
  }
  std::set<ReplicaIndex> all() const {
    std::set<ReplicaIndex> indices;
    for (const auto& key : keys) indices.insert(key.index);
    return indices;
  }
  unsigned below(unsigned n) { return std::uniform_int_distribution(0U, n - 1)(random); }

  std::mt19937 random{11};
};

// The law. Whatever a replica does to one client, on whatever topic: no other that it answers notices.
TEST_F(PoolEvidence, WhatReplicasDoToOneClientChangesNothingForThoseWhomTheyAnswer) {
  constexpr Sign signs[] = {Sign::failed, Sign::client_error, Sign::outdone, Sign::full, Sign::empty};
  for (int round = 0; round < 200; ++round) {
    begin(2 + below(4));
    const Caller limited = from(99, below(2));
    const bool one_kind = below(2) == 0;
    const Sign kind = signs[below(std::size(signs))];
    double now = 100;
    for (int i = 0; i < 120; ++i) {
      now += below(3) * 0.2;
      for (std::size_t replica = 0; replica < keys.size(); ++replica)
        report(replica, Sign::answered, from(below(3), 1), now);
      const int times = 1 + static_cast<int>(below(6));
      for (int n = 0; n < times; ++n)
        report(below(static_cast<unsigned>(keys.size())), one_kind ? kind : signs[below(std::size(signs))], limited,
               now, std::chrono::seconds(60));
      for (std::size_t replica = 0; replica < keys.size(); ++replica)
        ASSERT_FALSE(is_out(replica, now)) << "round " << round << ", step " << i;
      ASSERT_EQ(chosen(from(below(3), 1), now), all()) << "round " << round << ", step " << i;
      ASSERT_EQ(chosen(from(7, 1), now), all()) << "a client that is new: round " << round << ", step " << i;
    }
  }
}

// Nor of one model, whoever asks for it.
TEST_F(PoolEvidence, WhatReplicasDoToOneModelChangesNothingForTheOthersThatTheyServe) {
  constexpr Sign signs[] = {Sign::failed, Sign::client_error, Sign::outdone, Sign::full, Sign::empty};
  for (int round = 0; round < 200; ++round) {
    begin(3);
    double now = 100;
    for (int i = 0; i < 150; ++i) {
      now += below(3) * 0.2;
      for (std::size_t replica = 0; replica < keys.size(); ++replica)
        report(replica, Sign::answered, from(below(5), 1), now);
      report(1, Sign::answered, from(below(5), 2), now);
      const int times = 1 + static_cast<int>(below(6));
      for (int n = 0; n < times; ++n)
        report(0, signs[below(std::size(signs))], from(below(5), 2), now, std::chrono::seconds(60));
      ASSERT_FALSE(is_out(0, now)) << "round " << round << ", step " << i;
      ASSERT_EQ(chosen(from(below(9), 1), now), all()) << "round " << round << ", step " << i;
    }
  }
}

// The converse.
TEST_F(PoolEvidence, AReplicaThatIsBrokenForAllIsOutWhateverItAnswersWith) {
  for (const unsigned clients : {1U, 2U, 30U})
    for (const unsigned topics : {1U, 3U})
      for (const Sign sign : {Sign::failed, Sign::empty, Sign::client_error}) {
        begin(3);
        double now = 100;
        int requests = 0;
        for (; !is_out(0, now) && requests < 200; now += 0.05) {
          const Caller caller = from(below(clients), 1 + below(topics));
          for (const std::size_t peer : {1U, 2U}) report(peer, Sign::answered, caller, now);
          if (now < 105) {
            report(0, Sign::answered, caller, now);
            continue;
          }
          ++requests;
          report(0, sign, caller, now);
          if (sign == Sign::client_error) report(0, Sign::outdone, caller, now);
        }
        EXPECT_TRUE(is_out(0, now)) << clients << " clients, " << topics << " topics, sign " << static_cast<int>(sign);
        EXPECT_LE(now, 120) << clients << " clients, " << topics << " topics, sign " << static_cast<int>(sign);
      }
}

TEST_F(PoolEvidence, AModelThatOneReplicaFailsGoesElsewhereAndWhereAllFailItToAll) {
  begin(3);
  report(0, Sign::answered, from(5, 2), 1);
  for (const std::uint64_t client : {1U, 2U}) report(0, Sign::failed, from(client), 3, 1);
  EXPECT_FALSE(is_out(0, 1)) << "it answers another model";
  EXPECT_EQ(chosen(from(3), 1), (std::set<ReplicaIndex>{1, 2}));
  EXPECT_EQ(chosen(from(3, 2), 1), all());
  EXPECT_EQ(chosen(from(3), 11), all()) << "ten seconds later it is tried again";
  for (const std::size_t replica : {0U, 1U, 2U}) {
    report(replica, Sign::answered, from(5, 2), 12);
    for (const std::uint64_t client : {1U, 2U}) report(replica, Sign::failed, from(client), 3, 12);
  }
  EXPECT_EQ(chosen(from(3), 12), all());
}

TEST_F(PoolEvidence, AnswersThatAreEmptyForEverybodyEverywhereAreNobodysFault) {
  begin(3);
  for (int i = 0; i < 300; ++i)
    for (const std::size_t replica : {0U, 1U, 2U}) {
      report(replica, Sign::empty, from(below(9)), 1 + 0.01 * i);
      ASSERT_FALSE(is_out(replica, 1 + 0.01 * i));
    }
}

// Such a client asks for what has no answer. Two of them come to one replica by their common beginning.
TEST_F(PoolEvidence, AnswersThatAreEmptyEverywhereForSomeClientsSayNothingOfOthers) {
  begin(2);
  for (int i = 0; i < 5; ++i)
    for (const std::uint64_t client : {1U, 2U}) report(1, Sign::empty, from(client), 1);
  for (std::uint64_t i = 0; i < 40; ++i) report(1, Sign::answered, from(1000 + i % 5), 1);
  for (int i = 0; i < 40; ++i) {
    report(0, Sign::empty, from(1 + below(2)), 1);
    ASSERT_FALSE(is_out(0, 1)) << i;
    ASSERT_EQ(chosen(from(7), 1), all()) << i;
  }
}

// Rows of five are frequent where half of what comes is from clients that the replica never answers.
TEST_F(PoolEvidence, ClientsThatAReplicaNeverAnswersChangeNothingForThoseWhomItAnswers) {
  begin(3);
  for (int i = 0; i < 3000; ++i) {
    const double now = 100 + 0.05 * i;
    for (const std::size_t peer : {1U, 2U}) report(peer, Sign::answered, from(below(9)), now);
    const bool fails = below(2) == 0;
    report(0, fails ? Sign::failed : Sign::answered, from(fails ? 1 + below(3) : 4 + below(5)), now);
    ASSERT_FALSE(is_out(0, now)) << i;
    ASSERT_EQ(chosen(from(7), now), all()) << i;
  }
}

// A replica that fails six of ten requests of whomever it serves.
TEST_F(PoolEvidence, AReplicaThatFailsMostRequestsOfAllIsOut) {
  for (const unsigned clients : {3U, 30U, 3000U}) {
    begin(3);
    double now = 100;
    for (; !is_out(0, now) && now < 130; now += 0.05) {
      const Caller caller = from(below(clients));
      for (const std::size_t peer : {1U, 2U}) report(peer, Sign::answered, caller, now);
      report(0, below(10) < 6 ? Sign::failed : Sign::answered, caller, now);
    }
    EXPECT_TRUE(is_out(0, now)) << clients;
  }
}

// A gateway: one address, many credentials, two models.
TEST_F(PoolEvidence, BehindOneAddressAModelThatAReplicaFailsForAllGoesElsewhere) {
  begin(3);
  double now = 100;
  int failed = 0;
  for (int i = 0; i < 3000; ++i, now += 0.02) {
    Caller caller = from(1 + below(40), 1 + below(2));
    caller.voice = 7;
    const auto to = chosen(caller, now);
    const ReplicaIndex replica = *std::next(to.begin(), below(static_cast<unsigned>(to.size())));
    const bool fails = replica == 0 && caller.topic == 1;
    failed += fails ? 1 : 0;
    report(replica, fails ? Sign::failed : Sign::answered, caller, now);
    ASSERT_FALSE(is_out(0, now)) << "it answers the other model";
  }
  EXPECT_LE(failed, 60);
}

// Engines whose work fails still answer polls, and refuse what is wrong.
TEST_F(PoolEvidence, WhatNeedsNoEngineHidesNoReplicaThatFails) {
  for (const Sign between : {Sign::answered, Sign::client_error}) {
    begin(3);
    Caller poll = from(9, 3);
    poll.gives_work = poll.infers = false;
    double now = 100;
    for (int i = 0; i < 40 && !is_out(0, now); ++i, now += 0.1) {
      for (const std::size_t peer : {1U, 2U}) report(peer, Sign::answered, from(1 + below(3)), now);
      report(0, Sign::failed, from(1 + below(3)), now);
      report(0, between, poll, now);
    }
    EXPECT_TRUE(is_out(0, now)) << static_cast<int>(between);
  }
}

// Thousands of clients come rarely, and a third of what they send fails wherever it goes.
TEST_F(PoolEvidence, WhatFailsEverywhereEjectsNobody) {
  begin(4);
  std::uint64_t client = 0;
  for (int i = 0; i < 6000; ++i) {
    const double now = 100 + 0.01 * i;
    report(below(4), below(3) == 0 ? Sign::failed : Sign::answered, from(++client % 3000), now);
    for (const std::size_t replica : {0U, 1U, 2U, 3U}) ASSERT_FALSE(is_out(replica, now)) << i;
  }
}

TEST_F(PoolEvidence, OneFailureOfAThirdModelSaysNothingOfASecondOne) {
  begin(3);
  for (const std::size_t replica : {0U, 1U, 2U}) report(replica, Sign::answered, from(5, 2), 10, 100);
  report(0, Sign::failed, from(9, 3), 101);
  for (const std::uint64_t client : {1U, 2U}) report(0, Sign::failed, from(client, 1), 3, 106);
  EXPECT_FALSE(is_out(0, 106)) << "it answered the second one six seconds ago";
}

// The third one may be as broken, and nobody asked for it lately.
TEST_F(PoolEvidence, WhereTwoModelsFailForSeveralAThirdOneProtectsForFiveSeconds) {
  for (const double now : {104.0, 106.0}) {
    begin(3);
    report(0, Sign::answered, from(5, 3), 100);
    for (const Topic topic : {1U, 2U})
      for (const std::uint64_t client : {1U, 2U}) report(0, Sign::failed, from(client, topic), 3, now);
    EXPECT_EQ(is_out(0, now), now > 105);
  }
}

TEST_F(PoolEvidence, RefusalsToOneClientThatPeersAnswerEjectNobodyWhoServesOthers) {
  for (const bool serves_others : {true, false}) {
    begin(3);
    for (const std::size_t peer : {1U, 2U}) report(peer, Sign::answered, from(1), 20, 1);
    if (serves_others) report(0, Sign::answered, from(2, 1), 2, 1);
    report(0, Sign::client_error, from(1), 6, 1);
    report(0, Sign::outdone, from(1), 3, 1);
    EXPECT_EQ(is_out(0, 1), !serves_others);
  }
}

TEST_F(PoolEvidence, AReplicaIsLostAloneWithoutOthersBesideOrJustBefore) {
  begin(1);
  PlacementRequest request{shared(prompt_of(10))};
  auto one = admitted(pool->offer(request, at(1))), other = admitted(pool->offer(request, at(1)));
  one.end(LeaseEnd(EndCause::replica_failed), at(2));
  EXPECT_FALSE(pool->health().is_lost_alone(keys[0], at(2)));
  other.end(LeaseEnd(EndCause::replica_failed), at(2.5));
  EXPECT_FALSE(pool->health().is_lost_alone(keys[0], at(2.5)));
  EXPECT_TRUE(pool->health().is_lost_alone(keys[0], at(4)));
}

TEST_F(PoolEvidence, OfAMinuteAgoIsNoRowWithThatOfNow) {
  begin(3);
  report(0, Sign::failed, from(1), 4, 100);
  report(0, Sign::failed, from(2), 161);
  EXPECT_FALSE(is_out(0, 161));
  report(0, Sign::failed, from(1), 4, 162);
  EXPECT_TRUE(is_out(0, 162));
}

// A quarter of all completions of code are empty, and rows of five are no wonder.
TEST_F(PoolEvidence, AnswersOfWhichManyAreEmptyEverywhereAreNobodysFault) {
  begin(3);
  for (int i = 0; i < 3000; ++i)
    for (const std::size_t replica : {0U, 1U, 2U}) {
      report(replica, below(4) == 0 ? Sign::empty : Sign::answered, from(below(9)), 1 + 0.01 * i);
      ASSERT_FALSE(is_out(replica, 1 + 0.01 * i)) << i;
    }
}

// Two replicas that refuse were each other's second opinion for ever, and a third one was never asked that has
// the model.
TEST_F(PoolEvidence, ARefusalIsTheClientsFaultOnceAllOthersRefuse) {
  begin(3);
  Caller caller = from(1);
  caller.status = 404;
  const auto all_refuse = [&] { return pool->health().refused_everywhere(keys[2], caller, at(1)); };
  report(0, Sign::client_error, caller, 1);
  EXPECT_FALSE(all_refuse()) << "the second one has not been asked";
  pool->health().engine_told(keys[1], {.kv_tokens = {}, .max_context = {}, .asleep = true});
  EXPECT_TRUE(all_refuse()) << "it sleeps";
  pool->health().engine_told(keys[1], {});
  report(1, Sign::client_error, caller, 1);
  EXPECT_TRUE(all_refuse());
  report(0, Sign::outdone, caller, 1);
  EXPECT_FALSE(all_refuse()) << "another one answered it well";
  report(0, Sign::client_error, caller, 1);
  EXPECT_TRUE(all_refuse());
  report(1, Sign::answered, caller, 1);
  EXPECT_FALSE(all_refuse()) << "the second one answers it";
}

TEST_F(PoolEvidence, OfRequestsThatEndWhileItIsOutSaysNothingOfTheTimeAfter) {
  begin(2);
  for (const std::uint64_t client : {1U, 2U, 3U, 4U, 5U}) report(0, Sign::failed, from(client), 1);
  ASSERT_TRUE(is_out(0, 1));
  for (std::uint64_t client = 6; client < 30; ++client) report(0, Sign::failed, from(client), 2);
  report(0, Sign::failed, from(40), 12);
  EXPECT_FALSE(is_out(0, 12));
  EXPECT_EQ(chosen(from(41), 12), all());
}

TEST_F(PoolEvidence, BehindOneAddressAReplicaThatFailsAllIsOutWhateverCredentialsComeThere) {
  begin(3);
  double now = 1;
  for (std::uint64_t i = 0; i < 600 && !is_out(0, now); ++i, now += 0.01) {
    Caller caller = from(1000 + i / 3);
    caller.voice = 7;
    report(i % 3, i % 3 == 0 ? Sign::failed : Sign::answered, caller, now);
  }
  EXPECT_TRUE(is_out(0, now));
  EXPECT_FALSE(is_out(1, now) || is_out(2, now));
}

TEST_F(PoolEvidence, AClientAloneEjectsOnlyWhatAPeerAnswersMuchBetter) {
  const auto fails = [&](int good, int bad) {
    begin(2);
    report(1, Sign::answered, from(1), good, 1);
    report(1, Sign::failed, from(1), bad, 1);
    report(0, Sign::failed, from(1), 5, 1);
    return is_out(0, 1);
  };
  EXPECT_FALSE(fails(0, 0));
  EXPECT_FALSE(fails(8, 0)) << "1 in 10 to the fifth power is not below 1 in 100,000";
  EXPECT_TRUE(fails(9, 0));
  EXPECT_FALSE(fails(9, 3));
  begin(2);
  report(1, Sign::answered, from(1), 20, 1);
  report(0, Sign::answered, from(2), 1);
  report(0, Sign::failed, from(1), 20, 1);
  EXPECT_FALSE(is_out(0, 1)) << "the replica answers another client";
  EXPECT_EQ(chosen(from(1), 1), std::set<ReplicaIndex>{1}) << "but this one's requests go elsewhere";
  report(0, Sign::failed, from(1), 1, 12);
  EXPECT_TRUE(is_out(0, 12)) << "no more";
}

TEST_F(PoolEvidence, OfBeforeAnEjectionIsForgotten) {
  begin(2);
  for (const std::uint64_t client : {1U, 2U, 2U, 2U, 2U}) report(0, Sign::failed, from(client), 1);
  EXPECT_TRUE(is_out(0, 1));
  report(0, Sign::failed, from(3), 5, 12);
  EXPECT_FALSE(is_out(0, 12)) << "two had seen the failures of before";
  report(0, Sign::failed, from(4), 12);
  EXPECT_TRUE(is_out(0, 12));
}

}  // namespace
}  // namespace weir::balancer
