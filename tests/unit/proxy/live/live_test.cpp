// The live view: what is counted, what is told, and what is kept for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/admin/live_api.hpp"
#include "proxy/keys/client_keys.hpp"
#include "tests/unit/proxy/live/live_view.hpp"

namespace weir::proxy::live {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LiveTest, CountsWhatEnds) {
  second();
  for (int i = 0; i < 10; ++i) {
    for (int n = 0; n < 3; ++n) finish(metrics::Outcome::ok, milliseconds(100 + 10 * n), "alice");
    finish(metrics::Outcome::upstream_reset, milliseconds(5000));
    second();
  }
  const auto all = document();
  const auto& pool = all.at("pools").at("chat");
  EXPECT_EQ(pool.at("requests_per_s").to_number<double>(), 4);
  EXPECT_EQ(pool.at("failed_per_s").to_number<double>(), 1);
  EXPECT_EQ(pool.at("outcomes_60s").at("ok").to_number<int>(), 30);
  EXPECT_EQ(pool.at("outcomes_60s").at("upstream_reset").to_number<int>(), 10);
  EXPECT_EQ(pool.at("slo").at("good_60s").to_number<int>(), 30);
  EXPECT_EQ(pool.at("slo").at("bad_60s").to_number<int>(), 10);
  EXPECT_EQ(pool.at("slo").at("attainment").to_number<double>(), 0.75);
  EXPECT_EQ(pool.at("tokens_out_per_s").to_number<double>(), 404);
  EXPECT_EQ(pool.at("peak").at("requests_per_s").to_number<double>(), 4);
  EXPECT_NEAR(pool.at("ttft_s").at("p50").to_number<double>(), 0.115, 1e-6) << "of 100, 110, 120 and 5000 ms";
  EXPECT_NEAR(pool.at("tpot_s").at("p50").to_number<double>(), 0.02, 1e-6) << "of served requests";
  const auto& replica = all.at("replicas").at("gpu0");
  EXPECT_EQ(replica.at("requests_60s").to_number<int>(), 40);
  EXPECT_EQ(replica.at("failed_60s").to_number<int>(), 10);
  EXPECT_EQ(replica.at("share").to_number<double>(), 1);
  EXPECT_EQ(all.at("replicas").at("gpu1").at("share").to_number<double>(), 0);
  EXPECT_EQ(all.at("requests").at("failed").as_array().size(), 10u);
  EXPECT_EQ(all.at("requests").at("slowest").as_array().size(), 20u);
  EXPECT_EQ(all.at("requests").at("slowest").at(0).at("outcome").as_string(), "upstream_reset");
  second(60);
  EXPECT_EQ(document().at("pools").at("chat").at("requests_per_s").to_number<double>(), 0);
  EXPECT_TRUE(document().at("pools").at("chat").at("outcomes_60s").as_object().empty());
}

TEST_F(LiveTest, SaysOfAReplicaThatItSleeps) {
  const auto& pool = *fleet.snapshot()->pools[0];
  pool.balancer->health().engine_told(pool.replicas[0]->key, {.kv_tokens = {}, .max_context = {}, .asleep = true});
  second();
  const auto all = document();
  EXPECT_TRUE(all.at("replicas").at("gpu0").at("asleep").as_bool());
  EXPECT_EQ(all.at("replicas").at("gpu0").at("reason").as_string(), "it says that it sleeps");
  EXPECT_FALSE(all.at("replicas").at("gpu1").at("asleep").as_bool());
}

TEST_F(LiveTest, StatesAndBooksAreOfNowForWhoAsks) {
  second(2);
  const auto asked = [&] {
    now += milliseconds(100);
    return json::parse(admin::live_answer("", live, now).body);
  };
  const auto in_flight = [](const json::value& all) {
    return all.at("pools").at("chat").at("in_flight").to_number<int>();
  };
  EXPECT_EQ(in_flight(asked()), 0);
  const auto held = lease();
  finish(metrics::Outcome::ok, milliseconds(100));
  const auto serial = live.serial();
  for (int i = 0; i < 3; ++i) {
    const auto all = asked();
    EXPECT_EQ(in_flight(all), 1);
    EXPECT_EQ(all.at("pools").at("chat").at("outcomes_60s").at("ok").to_number<int>(), 1);
    EXPECT_EQ(all.at("replicas").at("gpu0").at("requests_60s").to_number<int>(), 1);
  }
  EXPECT_EQ(live.serial(), serial);
  EXPECT_EQ(in_flight(document()), 0) << "a stream has one document a second";
  now -= milliseconds(400);
  second();
  EXPECT_EQ(document().at("pools").at("chat").at("outcomes_60s").at("ok").to_number<int>(), 1) << "counted once";
  EXPECT_EQ(live.figures().row(Rows::pools, "chat")->numbers(0, 900), (std::vector<float>{0, 1, 0}));
}

TEST_F(LiveTest, TakesNothingTwiceInASecondAndMissedSecondsAreUnknown) {
  second();
  const auto serial = live.serial();
  live.tick(instance, now + milliseconds(400), time);
  EXPECT_EQ(live.serial(), serial);
  now += seconds(4);
  second();
  EXPECT_EQ(live.serial(), serial + 5) << "a reader of the window knows by it how many numbers are new";
  const auto figure = *Figures::number_of(Rows::pools, "in_flight");
  EXPECT_EQ(live.figures().row(Rows::pools, "chat")->numbers(figure, 900).size(), 6u);
}

TEST_F(LiveTest, TellsTheFirstHitOfALimit) {
  second();
  said.take();
  auto& hits = exposition.loop(0).limit_hits;
  hits.add(metrics::series::Limit::queue, 3);
  second();
  EXPECT_THAT(said.take(), HasSubstr("limit 'queue' was hit, 3 times in the last second"));
  for (int i = 0; i < 20; ++i) {
    hits.add(metrics::series::Limit::queue);
    second(60);
  }
  EXPECT_EQ(said.take(), "");
  second(600);
  hits.add(metrics::series::Limit::queue);
  second();
  EXPECT_THAT(said.take(), HasSubstr("limit 'queue' was hit, 1 time in the last second"));
  EXPECT_EQ(document().at("weir").at("limits_60s").at("queue").to_number<int>(), 1);
}

TEST_F(LiveTest, TellsAFindingWhenItBeginsAndWhenItIsOver) {
  second();
  said.take();
  around.log_loses = true;
  around.log_why = "No space left on device";
  second();
  EXPECT_THAT(said.take(), HasSubstr("[warning] finding log_lines_lost: the request log loses lines"));
  const auto finding = document().at("findings").at("log_lines_lost:weir");
  EXPECT_EQ(finding.at("severity").as_string(), "warning");
  EXPECT_EQ(finding.at("runbook").as_string(), "docs/guides/alerts.md#log_lines_lost");
  second(10);
  EXPECT_EQ(said.take(), "");
  around.log_loses = false;
  second(25);
  EXPECT_THAT(said.take(), HasSubstr("[info] finding log_lines_lost of 'weir' is over after 3"));
  EXPECT_TRUE(document().at("findings").as_object().empty());
}

TEST_F(LiveTest, MeansOverMissedSecondsStayMeans) {
  second();
  const auto held = lease();
  second();
  now += seconds(3);
  time += seconds(3);
  second();
  EXPECT_NEAR(*live.now().replicas[0].in_prefill + *live.now().replicas[1].in_prefill, 1, 0.01);
}

TEST_F(LiveTest, CopiesThatWereNotSentAreNoRequestsOfAReplica) {
  second();
  metrics::record::RequestRecord record;
  record.role = metrics::Role::shadow;
  record.pool = "chat:shadow";
  record.replica = "gpu1";
  for (const auto* reason : {"", "busy"}) {
    record.mirrored.make().drop_reason = reason;
    live.finished(record, now);
  }
  second();
  EXPECT_EQ(document().at("replicas").at("gpu1").at("requests_60s").to_number<int>(), 1);
}

TEST_F(LiveTest, BypassIsCountedFromItsLastBegin) {
  second();
  for (const bool on : {true, false, true}) {
    around.bypass = on;
    second(on ? 400 : 1);
    EXPECT_TRUE(live.findings().empty()) << "ten minutes without a break";
  }
  second(210);
  ASSERT_EQ(live.findings().size(), 1u);
  EXPECT_EQ(live.findings()[0].what, "bypass_on");
}

class NobodyIsGranted final : public balancer::GrantSink {
 public:
  void grant(std::vector<balancer::Granted>) noexcept override {}
};

/// While some client always waits, others come, wait once and go: nothing is kept of them for longer than a minute.
TEST(LiveKeys, KeysThatWaitedOnceAreLetGoWhileAnotherWaits) {
  Said said;
  auto settings = settings_of({"gpu0"});
  settings.pools[0].replicas[0].max_in_flight = 1;
  std::vector<config::ClientKey> clients(2);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].name = i == 0 ? "alice" : "bob";
    clients[i].sha256 = keys::sha256(clients[i].name);
  }
  settings.server.keys = clients;
  NobodyIsGranted sink;
  metrics::series::Exposition exposition{1, {"0.1", "test"}, settings.slos};
  fleet::Fleet fleet{settings, exposition, 1, &sink};
  auto now = std::chrono::steady_clock::now();
  Live live{fleet, exposition, 1, [] { return Surroundings(); }, now, Wall()};
  const auto second = [&](int many = 1) {
    for (; many > 0; --many) live.tick(instance, now += seconds(1), Wall() + seconds(1'764'000'000));
  };
  auto& pool = *fleet.snapshot()->pools[0]->balancer;
  const auto facts = std::make_shared<const metrics::wire::RequestFacts>();
  const auto runs = pool.offer({facts}, now);
  ASSERT_TRUE(std::holds_alternative<balancer::Admitted>(runs));
  const auto waits = pool.offer({.facts = facts, .waiter = std::make_shared<int>()}, now);
  ASSERT_FALSE(std::holds_alternative<balancer::Admitted>(waits));
  auto& alice = *fleet.snapshot()->keys->find("alice")->use;
  fleet.snapshot()->keys->find("bob")->use->waiting = 1;
  alice.waiting = 1;
  second(2);
  alice.waiting = 0;
  alice.waits = 1;
  alice.waited_nanoseconds = 3'000'000'000;
  for (const auto& [key, outcome] : {std::pair("alice", metrics::Outcome::ok), std::pair("bob", metrics::Outcome::ok),
                                     std::pair("bob", metrics::Outcome::rejected)}) {
    metrics::record::RequestRecord record;
    record.key = key;
    record.outcome = outcome;
    record.answer.prompt_tokens = record.answer.output_tokens = 1000;
    live.finished(record, now);
  }
  second(2);
  const auto names = [&] {
    std::string all;
    for (const auto& key : live.now().keys) all += key.name + " ";
    return all;
  };
  EXPECT_EQ(names(), "bob alice ");
  EXPECT_EQ(live.now().keys[1].wait, 3);
  const auto bob = live.now().keys[0];
  EXPECT_EQ(bob.requests_60s, 2);
  EXPECT_EQ(bob.refused_60s, 1);
  EXPECT_GT(bob.tokens_in_per_s, 0);
  EXPECT_GT(bob.tokens_out_per_s, 0);
  second(61);
  EXPECT_EQ(live.now().keys[0].requests_60s, 0);
  EXPECT_EQ(live.now().keys[0].tokens_out_per_s, 0);
  ASSERT_EQ(live.now().pools[0].waiting, 1u);
  EXPECT_EQ(names(), "bob ");
  alice.waiting = 1;
  second();
  alice.waiting = 0;
  alice.waits = 2;
  second();
  EXPECT_EQ(live.now().keys[1].waits, 1) << "not those of the time before";
}

TEST_F(LiveTest, AStreamSendsTheWholeAndThenWhatHasChanged) {
  admin::LiveStream stream(live, now);
  EXPECT_EQ(stream.next(now), "") << "there are no figures yet";
  second();
  EXPECT_THAT(stream.next(now), HasSubstr("event: live\ndata: {\"schema\":1,"));
  EXPECT_EQ(stream.next(now), "");
  second();
  const auto change = stream.next(now);
  EXPECT_THAT(change, HasSubstr("event: change\ndata: {\"time\":"));
  EXPECT_THAT(change, Not(HasSubstr("\"schema\"")));
  EXPECT_EQ(change.find('\n', change.find("data: ")), change.size() - 2) << "one line";
  EXPECT_EQ(stream.next(now + seconds(16)), ": still here\n\n");
}

TEST_F(LiveTest, TheWindowIsAskedByNamesAndBounded) {
  EXPECT_EQ(admin::window_answer("", live).status, 503u);
  second(5);
  const auto ask = [&](std::string_view query) { return admin::window_answer(query, live); };
  const auto all = json::parse(ask("seconds=3").body);
  EXPECT_EQ(all.at("replicas").at("gpu1").at("in_decode").as_array().size(), 3u);
  EXPECT_EQ(all.at("weir").at("memory_bytes").as_array().size(), 3u);
  EXPECT_TRUE(all.at("pools").at("chat").at("ttft_p50_s").at(0).is_null()) << "unknown";
  const auto one = json::parse(ask("replica=gpu0&figures=in_decode,queued_tokens").body).as_object();
  EXPECT_EQ(one.at("replicas").as_object().size(), 1u);
  EXPECT_EQ(one.at("replicas").at("gpu0").as_object().size(), 2u);
  EXPECT_FALSE(one.contains("weir"));
  EXPECT_EQ(ask("replica=gpu9").status, 404u);
  for (const auto* wrong : {"seconds=0", "seconds=901", "seconds=x", "figures=tokens", "figures=", "second=1",
                            "replica=gpu0&pool=chat", "%"})
    EXPECT_EQ(ask(wrong).status, 400u) << wrong;
  EXPECT_THAT(ask("figures=tokens").body, HasSubstr("known are cpu, memory_bytes"));
  EXPECT_THAT(ask("second=1").body, HasSubstr("did you mean seconds?"));
}

TEST_F(LiveTest, AWindowOfTooManyNumbersIsRefused) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back("many" + std::to_string(i));
  fleet.adopt(settings_of(names));
  second();
  EXPECT_EQ(admin::window_answer("seconds=900", live).status, 400u);
  EXPECT_EQ(admin::window_answer("seconds=900&figures=tokens_out_per_s", live).status, 200u);
  EXPECT_EQ(admin::window_answer("seconds=900&replica=many3", live).status, 200u);
  EXPECT_EQ(admin::window_answer("seconds=60", live).status, 200u);
}

/// Members of a host's name come and go, and each has a name of its own.
TEST_F(LiveTest, RowsThatAreThereHaveThePlacesOfThoseThatHaveGone) {
  second();
  for (std::size_t round = 0; round < 4; ++round) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < Figures::most_drawn / 2; ++i)
      names.push_back("pod" + std::to_string(round) + "-" + std::to_string(i));
    fleet.adopt(settings_of(names));
    for (std::size_t i = 1; i <= 3; ++i) {
      second();
      EXPECT_LE(live.figures().names(Rows::replicas).size(), Figures::most_drawn);
      for (const auto& name : names) {
        const auto* const row = live.figures().row(Rows::replicas, name);
        ASSERT_NE(row, nullptr) << name;
        ASSERT_EQ(row->numbers(0, 900).size(), i) << name;
      }
    }
  }
  EXPECT_EQ(live.figures().row(Rows::weir, "")->numbers(0, 900).size(), 13u) << "a row that stays loses nothing";
}

TEST_F(LiveTest, FiveHundredReplicasTakeLessThanSixteenMebibytes) {
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("gpu" + std::to_string(i));
  fleet.adopt(settings_of(names));
  const auto before = ::mallinfo2().uordblks;
  second(2);
  EXPECT_EQ(live.now().replicas.size(), 500u);
  EXPECT_EQ(live.figures().names(Rows::replicas).size(), Figures::most_drawn - 2) << "weir and the pool have two";
  EXPECT_LT(::mallinfo2().uordblks - before, 16u << 20);
}

TEST_F(LiveTest, EventsAreAskedByNumber) {
  const auto before = json::parse(admin::events_answer("", live).body).at("last").to_number<std::uint64_t>();
  events::info(events::What::reload, "", "reload: one");
  events::info(events::What::reload, "", "reload: two");
  const auto two = json::parse(admin::events_answer("since=" + std::to_string(before), live).body);
  ASSERT_EQ(two.at("events").as_array().size(), 2u);
  EXPECT_EQ(two.at("events").at(1).at("text").as_string(), "reload: two");
  EXPECT_EQ(two.at("events").at(1).at("seq").to_number<std::uint64_t>(), before + 2);
  EXPECT_TRUE(two.at("events").at(1).at("who").is_null());
  EXPECT_EQ(json::parse(admin::events_answer("limit=1", live).body).at("events").as_array().size(), 1u);
  EXPECT_EQ(admin::events_answer("since=-1", live).status, 400u);
  EXPECT_EQ(admin::events_answer("until=1", live).status, 400u);
}

TEST_F(LiveTest, StreamsHavePlacesAndGiveThemBack) {
  std::vector<std::unique_ptr<Live::StreamPlace>> open;
  for (std::size_t i = 0; i < Live::most_streams; ++i) {
    EXPECT_EQ(admin::stream_answer("", live).status, 200u);
    open.push_back(std::make_unique<Live::StreamPlace>(live));
  }
  EXPECT_EQ(admin::stream_answer("", live).status, 503u);
  open.pop_back();
  EXPECT_EQ(admin::stream_answer("", live).status, 200u);
  EXPECT_EQ(admin::stream_answer("seconds=1", live).status, 400u);
}

}  // namespace
}  // namespace weir::proxy::live
