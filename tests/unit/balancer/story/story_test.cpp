// Tables of how attempts end: the replica that is asked next, who pays for it, and what the client gets.
#include "balancer/story/story.hpp"

#include <functional>
#include <tuple>

#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

using Failure = ConnectFailure;
using Reason = Refused::Reason;

/// How an attempt ends.
using How = std::function<AttemptOver()>;

How lost(End end = End::reset) {
  return [=] { return broken(end); };
}
How silent(std::optional<Retry> why) {
  return [=] { return broken(End::timed_out, why); };
}
How fails(ConnectFailure failure) {
  return [=] { return unconnected(failure); };
}
How says(unsigned status) {
  return [=] { return error(status); };
}
How answers(unsigned status = 200) {
  return [=] { return answer_of(status); };
}
const How rubbish = lost(End::bad_framing);  // It counts against its replica, which is still there.
const How drains = lost(End::cut);
const How hangs = silent(Retry::hung);
const How stale = [] { return ended_by(End::stale); };
const How option_refused = [] { return ended_by(End::option_refused); };
const How client_goes = [] { return ended_by(End::client_left); };
const How overloaded = [] { return refusal_in_band(503); };
How too_large(unsigned status) {
  return [=] { return error(status, false); };
}
const How refused = fails(Failure::refused), shortage = fails(Failure::local_shortage);

/// The step that follows an attempt.
enum class Next {
  another,
  waits,  ///< A replica, before those requests that never had one.
  again,  ///< The same replica, under the same lease.
  end,
};

struct Turn {
  ReplicaIndex at;
  How how;
  Next next = Next::another;
};

struct Setting {
  std::size_t replicas = 3;
  double share = 1;
  std::size_t queue = 0;
  bool repeatable = true;
};
constexpr Setting no_budget{.share = 0}, only_once{.repeatable = false};
/// So many replicas, a queue, and no budget.
constexpr Setting queue_before(std::size_t replicas) { return {.replicas = replicas, .share = 0, .queue = 9}; }

/// A story, attempt after attempt; nothing is held in the end.
class Played {
 public:
  explicit Played(const Setting& with = {}) : of(with.replicas, with.share, with.queue) {
    auto request = Stories::inference();
    request.repeatable = with.repeatable;
    story = of.begin(std::move(request));
  }
  ~Played() {
    story.reset();
    of.expect_rest();
  }
  Next turn(const Turn& turn) {
    if (next_ == Next::again) {
      EXPECT_EQ(story->replica().key.index, turn.at);
    } else {
      if (of.is_out(turn.at)) of.report(turn.at, Sign::probe_passed, 1);
      EXPECT_EQ(of.leased_at(*story, turn.at), Command::connect);
    }
    next_ = next_of(of.over(*story, turn.how()));
    if (next_ == Next::waits) of.now += std::chrono::milliseconds(1100);  // A replica that has failed rests.
    return next_;
  }
  void turns(const std::vector<Turn>& all) {
    for (const auto& one : all) ASSERT_EQ(turn(one), one.next) << "attempt " << &one - all.data() + 1;
  }
  metrics::record::RequestRecord record() {
    metrics::record::RequestRecord record;
    story->complete(record, of.now);
    return record;
  }

  Stories of;
  std::unique_ptr<Story> story;

 private:
  Next next_of(Command command) const {
    if (command == Command::connect) return Next::again;
    if (command == Command::done) return Next::end;
    return story->placement().front_of_queue ? Next::waits : Next::another;
  }
  Next next_ = Next::another;
};

struct Course {
  const char* what;
  Setting setting;
  std::vector<Turn> turns;
  Told told;
  ReplicaIndex by;
  unsigned attempts;
  bool suspect = false;
};

void play(const std::vector<Course>& rows) {
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    auto turns = row.turns;
    turns.back().next = Next::end;
    Played played(row.setting);
    played.turns(turns);
    EXPECT_EQ(played.story->ending().told, row.told);
    ASSERT_NE(played.story->ending().replica, nullptr);
    EXPECT_EQ(played.story->ending().replica->key.index, row.by);
    const auto record = played.record();
    EXPECT_EQ(record.attempt, row.attempts);
    EXPECT_EQ(record.suspect, row.suspect);
  }
}

using enum Next;

TEST(Story, GoesElsewhereWhileNothingHasReachedTheClient) {
  const Setting one{.replicas = 1}, four{.replicas = 4}, five{.replicas = 5};
  play({
      {"answers", {}, {{0, answers()}}, Told::relayed, 0, 1},
      {"the first is free", no_budget, {{0, lost()}, {1, answers()}}, Told::relayed, 1, 2},
      {"rubbish pays", no_budget, {{0, rubbish}}, Told::failed, 0, 1},
      {"a second pays", no_budget, {{0, lost()}, {1, rubbish}}, Told::failed, 1, 2},
      {"errors pay", no_budget, {{0, says(500)}}, Told::kept_error, 0, 1},
      {"so does TGI's 424", no_budget, {{0, says(424)}}, Told::kept_error, 0, 1},
      {"and goes elsewhere", {}, {{0, says(424)}, {1, answers()}}, Told::relayed, 1, 2},
      {"two of them are the request's", four, {{0, says(424)}, {1, says(424)}}, Told::kept_error, 0, 2},
      {"two that are not free", five, {{0, says(408)}, {1, says(429)}, {2, says(408)}}, Told::kept_error, 1, 3},
      {"a loss and an error are two", four, {{0, lost()}, {1, says(500)}}, Told::kept_error, 1, 2},
      {"two errors are", four, {{0, says(500)}, {1, says(502)}}, Told::kept_error, 0, 2},
      {"silence is free", no_budget, {{0, hangs}, {1, answers()}}, Told::relayed, 1, 2},
      {"and a loss", {}, {{0, hangs}, {1, silent(Retry::first_token)}}, Told::poison, 1, 2, true},
      {"so is a drain", no_budget, {{0, drains}, {1, answers()}}, Told::relayed, 1, 2},
      {"which is no stop of weir's", one, {{0, drains}}, Told::failed, 0, 1},
      {"another would take as long", {}, {{0, silent(std::nullopt)}}, Told::failed, 0, 1},
      {"nothing was sent",
       no_budget,
       {{0, refused}, {1, fails(Failure::no_address)}, {2, fails(Failure::backlog_full)}},
       Told::unconnected,
       2,
       3},
      {"nothing was sent", no_budget, {{0, fails(Failure::other)}, {1, answers()}}, Told::relayed, 1, 2},
      {"weir lacks something", no_budget, {{0, shortage}, {1, shortage}, {2, shortage}}, Told::unconnected, 2, 3},
      {"it took its time", no_budget, {{0, fails(Failure::timed_out)}}, Told::unconnected, 0, 1},
      {"and may twice more",
       four,
       {{0, fails(Failure::timed_out)}, {1, fails(Failure::timed_out)}, {2, fails(Failure::timed_out)}},
       Told::unconnected,
       2,
       3},
      {"the pool has nobody else", {}, {{0, refused}, {0, refused}}, Told::unconnected, 0, 2},
      {"the pool has nobody else", {}, {{0, hangs}, {0, hangs}}, Told::poison, 0, 2, true},
  });
}

TEST(Story, GoesToTheSameReplicaAtNobodysExpense) {
  play({
      {"stale", no_budget, {{0, stale, again}, {0, answers()}}, Told::relayed, 0, 1},
      {"stale, then lost", no_budget, {{0, stale, again}, {0, lost()}, {1, answers()}}, Told::relayed, 1, 2},
      {"refused the option", no_budget, {{0, option_refused, again}, {0, answers(400)}}, Told::relayed, 0, 2},
      {"may not go elsewhere",
       only_once,
       {{0, stale, again}, {0, option_refused, again}, {0, lost()}},
       Told::failed,
       0,
       2},
  });
}

TEST(Story, OfWhatIsNoInferenceHasOneReplica) {
  for (const auto& how : {lost(), rubbish, hangs, drains}) play({{"", only_once, {{0, how}}, Told::failed, 0, 1}});
  for (const auto failure : {Failure::refused, Failure::timed_out, Failure::other, Failure::local_shortage})
    play({{"", only_once, {{0, fails(failure)}}, Told::unconnected, 0, 1}});
  play({{"", {.queue = 9, .repeatable = false}, {{0, lost()}}, Told::failed, 0, 1}});
}

TEST(Story, WaitsForRoomOrForAReplica) {
  std::vector<Course> rows;
  for (const auto& full : {says(429), says(503), overloaded})
    rows.push_back({"full", queue_before(1), {{0, full, waits}, {0, answers()}}, Told::relayed, 0, 2});
  for (const unsigned status : {400u, 404u, 408u, 500u})
    rows.push_back({"is no want of room", queue_before(1), {{0, says(status)}}, Told::kept_error, 0, 1});
  for (const auto failure :
       {Failure::refused, Failure::timed_out, Failure::other, Failure::backlog_full, Failure::no_address})
    rows.push_back({"unsent", queue_before(1), {{0, fails(failure), waits}, {0, answers()}}, Told::relayed, 0, 2});
  rows.push_back({"weir's want", queue_before(1), {{0, shortage}}, Told::unconnected, 0, 1});
  rows.push_back({"not kept", queue_before(1), {{0, too_large(429)}}, Told::failed, 0, 1});
  rows.push_back({"lost", queue_before(1), {{0, lost(), waits}, {0, answers()}}, Told::relayed, 0, 2});
  rows.push_back({"lost twice", queue_before(1), {{0, lost(), waits}, {0, lost()}}, Told::poison, 0, 2, true});
  rows.push_back({"is there", queue_before(1), {{0, lost(), waits}, {0, rubbish}}, Told::failed, 0, 2});
  for (const auto& how : {hangs, drains}) rows.push_back({"no other", queue_before(1), {{0, how}}, Told::failed, 0, 1});
  rows.push_back({"two", queue_before(2), {{0, drains}, {1, drains, waits}, {0, answers()}}, Told::relayed, 0, 3});
  rows.push_back({"no budget", queue_before(2), {{0, says(429), waits}, {1, answers()}}, Told::relayed, 1, 2});
  rows.push_back({"a budget",
                  {.replicas = 2, .queue = 9},
                  {{0, says(429)}, {1, says(429), waits}, {0, answers()}},
                  Told::relayed,
                  0,
                  3});
  rows.push_back({"goes on without",
                  {.replicas = 3, .queue = 9},
                  {{0, says(429)}, {1, says(429)}, {2, says(429), waits}, {0, refused, waits}, {1, answers()}},
                  Told::relayed,
                  1,
                  5});
  rows.push_back({"the head is for a wait alone",
                  {.replicas = 3, .share = 1, .queue = 9},
                  {{0, lost()}, {1, says(408)}, {2, answers()}},
                  Told::relayed,
                  2,
                  3});
  rows.push_back({"waits, then elsewhere",
                  {.replicas = 1, .share = 1, .queue = 9},
                  {{0, fails(Failure::other), waits}, {0, fails(Failure::other), waits}, {0, answers()}},
                  Told::relayed,
                  0,
                  3});
  play(rows);
}

TEST(Story, AfterAWaitAtTheHeadGoesElsewhereAsAnyOther) {
  Played played({.replicas = 3, .share = 0, .queue = 9});
  played.turns({{0, says(429), waits}, {1, refused}, {2, answers(), end}});
}

TEST(Story, WaitsNoLongerThanTheQueuesTime) {
  for (const auto& how : {says(429), lost(), refused})
    for (const double late : {-0.001, 0.0}) {
      Played played(queue_before(1));
      auto& of = played.of;
      ASSERT_EQ(played.turn({0, says(429)}), waits) << "the queue's time begins with the next replica";
      EXPECT_EQ(played.story->placement().deadline, std::nullopt);
      of.leased_at(*played.story, 0);
      const auto deadline = of.now + std::chrono::seconds(30);
      EXPECT_EQ(played.story->placement().deadline, deadline);
      of.now = deadline + std::chrono::milliseconds(std::lround(late * 1000));
      EXPECT_EQ(of.over(*played.story, how()), late < 0 ? Command::ask_pool : Command::done);
      EXPECT_EQ(played.story->ending().limit_hit, late < 0 ? std::nullopt : std::optional(Reason::expired));
      if (late < 0) played.story->resume(Refused{Reason::expired}, of.now);
      EXPECT_EQ(played.story->ending().told, Told::kept_error);
    }
}

TEST(Story, KeepsTheErrorThatTellsMostAndOfEqualOnesTheFirst) {
  const std::tuple<How, How, ReplicaIndex> rows[] = {{says(503), says(503), 0},      {says(500), says(503), 1},
                                                     {says(500), overloaded, 1},     {says(429), overloaded, 0},
                                                     {overloaded, says(503), 0},     {too_large(429), says(500), 1},
                                                     {says(500), too_large(429), 0}, {says(500), hangs, 0}};
  for (const auto& [first, second, kept] : rows) {
    SCOPED_TRACE(&std::get<0>(rows[0]) - &first);
    play({{"", {.replicas = 2}, {{0, first}, {1, second}}, Told::kept_error, kept, 2}});
  }
  play({{"none is kept", {.replicas = 2}, {{0, too_large(503)}, {1, too_large(429)}}, Told::failed, 1, 2}});
}

TEST(Story, OfAnErrorThatCannotBeKeptIsSettledBeforeItsEnd) {
  for (const bool budget : {true, false}) {
    Played played({.share = budget ? 1.0 : 0.0});
    played.of.leased_at(*played.story, 0);
    EXPECT_EQ(played.story->spend_retry_on_error(503, played.of.now), budget) << "nobody else is asked: it is relayed";
    EXPECT_EQ(played.of.retries_left(), budget ? 2 : 0) << "taken once";
    const auto next = played.of.over(*played.story, budget ? error(503, false) : answer_of(503));
    EXPECT_EQ(next, budget ? Command::ask_pool : Command::done);
    if (!budget) continue;
    EXPECT_EQ(played.turn({1, says(503)}), another) << "what was settled holds for one error";
    EXPECT_EQ(played.turn({2, says(503)}), end);
  }
  Played played({.replicas = 2});
  played.turns({{0, says(503)}});
  played.of.leased_at(*played.story, 1);
  EXPECT_TRUE(played.story->spend_retry_on_error(500, played.of.now)) << "there is a better one";
  EXPECT_EQ(played.of.over(*played.story, error(500, false)), Command::done);
  EXPECT_EQ(played.story->ending().told, Told::kept_error);
}

TEST(Story, PaysNothingForTheFirstRetryWhereTheFailureHasPutItsReplicaOut) {
  for (const auto& how : {rubbish, says(500)}) {
    Played played(no_budget);
    for (const ReplicaIndex i : {0u, 1u}) played.of.report(i, Sign::failed, 4);
    const bool may_be_the_request = how().reply == Reply::error;
    ASSERT_EQ(played.turn({0, how}), may_be_the_request ? end : another);
    if (!may_be_the_request) EXPECT_EQ(played.turn({1, how}), end) << "the first alone";
  }
  Played slow(no_budget);
  slow.of.report(0, Sign::connect_timed_out, 1);
  slow.turns({{0, fails(Failure::timed_out)}, {1, answers(), end}});
}

TEST(Story, OnceAllIsCutTriesNothingAgainAndBlamesNobody) {
  const std::tuple<How, Told> rows[] = {{lost(), Told::failed},       {drains, Told::stopping},
                                        {refused, Told::unconnected}, {says(503), Told::kept_error},
                                        {hangs, Told::failed},        {fails(Failure::timed_out), Told::unconnected},
                                        {client_goes, Told::relayed}, {answers(), Told::relayed}};
  for (const std::size_t queue : {0u, 9u})
    for (const auto& [how, told] : rows) {
      SCOPED_TRACE(static_cast<int>(told));
      Played played({.queue = queue});
      played.of.report(0, Sign::failed, 4);
      played.of.leased_at(*played.story, 0);
      played.of.cutting = true;
      EXPECT_EQ(played.of.over(*played.story, how()), Command::done);
      EXPECT_EQ(played.story->ending().told, told);
      EXPECT_FALSE(played.of.is_out(0));
    }
  Played kept({.replicas = 2});
  kept.turns({{0, says(503)}});
  kept.of.leased_at(*kept.story, 1);
  kept.of.cutting = true;
  EXPECT_EQ(kept.of.over(*kept.story, drains()), Command::done);
  EXPECT_EQ(kept.story->ending().told, Told::kept_error);
}

TEST(Story, BlamesNoReplicaThatIsCutAtTheEndOfItsDrain) {
  const auto cut_with_it = [] {
    auto over = broken();
    over.replica_cut = true;
    return over;
  };
  Played played({.replicas = 4});
  played.of.report(0, Sign::failed, 4);
  played.turns({{0, cut_with_it}, {1, lost()}, {2, answers(), end}});
  EXPECT_FALSE(played.of.is_out(0));
  EXPECT_FALSE(played.story->is_poison());
}

TEST(Story, EndsWithItsClient) {
  for (const bool begun : {false, true}) {
    Played played;
    played.turns(
        {{0, rubbish}, {1, [&] { return ended_by(End::client_left, begun ? Reply::relayed : Reply::none); }, end}});
    EXPECT_EQ(played.story->ending().told, Told::relayed) << "as much as there was";
    EXPECT_EQ(played.record().outcome, Outcome::client_abort);
  }
  Played keeping;
  keeping.turns({{0, says(503)}, {1, [] { return ended_by(End::client_left, Reply::error); }, end}});
  EXPECT_EQ(keeping.story->ending().told, Told::relayed);
}

TEST(Story, KeepsThePrefixUntilAnAnswerIsOnItsWay) {
  Stories stories;
  auto request = Stories::inference();
  request.prefix = std::make_shared<const metrics::wire::PromptPrefix>();
  const std::weak_ptr<const metrics::wire::PromptPrefix> prefix = request.prefix;
  const auto story = stories.begin(std::move(request));
  EXPECT_EQ(story->placement().prefix, prefix.lock());
  ASSERT_EQ(stories.ask(*story), Command::connect);
  ASSERT_EQ(stories.over(*story, error(500)), Command::ask_pool);
  EXPECT_EQ(story->placement().prefix, prefix.lock());
  ASSERT_EQ(stories.ask(*story), Command::connect);
  EXPECT_FALSE(prefix.expired());
  story->answer_accepted(200, false, stories.now);
  EXPECT_TRUE(prefix.expired());
  stories.over(*story, answer_of());
}

}  // namespace
}  // namespace weir::balancer::story
