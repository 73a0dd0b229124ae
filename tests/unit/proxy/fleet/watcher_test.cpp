// A probe that is under way when the watcher ends, or its replica goes, leaves nothing behind. A probe tries the
// addresses of a name in turn.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <vector>

#include "metrics/moment.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/fleet/watcher.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

/// The pool's first replica takes a probe and is silent; the second one takes no part.
class ProbeUnderWay : public testing::Test {
 protected:
  static config::Settings settings_of(const net::LoopbackListener& first, const net::LoopbackListener& second) {
    config::Settings settings;
    config::Pool pool;
    pool.name = "pool";
    pool.health.timeout = config::Seconds(0.3);
    pool.health.interval = config::Seconds(600);
    pool.engine.metrics_path = "";
    for (const auto* listener : {&first, &second}) {
      config::Replica replica;
      replica.name = replica.config = "gpu" + std::to_string(pool.replicas.size());
      replica.url.host = "127.0.0.1";
      replica.url.port = listener->endpoint.port();
      replica.url.authority = "127.0.0.1:" + std::to_string(replica.url.port);
      pool.replicas.push_back(replica);
    }
    settings.pools.push_back(pool);
    return settings;
  }
  void begin_probe() {
    replica_ = fleet->snapshot()->pools.front()->replicas.front();
    key = fleet->snapshot()->pools.front()->replicas.front()->key;
    books = fleet->snapshot()->pools.front()->balancer;
    context.emplace();
    start_watcher(*context, *fleet, *models, 1);
    const auto most = std::chrono::steady_clock::now() + seconds(5);
    while (!far && std::chrono::steady_clock::now() < most) {
      context->run_one_for(milliseconds(1));
      far.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
    ASSERT_TRUE(far);
    std::array<char, 1024> question;
    while (::recv(far.get(), question.data(), question.size(), 0) <= 0 && std::chrono::steady_clock::now() < most)
      context->run_one_for(milliseconds(1));
    static_cast<void>(books->health().take_changes(std::chrono::steady_clock::now()));
  }
  /// weir has closed its end of the probe.
  bool is_closed() const {
    char byte = 0;
    return ::recv(far.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  void run_until_closed() {
    const auto most = std::chrono::steady_clock::now() + seconds(5);
    while (!is_closed() && std::chrono::steady_clock::now() < most) context->run_one_for(milliseconds(1));
    context->run_for(milliseconds(1));
  }

  const net::LoopbackListener listener, other;
  metrics::series::Exposition exposition{1, {"test", "test"}};
  std::optional<Fleet> fleet{std::in_place, settings_of(listener, other), exposition, 1};
  std::optional<ModelDirectory> models{std::in_place, *fleet};
  std::optional<boost::asio::io_context> context;
  std::weak_ptr<const Replica> replica_;
  balancer::ReplicaKey key;
  std::shared_ptr<balancer::Pool> books;
  net::UniqueFd far;
};

TEST_F(ProbeUnderWay, IsHeardOfWhereTheReplicaStays) {
  begin_probe();
  run_until_closed();
  EXPECT_TRUE(fleet->snapshot()->pools.front()->replicas.front()->state->connect_failed) << "its probe has failed";
}

TEST_F(ProbeUnderWay, LeavesNothingWhereAReloadTakesTheReplicaOut) {
  begin_probe();
  const auto state = replica_.lock()->state;
  auto settings = fleet->snapshot()->settings;
  settings.pools.front().replicas.erase(settings.pools.front().replicas.begin());
  fleet->adopt(settings);
  const auto with_probe = open_descriptors();
  run_until_closed();
  fleet->look_after_drains();
  // The watcher looks, and lets go of the snapshot before; the question for models has its time.
  const auto most = std::chrono::steady_clock::now() + seconds(5);
  while (!replica_.expired() && std::chrono::steady_clock::now() < most) context->run_for(milliseconds(10));
  EXPECT_TRUE(is_closed());
  EXPECT_LT(open_descriptors(), with_probe);
  EXPECT_FALSE(state->connect_failed) << "nothing is said of it";
  EXPECT_TRUE(books->health().take_changes(std::chrono::steady_clock::now()).empty());
  EXPECT_TRUE(replica_.expired()) << "no coroutine holds it";
}

TEST_F(ProbeUnderWay, LeavesNothingWhereWeirStops) {
  const auto before = open_descriptors();
  begin_probe();
  const auto state = replica_.lock()->state;
  context.reset();
  EXPECT_TRUE(is_closed()) << "no descriptor is left";
  EXPECT_EQ(open_descriptors(), before + 1) << "this test's end of the connection";
  EXPECT_FALSE(state->connect_failed);
  EXPECT_TRUE(books->health().take_changes(std::chrono::steady_clock::now()).empty());
  models.reset();
  fleet.reset();
  books.reset();
  EXPECT_TRUE(replica_.expired()) << "no coroutine holds it";
}

/// A replica whose name has two addresses: nobody connects to the first, and the second one takes a probe.
class TwoAddresses : public testing::Test {
 protected:
  void run_with(const net::Address& first) {
    config::Settings settings;
    auto& pool = settings.pools.emplace_back();
    pool.name = "pool";
    pool.health.path = "";
    pool.health.timeout = config::Seconds(1);
    pool.engine.metrics_path = "";
    auto& replica = pool.replicas.emplace_back();
    replica.name = replica.config = "gpu";
    replica.url.host = "several.example";
    Fleet fleet(settings, exposition, 1);
    ModelDirectory models(fleet);
    const auto state = fleet.snapshot()->pools.front()->replicas.front()->state;
    state->address.set(first);
    state->other_addresses = {listens.endpoint};
    boost::asio::io_context context;
    start_watcher(context, fleet, models, 1);
    const auto most = std::chrono::steady_clock::now() + seconds(10);
    while (state->address.get() == first && std::chrono::steady_clock::now() < most)
      context.run_one_for(milliseconds(1));
    EXPECT_EQ(state->address.get(), net::Address(listens.endpoint));
    EXPECT_EQ(state->other_addresses, std::vector<net::Address>{first}) << "it is tried again where this one fails";
    EXPECT_FALSE(state->connect_failed);
  }

  const net::LoopbackListener listens;
  metrics::series::Exposition exposition{1, {"test", "test"}};
};

TEST_F(TwoAddresses, ConnectionsGoWhereTheProbeWasTakenAfterOneThatRefuses) { run_with(net::refusing()); }

TEST_F(TwoAddresses, ConnectionsGoWhereTheProbeWasTakenAfterOneThatIsSilent) {
  const net::Deaf deaf;
  run_with(deaf.address());
}

}  // namespace

// When an engine is read: often enough to be of use, and never so often that the reading is its work.

namespace {

using namespace std::chrono_literals;
using End = ReadingSchedule::End;

constexpr metrics::Moment at_first{1h};

TEST(ReadingSchedule, PausesFollowTheIntervalUnlessTheEngineIsSlowOrHasNoPage) {
  const struct {
    End end;
    metrics::Moment::duration took, pause;
  } cases[]{
      {End::came, 10ms, 5s},     {End::came, 250ms, 5s},   {End::came, 251ms, 5020ms},
      {End::came, 2s, 40s},      {End::failed, 1ms, 5s},   {End::failed, 5s, 100s},
      {End::missing, 1ms, 5min}, {End::missing, 5s, 5min}, {End::missing, 20s, 400s},
  };
  for (const auto& [end, took, pause] : cases) {
    ReadingSchedule schedule;
    const auto good_until = schedule.page_ended(end, took, 5s, at_first);
    EXPECT_FALSE(schedule.page_due(at_first + pause - 1ns)) << pause.count();
    EXPECT_TRUE(schedule.page_due(at_first + pause)) << pause.count();
    EXPECT_EQ(good_until, at_first + 2 * pause) << "two intervals, in use as they are";
  }
}

TEST(ReadingSchedule, WhatTheEngineIsIsAskedAtOnceAndThenRarely) {
  ReadingSchedule schedule;
  EXPECT_TRUE(schedule.page_due(at_first) && schedule.identity_due(at_first));
  schedule.identified(at_first);
  schedule.page_ended(End::came, 1ms, 5s, at_first);
  EXPECT_FALSE(schedule.identity_due(at_first + 5min - 1ns));
  EXPECT_TRUE(schedule.identity_due(at_first + 5min));
}

TEST(ReadingSchedule, AnEngineThatComesBackIsReadAtOnce) {
  ReadingSchedule schedule;
  schedule.identified(at_first);
  schedule.page_ended(End::missing, 1ms, 5s, at_first);
  schedule.came_back();
  EXPECT_TRUE(schedule.page_due(at_first));
  EXPECT_TRUE(schedule.identity_due(at_first));
}

TEST(ReadingSchedule, WhatIsAskedForDuringAReadingFollowsIt) {
  ReadingSchedule schedule;
  schedule.began();
  schedule.look_at(at_first);
  schedule.page_ended(End::failed, 5s, 5s, at_first + 2s);
  EXPECT_TRUE(schedule.page_due(at_first + 2s)) << "the pause of 100 s was not for this one";
  schedule.began();
  schedule.page_ended(End::came, 1ms, 5s, at_first + 3s);
  EXPECT_FALSE(schedule.page_due(at_first + 8s - 1ns));
  schedule.began();
  schedule.came_back();
  schedule.page_ended(End::failed, 5s, 5s, at_first + 9s);
  EXPECT_TRUE(schedule.page_due(at_first + 9s)) << "another engine may be there by now";
}

TEST(EngineFigures, ALoadIsGoodForTwoIntervalsAndUnknownAfterThem) {
  EngineFigures figures;
  EXPECT_EQ(figures.load_at(at_first), nullptr);
  figures.load.emplace();
  figures.load->good_until = at_first + 10s;
  EXPECT_NE(figures.load_at(at_first + 10s), nullptr);
  EXPECT_EQ(figures.load_at(at_first + 10s + 1ns), nullptr);
}

TEST(ReadingSchedule, TheListOfModelsIsAskedForEveryFiveSecondsAndHoldsUpNoWitness) {
  ReadingSchedule schedule;
  EXPECT_TRUE(schedule.models_due(at_first));
  schedule.models_ended(at_first);
  EXPECT_FALSE(schedule.models_due(at_first + 5s - 1ns));
  EXPECT_TRUE(schedule.models_due(at_first + 5s));
  schedule.look_at(at_first + 5s);
  EXPECT_TRUE(schedule.page_due(at_first + 5s));
  EXPECT_FALSE(schedule.models_due(at_first + 5s)) << "a replica that hangs would take its time";
  EXPECT_TRUE(schedule.models_due(at_first + 6s));
  schedule.models_ended(at_first + 6s);
  schedule.came_back();
  EXPECT_TRUE(schedule.models_due(at_first + 6s));
}

constexpr metrics::Moment at(std::chrono::minutes since) { return metrics::Moment(since); }

TEST(PageComplaints, AreSaidOnceAnHourForEachReason) {
  PageComplaints complaints;
  EXPECT_TRUE(complaints.due("it answers 500", true, at(0min)));
  EXPECT_FALSE(complaints.due("it answers 500", true, at(59min)));
  EXPECT_TRUE(complaints.due("it took longer than 2 s", true, at(30min))) << "the reason has changed";
  EXPECT_FALSE(complaints.due("it answers 500", true, at(31min))) << "nor is it said at every change";
  EXPECT_TRUE(complaints.due("it answers 500", true, at(60min)));
}

TEST(PageComplaints, OfAReplicaThatIsNotUpAreNotSaidAndHideNothing) {
  PageComplaints complaints;
  EXPECT_FALSE(complaints.due("it answers 503", false, at(0min))) << "it starts anew";
  EXPECT_TRUE(complaints.due("it answers 503", true, at(1min)));
  EXPECT_FALSE(complaints.due("", true, at(2min))) << "the probe tells that nobody can connect";
}

TEST(PageComplaints, AreBoundedWhateverAnEngineAnswers) {
  PageComplaints complaints;
  std::size_t said = 0;
  for (int status = 500; status < 600; ++status)
    said += complaints.due("it answers " + std::to_string(status), true, at(1min));
  EXPECT_EQ(said, PageComplaints::most_reasons);
  complaints.forget();
  EXPECT_TRUE(complaints.due("it answers 500", true, at(2min)));
}

}  // namespace
}  // namespace weir::proxy::fleet
