// How a story ends that waits or is refused, what it leaves in its record, and what a driver may ask of it on the way.
#include "balancer/story/story.hpp"

#include <tuple>

#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

metrics::record::RequestRecord record_of(Story& story, Moment now) {
  metrics::record::RequestRecord record;
  story.complete(record, now);
  return record;
}

/// The attempts of a story before it is refused, cut or left while it waits.
enum class Before { nothing, unsent, failure, error, overtaken };

std::unique_ptr<Story> begin_after(Before before, Stories& of) {
  auto story = of.begin();
  if (before == Before::nothing) return story;
  of.leased_at(*story, 0);
  EXPECT_EQ(of.over(*story, before == Before::unsent    ? unconnected(ConnectFailure::other)
                            : before == Before::failure ? broken()
                                                        : error(503)),
            Command::ask_pool);
  if (before != Before::overtaken) return story;
  of.leased_at(*story, 1);
  EXPECT_EQ(of.over(*story, broken()), Command::ask_pool);
  return story;
}

TEST(StoryRefused, TellsOfTheLastReplicaUnlessNoneWasReachedAndTheQueueRefuses) {
  using enum Refused::Reason;
  for (const auto reason : {no_replica, busy, too_long, queue_full, queue_bytes_full, too_late, expired}) {
    const bool queue = reason == queue_full || reason == queue_bytes_full || reason == too_late || reason == expired;
    const std::tuple<Before, Told, bool> rows[] = {
        {Before::nothing, Told::refused, true},
        {Before::unsent, queue ? Told::refused : Told::unconnected, queue},
        {Before::failure, Told::failed, queue},
        {Before::error, Told::kept_error, queue},
        {Before::overtaken, Told::kept_error, queue},
    };
    for (const auto& [before, told, limit] : rows) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(reason) << " after " << static_cast<int>(before));
      Stories of(4);
      const auto story = begin_after(before, of);
      EXPECT_EQ(story->resume(Refused{reason, 7}, of.now), Command::done);
      EXPECT_EQ(story->ending().told, told);
      EXPECT_EQ(story->ending().limit_hit, limit ? std::optional(reason) : std::nullopt);
      EXPECT_EQ(story->ending().replica != nullptr, told != Told::refused);
      if (story->ending().replica != nullptr) EXPECT_EQ(story->ending().replica->key.index, 0u);
      if (told != Told::refused) continue;
      EXPECT_EQ(story->ending().refusal.reason, reason);
      EXPECT_EQ(story->ending().refusal.retry_after, 7u);
      EXPECT_EQ(record_of(*story, of.now).outcome, reason == too_long ? Outcome::bad_request : Outcome::rejected);
    }
  }
}

TEST(StoryWaiting, EndsWithItsClient) {
  for (const auto before : {Before::nothing, Before::unsent, Before::failure, Before::error}) {
    Stories of;
    const auto story = begin_after(before, of);
    EXPECT_EQ(story->resume(ClientLeft{}, of.now), Command::done);
    EXPECT_EQ(story->ending().told, Told::nothing);
    EXPECT_EQ(story->ending().replica != nullptr, before == Before::failure || before == Before::error);
    const auto record = record_of(*story, of.now);
    EXPECT_EQ(record.outcome, Outcome::client_abort);
    EXPECT_EQ(record.phase, metrics::Phase::queue);
  }
}

TEST(StoryWaiting, EndsWhenAllIsCutAndAnErrorIsPassedOn) {
  const std::tuple<Before, Told> rows[] = {{Before::nothing, Told::stopping},
                                           {Before::unsent, Told::stopping},
                                           {Before::failure, Told::failed},
                                           {Before::error, Told::kept_error}};
  for (const auto& [before, told] : rows) {
    Stories of;
    const auto story = begin_after(before, of);
    EXPECT_EQ(story->resume(CutInQueue{}, of.now), Command::done);
    EXPECT_EQ(story->ending().told, told);
    EXPECT_EQ(story->ending().replica != nullptr, told != Told::stopping);
    if (told == Told::stopping) EXPECT_EQ(record_of(*story, of.now).outcome, Outcome::rejected);
  }
}

TEST(StoryPlacement, SaysWhatThePoolIsToKnow) {
  Stories of(2, 0, 9);
  auto request = Stories::inference();
  request.share = 3;
  request.bytes = 77;
  const auto story = of.begin(request);
  const auto first = story->placement();
  EXPECT_EQ(first.facts, request.facts);
  EXPECT_EQ(first.fair_key, of.clients);
  EXPECT_EQ(first.share, 3);
  EXPECT_EQ(first.bytes, 77u);
  EXPECT_FALSE(first.front_of_queue);
  EXPECT_TRUE(first.tried.empty());
  of.waits(*story, at(9));
  EXPECT_EQ(story->placement().deadline, at(9)) << "the pool's";
  of.leased_at(*story, 1);
  of.over(*story, broken());
  ASSERT_EQ(story->placement().tried.size(), 1u);
  EXPECT_EQ(story->placement().tried.front(), of.key(1).serial);
  EXPECT_FALSE(story->placement().front_of_queue);
  EXPECT_EQ(story->placement().deadline, at(9)) << "which is kept";
}

TEST(StoryPlacement, BringsARequestToItsTurn) {
  Stories of(1, 0, 9);
  const auto story = of.begin();
  EXPECT_EQ(of.ask(*story), Command::connect);
  EXPECT_EQ(of.over(*story, error(503)), Command::ask_pool);
  EXPECT_EQ(of.ask(*story), std::nullopt);
  EXPECT_EQ(of.pool->figures().queue(of.now).waiting, 1u);
  of.now += milliseconds(1100);
  static_cast<void>(of.pool->health().take_changes(of.now));
  ASSERT_EQ(of.granted.size(), 1u);
  EXPECT_EQ(of.leased(*story, std::move(std::get<Lease>(of.granted.front().what))), Command::connect);
  of.granted.clear();
  EXPECT_EQ(of.over(*story, answer_of()), Command::done);
  of.expect_rest();
}

TEST(StoryConnection, IsAnIdleOneUnlessTheReplicaHadTheRequestLastOrItMayGoOnce) {
  for (const bool twice : {true, false}) {
    Stories of;
    auto request = Stories::inference();
    request.may_go_twice = twice;
    const auto story = of.begin(request);
    of.leased_at(*story, 0);
    EXPECT_EQ(story->plan().may_reuse_connection, twice);
    EXPECT_EQ(of.over(*story, ended_by(End::stale)), Command::connect);
    EXPECT_FALSE(story->plan().may_reuse_connection);
    EXPECT_EQ(of.over(*story, broken()), Command::ask_pool);
    of.leased_at(*story, 1);
    EXPECT_EQ(story->plan().may_reuse_connection, twice);
    of.over(*story, error(503));
    of.now += seconds(2);
    of.leased_at(*story, 0);
    EXPECT_EQ(story->plan().may_reuse_connection, twice) << "another was there meanwhile";
  }
}

TEST(StoryUsageOption, IsLeftOutForTheReplicaThatRefusedItAndKnownOnceItTookTheOriginal) {
  constexpr auto api = metrics::Api::openai_completions;
  const std::tuple<unsigned, bool> rows[] = {{200, true}, {302, false}, {400, false}, {404, false}, {500, false}};
  for (const auto& [status, good] : rows) {
    SCOPED_TRACE(status);
    Stories of;
    const auto takes = of.begin();
    of.leased_at(*takes, 0);
    EXPECT_FALSE(takes->answer_accepted(status, true, of.now));
    EXPECT_EQ(of.usage[0]->was_taken(api), good);
    of.over(*takes, answer_of(status));

    const auto story = of.begin();
    of.leased_at(*story, 1);
    EXPECT_TRUE(story->plan().may_add_option);
    EXPECT_EQ(of.over(*story, ended_by(End::option_refused)), Command::connect);
    EXPECT_FALSE(story->plan().may_add_option);
    EXPECT_EQ(story->answer_accepted(status, false, of.now), good);
    EXPECT_EQ(of.usage[1]->is_refused(), good);
    EXPECT_FALSE(of.usage[1]->was_taken(api));
    EXPECT_FALSE(story->answer_accepted(status, false, of.now)) << "known by now";
    of.over(*story, answer_of(status));
  }
  auto [of, story] = Started();
  of.over(*story, ended_by(End::option_refused));
  of.over(*story, broken());
  of.leased_at(*story, 1);
  EXPECT_TRUE(story->plan().may_add_option) << "another replica may take it";
}

TEST(StoryUsageOption, IsNeededNoMoreWhereTheReplicaTellsItsCounts) {
  auto [of, story] = Started();
  auto over = answer_of();
  over.answer.timed = true;
  of.over(*story, std::move(over));
  EXPECT_EQ(of.usage[0]->ask({}, metrics::Api::openai_completions), metrics::wire::Ask::nothing);
  EXPECT_EQ(of.usage[1]->ask({}, metrics::Api::openai_completions), metrics::wire::Ask::usage);
}

TEST(StoryBudget, IsHeldFromTheDecisionUntilAnAnswerFlowsOrTheRequestWaitsOrEnds) {
  for (int until = 0; until < 3; ++until) {
    auto [of, story] = Started(4);
    of.over(*story, error(408));
    EXPECT_EQ(of.retries_left(), 2);
    of.leased_at(*story, 1);
    of.over(*story, error(408));
    EXPECT_EQ(of.retries_left(), 2) << "one request holds one";
    if (until == 0) {
      of.leased_at(*story, 2);
      story->answer_accepted(200, false, of.now);
    } else if (until == 1) {
      of.waits(*story, at(9));
    } else {
      story.reset();
    }
    EXPECT_EQ(of.retries_left(), 3);
  }
}

constexpr std::uint64_t body = 4;

/// Two replicas break off with a request, or stand still.
void lose_two(Stories& of, const Story::Request& request, const AttemptOver (*how)()) {
  const auto story = of.begin(request);
  EXPECT_FALSE(story->wants_identity());
  ASSERT_EQ(story->resume(Begun{}, of.now), Command::ask_pool);
  of.leased_at(*story, 0);
  ASSERT_EQ(of.over(*story, how()), Command::ask_pool);
  story->identify(body);
  of.leased_at(*story, 1);
  ASSERT_EQ(of.over(*story, how()), Command::done);
  EXPECT_EQ(story->ending().told, Told::poison);
}

Story::Request of_a_client() {
  auto request = Stories::inference();
  request.caller = {.client = 1, .topic = 7};
  return request;
}

// An engine may answer that it is full, and end then.
TEST(StoryPoison, IsWhatTwoReplicasAnsweredThatAreDownSince) {
  Stories of(4, 1, 10);
  const auto story = of.begin(of_a_client(), body);
  ASSERT_EQ(story->resume(Begun{}, of.now), Command::ask_pool);
  for (const ReplicaIndex replica : {0U, 1U}) {
    ASSERT_EQ(of.leased_at(*story, replica), Command::connect);
    ASSERT_EQ(of.over(*story, error(503)), Command::ask_pool);
    of.report(replica, Sign::probe_refused, 1);
  }
  EXPECT_EQ(of.leased_at(*story, 2), Command::done);
  EXPECT_EQ(story->ending().told, Told::poison);
  EXPECT_EQ(of.pool->figures().in_flight(), 0u);
  EXPECT_EQ(of.begin(of_a_client(), body)->resume(Begun{}, of.now), Command::done) << "for a minute";
}

TEST(StoryPoison, IsNoticedByACopyThatWaited) {
  Stories of;
  const auto request = of_a_client();
  const auto copy = of.begin(request);
  ASSERT_EQ(copy->resume(Begun{}, of.now), Command::ask_pool);
  lose_two(of, request, []() -> const AttemptOver { return broken(); });
  EXPECT_TRUE(copy->wants_identity());
  copy->identify(body);
  EXPECT_EQ(of.leased_at(*copy, 2), Command::done);
  EXPECT_EQ(copy->ending().told, Told::poison);
  EXPECT_EQ(of.pool->figures().in_flight(), 0u) << "the lease came back";
}

// Where the replicas gave others their tokens meanwhile, a request that took too long may be served a minute later.
TEST(StoryPoison, IsNoRequestThatOnlyTookTooLong) {
  for (const bool others_had_tokens : {true, false}) {
    Stories of;
    const auto story = of.begin(of_a_client());
    ASSERT_EQ(story->resume(Begun{}, of.now), Command::ask_pool);
    for (const ReplicaIndex replica : {0U, 1U}) {
      of.leased_at(*story, replica);
      story->identify(body);
      of.now += std::chrono::seconds(1);
      if (others_had_tokens) {
        const auto other = of.begin();
        of.leased_at(*other, replica);
        other->answer_accepted(200, false, of.now);
        of.over(*other, answer_of());
      }
      of.over(*story, broken(End::timed_out, Retry::first_token));
    }
    EXPECT_EQ(story->ending().told, Told::poison);
    const auto again = of.begin(of_a_client(), body)->resume(Begun{}, of.now);
    EXPECT_EQ(again, others_had_tokens ? Command::ask_pool : Command::done);
  }
}

// A library sends a request again that failed with 502.
TEST(StoryPoison, IsKnownForAMinuteByClientTopicAndBody) {
  const AttemptOver (*const ways[])() = {[]() -> const AttemptOver { return broken(); },
                                         []() -> const AttemptOver { return broken(End::timed_out, Retry::hung); }};
  for (const auto how : ways) {
    Stories of;
    const auto request = of_a_client();
    lose_two(of, request, how);
    const auto first = [&](const Story::Request& one, std::uint64_t bytes = body) {
      const auto story = of.begin(one, bytes);
      EXPECT_EQ(story->wants_identity(), bytes == 0);
      return story->resume(Begun{}, of.now);
    };
    const auto again = of.begin(request, body);
    ASSERT_EQ(again->resume(Begun{}, of.now), Command::done);
    EXPECT_EQ(again->ending().told, Told::poison);
    EXPECT_EQ(again->ending().replica, nullptr);
    metrics::record::RequestRecord record;
    again->complete(record, of.now);
    EXPECT_TRUE(record.suspect);
    EXPECT_EQ(record.outcome, Outcome::bad_request);
    EXPECT_EQ(first(request, body + 1), Command::ask_pool) << "another body";
    EXPECT_EQ(first(request, 0), Command::ask_pool) << "not identified";
    auto other = request;
    other.caller.client = 2;
    EXPECT_EQ(first(other), Command::ask_pool) << "another client";
    other = request;
    other.caller.topic = 8;
    EXPECT_EQ(first(other), Command::ask_pool) << "another topic";
    of.now += std::chrono::minutes(1);
    EXPECT_EQ(first(request), Command::ask_pool);
  }
}

// Others are lost with the request that ends a replica.
TEST(StoryPoison, ThatWasNotAloneMayComeOnceMoreAndIsRefusedIfItCostsAThird) {
  for (const bool answered : {true, false}) {
    Stories of;
    const auto beside = of.begin();
    of.leased_at(*beside, 1);
    lose_two(of, of_a_client(), []() -> const AttemptOver { return broken(); });
    const auto trial = of.begin(of_a_client(), body);
    ASSERT_EQ(trial->resume(Begun{}, of.now), Command::ask_pool);
    EXPECT_EQ(of.begin(of_a_client(), body)->resume(Begun{}, of.now), Command::done) << "one at a time";
    const auto beside_the_trial = of.begin();
    of.leased_at(*beside_the_trial, 2);
    of.leased_at(*trial, 2);
    EXPECT_EQ(of.over(*trial, answered ? answer_of() : broken()), Command::done);
    for (int times = 0; times < 2; ++times)
      EXPECT_EQ(of.begin(of_a_client(), body)->resume(Begun{}, of.now), answered ? Command::ask_pool : Command::done);
    of.over(*beside, answer_of());
    of.over(*beside_the_trial, answer_of());
  }
}

TEST(StoryPoison, IsTriedAgainWhereTheTrialHasShownNothing) {
  Stories of;
  const auto beside = of.begin();
  of.leased_at(*beside, 1);
  lose_two(of, of_a_client(), []() -> const AttemptOver { return broken(); });
  for (int times = 0; times < 3; ++times) {
    const auto trial = of.begin(of_a_client(), body);
    ASSERT_EQ(trial->resume(Begun{}, of.now), Command::ask_pool) << times;
    of.waits(*trial, at(9));
    trial->resume(ClientLeft{}, of.now);
  }
  of.over(*beside, answer_of());
}

TEST(StoryPoison, IsTriedOnlyWhereThePoolCanSpareAReplica) {
  Stories of(5);
  const auto beside = of.begin();
  of.leased_at(*beside, 1);
  lose_two(of, of_a_client(), []() -> const AttemptOver { return broken(); });
  const auto first = [&] { return of.begin(of_a_client(), body)->resume(Begun{}, of.now); };
  for (const ReplicaIndex lost : {0U, 1U}) of.report(lost, Sign::refused, 1);
  EXPECT_EQ(first(), Command::done) << "the third of five would be the one too many";
  of.report(1, Sign::probe_passed, 5);
  EXPECT_EQ(first(), Command::ask_pool);
  of.over(*beside, answer_of());
}

// The client sends it again, and weir cannot.
TEST(StoryPoison, IsAStreamThatBrokeOffWithTwoReplicas) {
  for (const bool answered : {false, true}) {
    Stories of;
    auto request = of_a_client();
    auto facts = *request.facts;
    facts.conversation = 9;
    request.facts = shared(facts);
    const auto breaks_off = [&](ReplicaIndex at) {
      const auto story = of.begin(request, body);
      EXPECT_EQ(story->resume(Begun{}, of.now), Command::ask_pool);
      of.leased_at(*story, at);
      story->answer_accepted(200, false, of.now);
      auto over = broken();
      over.reply = Reply::relayed;
      EXPECT_EQ(of.over(*story, std::move(over)), Command::done);
      EXPECT_EQ(story->ending().told, Told::relayed);
      return story->is_poison();
    };
    EXPECT_FALSE(breaks_off(0));
    if (answered) {
      const auto story = of.begin(request, body);
      EXPECT_EQ(story->resume(Begun{}, of.now), Command::ask_pool);
      of.leased_at(*story, 2);
      of.over(*story, answer_of());
    }
    EXPECT_EQ(breaks_off(1), !answered);
    EXPECT_EQ(of.begin(request, body)->resume(Begun{}, of.now), answered ? Command::ask_pool : Command::done);
    request.bytes += 1;
    EXPECT_EQ(of.begin(request, body + 1)->resume(Begun{}, of.now), Command::ask_pool) << "another request";
  }
}

TEST(StoryPoison, IsNoRequestThatOneReplicaLostTwice) {
  Stories of(1, 0, 9);
  auto story = of.begin(of_a_client(), body);
  for (const auto next : {Command::ask_pool, Command::done}) {
    of.leased_at(*story, 0);
    EXPECT_EQ(of.over(*story, broken()), next);
    of.now += std::chrono::seconds(2);
  }
  EXPECT_EQ(of.begin(of_a_client(), body)->resume(Begun{}, of.now), Command::ask_pool);
}

TEST(StoryPoison, IsNoRequestThatTwoReplicasAnsweredWithErrors) {
  Stories of;
  const auto story = of.begin(of_a_client(), body);
  of.leased_at(*story, 0);
  of.over(*story, error(500));
  of.leased_at(*story, 1);
  EXPECT_EQ(of.over(*story, error(500)), Command::done);
  EXPECT_TRUE(story->ending().failed_twice);
  EXPECT_FALSE(story->is_poison());
  EXPECT_EQ(of.begin(of_a_client(), body)->resume(Begun{}, of.now), Command::ask_pool);
}

TEST(StoryErrors, OfOneReplicaCountOnceThoughItsErrorWasTooLargeToKeep) {
  auto [of, story] = Started(4);
  EXPECT_TRUE(story->spend_retry_on_error(500, of.now));
  EXPECT_EQ(of.over(*story, error(500, false)), Command::ask_pool);
  EXPECT_FALSE(story->ending().failed_twice);
  of.leased_at(*story, 1);
  of.over(*story, error(500));
  EXPECT_TRUE(story->ending().failed_twice);
}

// A client over its limit at the engines went before all others again and again.
TEST(StoryNoRoom, TheSecondTimeHasLostTheHeadOfTheQueue) {
  Stories of(1, 0, 9);
  const auto story = of.begin();
  of.leased_at(*story, 0);
  EXPECT_EQ(of.over(*story, error(429)), Command::ask_pool);
  EXPECT_TRUE(story->placement().front_of_queue);
  of.now += std::chrono::seconds(2);
  of.leased_at(*story, 0);
  EXPECT_EQ(of.over(*story, error(429)), Command::ask_pool);
  EXPECT_FALSE(story->placement().front_of_queue);
}

TEST(StoryBudget, ThatIsSpentIsAskedAgainForTheNextRetry) {
  auto [of, story] = Started(4);
  EXPECT_EQ(of.over(*story, error(408)), Command::ask_pool);
  of.waits(*story, at(9));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(of.budget.take(of.now));
  of.leased_at(*story, 1);
  EXPECT_EQ(of.over(*story, error(408)), Command::done);
  for (int i = 0; i < 3; ++i) of.budget.give_back(of.now);
}

TEST(StoryRepeats, CountOnceTheNextAttemptBeginsForTheReplicaThatHadAPartInThem) {
  const std::tuple<AttemptOver (*)(), std::optional<Retry>> rows[] = {
      {[] { return broken(); }, Retry::reset},
      {[] { return broken(End::cut); }, Retry::drain},
      {[] { return broken(End::timed_out, Retry::hung); }, Retry::hung},
      {[] { return error(503); }, Retry::status},
      {[] { return unconnected(ConnectFailure::refused); }, Retry::connect},
      {[] { return unconnected(ConnectFailure::local_shortage); }, std::nullopt}};
  for (const auto& [how, reason] : rows) {
    auto [of, story] = Started();
    EXPECT_EQ(story->plan().repeats, nullptr) << "the first is no repeat";
    ASSERT_EQ(of.over(*story, how()), Command::ask_pool);
    EXPECT_EQ(story->plan().repeats, nullptr) << "the client may leave meanwhile";
    of.leased_at(*story, 1);
    const auto* const repeated = story->plan().repeats;
    ASSERT_EQ(repeated != nullptr, reason.has_value());
    if (repeated != nullptr) {
      EXPECT_EQ(repeated->why, reason);
      EXPECT_EQ(repeated->replica.key.index, 0u);
    }
    EXPECT_EQ(story->attempts()[0].why, reason);
    of.over(*story, unconnected(ConnectFailure::local_shortage));
    of.leased_at(*story, 2);
    EXPECT_EQ(story->plan().repeats, nullptr) << "none is counted twice";
  }
  for (const auto& [end, reason] :
       {std::pair(End::stale, Retry::stale_connection), std::pair(End::option_refused, Retry::injection_refused)}) {
    Stories of;
    const auto story = of.begin();
    of.leased_at(*story, 2);
    ASSERT_EQ(of.over(*story, ended_by(end)), Command::connect);
    const auto* const repeated = story->plan().repeats;
    ASSERT_NE(repeated, nullptr);
    EXPECT_EQ(repeated->why, reason);
    EXPECT_EQ(repeated->replica.key.index, 2u);
    EXPECT_EQ(story->attempts()[0].why, reason);
  }
}

TEST(StoryAttempts, AreListedAtMostEightTheBeginningAndTheLastTwo) {
  Stories of(12);
  const auto story = of.begin();
  for (ReplicaIndex i = 0; i < 12; ++i) {
    of.leased_at(*story, i);
    of.over(*story, unconnected(ConnectFailure::other));
    const auto list = story->attempts();
    ASSERT_EQ(list.size(), std::min(i + 1u, 8u));
    EXPECT_EQ(list.back().replica.key.index, i);
    if (i >= 7) {
      EXPECT_EQ(list[5].replica.key.index, 5u);
      EXPECT_EQ(list[6].replica.key.index, i - 1);
    }
  }
}

TEST(StoryAttempts, SayWhatBecameOfThem) {
  Stories of;
  const auto story = of.begin();
  of.leased_at(*story, 1);
  EXPECT_EQ(story->attempts()[0].started, of.now);
  auto over = broken();
  over.status = 200;
  over.sent = at(1);
  over.head = at(2);
  over.answer.first_token = at(3);
  over.connect = milliseconds(5);
  of.now = at(4);
  of.over(*story, std::move(over));
  const auto& first = story->attempts()[0];
  EXPECT_EQ(first.sent, at(1));
  EXPECT_EQ(first.head, at(2));
  EXPECT_EQ(first.first_token, at(3));
  EXPECT_EQ(first.connect, milliseconds(5));
  EXPECT_EQ(first.ended, at(4));
  EXPECT_EQ(first.end, End::reset);
  EXPECT_EQ(first.status, 200u);
  EXPECT_EQ(first.why, Retry::reset);
}

/// An attempt with a figure for everything.
AttemptOver measured(AttemptOver over) {
  over.connect = milliseconds(10);
  over.paused = milliseconds(3);
  over.overhead_max = milliseconds(1);
  over.sent = at(1);
  over.head = at(2);
  over.ended = at(5);
  over.concurrency = {4, 2.5};
  over.bytes_out = 321;
  over.answer.output_tokens = 7;
  over.answer.events = 2;
  return over;
}

TEST(StoryRecord, HasAllThatTheStoryKnows) {
  Stories of;
  auto request = Stories::inference();
  const auto story = of.begin(request);
  of.waits(*story, at(3));
  of.now += milliseconds(20);
  of.leased_at(*story, 0);
  of.over(*story, measured(broken()));
  of.waits(*story, at(3));
  of.now += milliseconds(30);
  of.leased_at(*story, 1);
  EXPECT_EQ(of.over(*story, measured(answer_of(201))), Command::done);
  const auto record = record_of(*story, at(8));
  EXPECT_EQ(record.prompt_tokens_estimate, 10u);
  EXPECT_EQ(record.attempt, 2u);
  EXPECT_EQ(record.connect, milliseconds(20)) << "of all attempts";
  EXPECT_EQ(record.paused, milliseconds(6));
  EXPECT_EQ(record.wait, milliseconds(50));
  EXPECT_EQ(record.status, 201u);
  EXPECT_EQ(record.outcome, Outcome::ok);
  EXPECT_EQ(record.phase, std::nullopt);
  EXPECT_EQ(record.sent, at(1));
  EXPECT_EQ(record.head, at(2));
  EXPECT_EQ(record.ended, at(5)) << "the client had it all by then";
  EXPECT_EQ(record.overhead_max, milliseconds(1));
  EXPECT_EQ(record.in_flight_at_start, 4u);
  EXPECT_EQ(record.in_flight_mean, 2.5);
  EXPECT_EQ(record.bytes_out, 321u);
  EXPECT_EQ(record.answer.output_tokens, 7u);
  EXPECT_TRUE(record.facts.stream) << "events came, whatever was asked for";
}

TEST(StoryRecord, OfAnotherEndHasTheMomentAndNoStatusOfWhatTheClientDidNotGet) {
  Stories failed(1), kept(1), waiting, connecting(1);
  const auto first = failed.begin(), second = kept.begin(), third = waiting.begin(), fourth = connecting.begin();
  failed.leased_at(*first, 0);
  auto over = measured(broken());
  over.status = 200;
  failed.over(*first, std::move(over));
  const auto of_failed = record_of(*first, at(8));
  EXPECT_EQ(of_failed.status, std::nullopt);
  EXPECT_EQ(of_failed.ended, at(8));
  EXPECT_EQ(of_failed.outcome, Outcome::upstream_reset);
  kept.leased_at(*second, 0);
  kept.over(*second, measured(error(503)));
  const auto of_kept = record_of(*second, at(8));
  EXPECT_EQ(of_kept.status, 503u);
  EXPECT_EQ(of_kept.ended, at(8));
  EXPECT_EQ(of_kept.bytes_out, 321u);
  third->resume(Refused{}, at(7));
  const auto of_refused = record_of(*third, at(8));
  EXPECT_EQ(of_refused.attempt, 0u);
  EXPECT_EQ(of_refused.prompt_tokens_estimate, std::nullopt);
  EXPECT_EQ(of_refused.ended, at(8));
  EXPECT_FALSE(of_refused.facts.stream);
  connecting.now = at(2);
  connecting.leased_at(*fourth, 0);
  connecting.now = at(7);
  connecting.over(*fourth, unconnected(ConnectFailure::timed_out));
  const auto of_unconnected = record_of(*fourth, at(8));
  EXPECT_EQ(of_unconnected.outcome, Outcome::timeout);
  EXPECT_EQ(of_unconnected.connect, std::chrono::seconds(5)) << "all of it was connecting";
  EXPECT_EQ(of_unconnected.in_flight_mean, 1.0) << "it was alone there, and it was there";
}

TEST(StoryRecord, OfARequestThatIsRefusedAfterAFailureHasThatFailure) {
  auto [of, story] = Started();
  auto over = unconnected(ConnectFailure::refused);
  over.connect_error = ECONNREFUSED;
  of.over(*story, std::move(over));
  EXPECT_EQ(story->ending().attempt->connect_error, ECONNREFUSED);
  of.leased_at(*story, 1);
  of.over(*story, broken(End::timed_out, Retry::hung));
  story->resume(Refused{}, of.now);
  EXPECT_EQ(story->ending().attempt->end, End::timed_out);
  EXPECT_EQ(record_of(*story, of.now).outcome, Outcome::timeout);
}

// A driver may keep a story after its end.
TEST(StoryBudget, IsWholeOnceTheStoryHasEnded) {
  auto [of, story] = Started(2);
  ASSERT_EQ(of.over(*story, error(500)), Command::ask_pool);
  of.leased_at(*story, 1);
  ASSERT_EQ(of.over(*story, broken(End::bad_framing)), Command::done);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(of.budget.take(of.now)) << i;
}

TEST(StoryCut, BetweenALargeErrorAndItsEndAsksNobodyElse) {
  for (const bool cut : {false, true}) {
    auto [of, story] = Started(2);
    ASSERT_TRUE(story->spend_retry_on_error(500, of.now));
    if (cut) of.cutting = true;
    EXPECT_EQ(of.over(*story, error(500, false)), cut ? Command::done : Command::ask_pool);
  }
}

}  // namespace
}  // namespace weir::balancer::story
