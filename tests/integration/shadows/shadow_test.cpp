// A shadow gets copies of requests, and its answers are measured and thrown away. Whatever it does, clients notice
// nothing, and its counts add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t tokens = 5;

void play_chat(Exchange& exchange) { play(exchange, vllm_chat(tokens)); }

/// A pool "chat" with this replica, r0, and a twin "fp8" of it.
WeirSettings twin_of(const ScriptedReplica& primary, const ScriptedReplica& candidate, const Keys& more = {}) {
  auto settings = pool_of({&primary});
  ShadowKeys shadow{"fp8", {{"cand0", candidate.url(), {{"config", "\"fp8\""}}}}, {{"twin", "\"r0\""}}};
  for (const auto& [key, value] : more) shadow.more[key] = value;
  settings.shadows = {shadow};
  return settings;
}

/// Returns the line of the role among the first `lines`, once they are there.
boost::json::object line_of(const WeirUnderTest& weir, std::string_view role, std::size_t lines = 2) {
  for (const auto& line : weir.log_lines(lines))
    if (member(line, "role") == role) return line;
  throw std::runtime_error("the log has no line of the role " + std::string(role));
}

/// weir spares shadows what comes while a loop is late. A busy machine makes one late now and then.
struct LoopWasLate : std::runtime_error {
  LoopWasLate() : std::runtime_error("a loop was late, and a copy was dropped") {}
};

/// Waits until the shadows' thread has looked at `copies` copies. Throws LoopWasLate if it dropped one because of that.
void all_looked_at(const WeirUnderTest& weir, std::size_t copies) {
  const auto metrics = weir.metrics_when(
      "the shadows' thread to look at " + std::to_string(copies),
      [&](const auto& page) { return page.sum("weir_shadow_requests_total") >= static_cast<double>(copies); });
  if (metrics.sum("weir_shadow_requests_total", {{"result", "loop_late"}}) > 0) throw LoopWasLate();
}

/// Runs a test again, with a weir of its own, where a loop was late: it showed nothing of what it is about.
template <class Body>
void with_loops_on_time(Body body) {
  for (int tries = 0; tries < 20; ++tries) {
    try {
      return body();
    } catch (const LoopWasLate&) {
    }
  }
  FAIL() << "a loop was late in each of 20 tries: the machine is too busy";
}

/// A test in which copies have to be sent: it calls all_looked_at() before it waits for what follows from them.
#define SHADOW_TEST(name)               \
  void name();                          \
  TEST(Shadow, name) {                  \
    with_loops_on_time([] { name(); }); \
  }                                     \
  void name()

/// Lets go of those who wait for the events, however the test ends.
struct AtTheEnd {
  std::vector<Event*> events;
  ~AtTheEnd() {
    for (auto* const one : events) one->set();
  }
};

SHADOW_TEST(GetsWhatItsPrimaryGetsAndIsMeasuredOnItsOwn) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  WeirUnderTest weir(twin_of(primary, candidate));
  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u);
  all_looked_at(weir, 1);
  candidate.wait_for_requests(1);
  const auto mirrored = candidate.only_request(), original = primary.only_request();
  EXPECT_EQ(mirrored.body, original.body);
  EXPECT_EQ(mirrored.target, original.target);
  EXPECT_EQ(mirrored.head.field("x-weir-shadow").value_or(""), "fp8");
  EXPECT_EQ(original.head.field("x-weir-shadow").value_or(""), "");

  const auto metrics = weir.metrics_after(2);
  const MetricsPage::Labels of_primary{{"role", "primary"}}, of_shadow{{"role", "shadow"}};
  EXPECT_EQ(metrics.sum("weir_requests_total", of_primary), 1);
  EXPECT_EQ(metrics.sum("weir_requests_total",
                        {{"role", "shadow"}, {"pool", "chat:shadow"}, {"replica", "cand0"}, {"config", "fp8"}}),
            1);
  for (const auto* const name : {"weir_time_to_first_token_seconds_count", "weir_output_tokens_total"})
    EXPECT_EQ(metrics.sum(name, of_shadow), metrics.sum(name, of_primary)) << name;
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "sent"}}), 1);
  EXPECT_EQ(metrics.sum("weir_shadow_active", of_shadow), 1);

  const auto first = line_of(weir, "primary"), second = line_of(weir, "shadow");
  EXPECT_EQ(member(second, "pair"), member(first, "id"));
  EXPECT_EQ(member(second, "pair_status"), "joined");
  EXPECT_EQ(member(second, "shadow"), "fp8");
  EXPECT_EQ(member(second, "drop_reason"), "null");
  EXPECT_EQ(member(second, "outcome"), "ok");
  EXPECT_EQ(member(second, "output_tokens"), member(first, "output_tokens"));
  EXPECT_NE(member(second, "ttft_s"), "null");
  EXPECT_EQ(member(first, "pair"), "null");
}

SHADOW_TEST(GetsAClientsCredentialsOnlyIfItIsToldTo) {
  const std::string credentials = "Authorization: Bearer sk-client\r\nCookie: a=b\r\napi-key: sk-client\r\n";
  for (const bool forward_auth : {false, true}) {
    ScriptedReplica primary(play_chat), candidate(play_chat);
    WeirUnderTest weir(twin_of(primary, candidate, {{"forward_auth", forward_auth ? "true" : "false"}}));
    const auto target = std::string(chat) + "?api_key=sk-client&a=b";
    ASSERT_EQ(fetch(weir.port(), post(target, chat_body(), credentials)).status, 200u);
    all_looked_at(weir, 1);
    candidate.wait_for_requests(1);
    const auto mirrored = candidate.only_request(), original = primary.only_request();
    EXPECT_EQ(original.target, target);
    EXPECT_EQ(mirrored.target, forward_auth ? target : std::string(chat) + "?a=b");
    for (const auto& [field, sent] :
         {std::pair{"authorization", "Bearer sk-client"}, {"cookie", "a=b"}, {"api-key", "sk-client"}}) {
      EXPECT_EQ(original.head.field(field).value_or(""), sent);
      EXPECT_EQ(mirrored.head.field(field).value_or(""), forward_auth ? sent : "") << field;
    }
  }
}

SHADOW_TEST(AsksAnotherModelWithMembersOfItsOwn) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  WeirUnderTest weir(twin_of(primary, candidate, {{"set", "{ model = \"m-fp8\", seed = 7 }"}}));
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 1);
  candidate.wait_for_requests(1);
  const auto sent = boost::json::parse(candidate.only_request().body).as_object();
  EXPECT_EQ(sent.at("model"), "m-fp8");
  EXPECT_EQ(sent.at("seed"), 7);
  EXPECT_EQ(sent.at("messages"), boost::json::parse(chat_body()).as_object().at("messages"));
  EXPECT_EQ(boost::json::parse(primary.only_request().body).as_object().at("model"), "m");
}

SHADOW_TEST(IsSparedWhatNobodyKnowsHowToSet) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  WeirUnderTest weir(twin_of(primary, candidate, {{"set", "{ model = \"m-fp8\" }"}}));
  const auto twice = R"({"model":"m","model":"m","stream":true,"messages":[{"role":"user","content":"a"}]})";
  ASSERT_EQ(fetch(weir.port(), post(chat, twice)).status, 200u);
  all_looked_at(weir, 1);
  EXPECT_EQ(weir.metrics_after(2).sum("weir_shadow_requests_total", {{"result", "cannot_set"}}), 1);
  EXPECT_EQ(member(line_of(weir, "shadow"), "drop_reason"), "cannot_set");
  EXPECT_EQ(candidate.requests().size(), 0u);
}

SHADOW_TEST(IsSparedWhileRequestsWaitForItsPrimary) {
  Event first_goes_on, others_go_on;
  std::atomic<bool> first = true;
  ScriptedReplica primary([&](Exchange& exchange) {
    (first.exchange(false) ? first_goes_on : others_go_on).wait("the test to go on");
    play_chat(exchange);
  });
  ScriptedReplica candidate(play_chat);
  auto settings = twin_of(primary, candidate);
  settings.pools[0].replicas[0].more["max_in_flight"] = "1";
  settings.pools[0].more["queue"] = "8";
  WeirUnderTest weir(settings);
  const auto looked_at = [&weir](std::string_view result) {
    weir.metrics_when("a copy to be " + std::string(result), [result](const MetricsPage& page) {
      return page.sum("weir_shadow_requests_total", {{"result", std::string(result)}}) == 1;
    });
  };
  std::vector<std::future<unsigned>> running;
  const auto send = [&] {
    running.push_back(
        std::async(std::launch::async, [&] { return fetch(weir.port(), post(chat, chat_body())).status; }));
  };
  const AtTheEnd others_end{{&first_goes_on, &others_go_on}};
  // The shadow thread may look late, so each request waits until it has looked at the one before.
  send();
  all_looked_at(weir, 1);
  looked_at("sent");
  send();
  send();
  weir.metrics_when("two requests to wait",
                    [](const MetricsPage& page) { return page.sum("weir_requests_waiting") == 2; });
  first_goes_on.set();
  looked_at("primary_waits");
  others_go_on.set();
  for (auto& one : running) EXPECT_EQ(one.get(), 200u);
  const auto metrics = weir.metrics_after(6);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total"), 3);
  // The first came when none waited, and the last when none did any more.
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "primary_waits"}}), 1);
}

SHADOW_TEST(ThatBreaksItsStreamsOffIsNotNoticedByClients) {
  ScriptedReplica primary(play_chat), candidate([](Exchange&exchange) {
    exchange.send(sse_head() + chunk(vllm_chat(tokens).events[0]) + chunk(vllm_chat(tokens).events[1]));
    exchange.reset();
  });
  WeirUnderTest weir(twin_of(primary, candidate));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, vllm_chat(tokens).body(false));
  all_looked_at(weir, 3);
  const auto metrics = weir.metrics_after(6);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "primary"}, {"outcome", "ok"}}), 3);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "shadow"}, {"outcome", "upstream_reset"}}), 3);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 0);
}

SHADOW_TEST(ThatStandsStillHoldsNobodyUpAndIsSparedTheRest) {
  Event over;
  ScriptedReplica primary(play_chat), candidate([&over](Exchange&) { over.wait("the test's end"); });
  constexpr std::size_t most = 64, asked = most + 3;
  WeirUnderTest weir(twin_of(primary, candidate, {}));
  for (std::size_t i = 0; i < asked; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  const AtTheEnd it_ends{{&over}};
  all_looked_at(weir, asked);
  const auto metrics = weir.metrics_after(asked + 3);  // Those of the primary, and three that were dropped.
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "sent"}}), most);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "max_in_flight"}}), 3);
  std::size_t dropped = 0;
  for (const auto& line : weir.log_lines(asked + 3)) dropped += member(line, "drop_reason") == "max_in_flight";
  EXPECT_EQ(dropped, 3u);
}

SHADOW_TEST(FollowsItsClient) {
  Event candidate_sent, closed;
  const auto script = vllm_chat(tokens);
  const auto begin = sse_head() + chunk(script.events[0]) + chunk(script.events[1]);
  ScriptedReplica primary([&](Exchange& exchange) {
    exchange.send(begin);
    exchange.wait_for_close();
  });
  ScriptedReplica candidate([&](Exchange& exchange) {
    exchange.send(begin);
    candidate_sent.set();
    exchange.wait_for_close();
    closed.set();
  });
  WeirUnderTest weir(twin_of(primary, candidate, {}));
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  client.read_until(got, script.events[1]);
  all_looked_at(weir, 1);
  candidate_sent.wait("the candidate's first token");
  client.close();
  closed.wait("the candidate's connection to be closed");
  weir.metrics_after(2);
  EXPECT_EQ(member(line_of(weir, "primary"), "outcome"), "client_abort");
  EXPECT_EQ(member(line_of(weir, "shadow"), "outcome"), "client_abort");
}

SHADOW_TEST(IsSwitchedOffAndOnAndEndsByItself) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  auto settings = twin_of(primary, candidate, {{"stop_after", "\"50ms\""}});
  const auto admin = free_port();
  settings = with_admin(settings, admin);
  WeirUnderTest weir(settings);
  const auto ask = [&] { ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u); };
  EXPECT_EQ(post_admin(admin, "/api/shadow/fp8/off").status, 200u);
  ask();
  weir.metrics_after(1);
  EXPECT_EQ(weir.metrics().sum("weir_shadow_active"), 0);
  EXPECT_EQ(candidate.requests().size(), 0u);
  EXPECT_EQ(post_admin(admin, "/api/shadow/fp8/on").status, 200u);
  ask();
  all_looked_at(weir, 1);
  weir.metrics_after(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  ask();
  weir.wait_until_said("shadow 'fp8' is off: stop_after is over");
  EXPECT_EQ(weir.metrics_after(4).sum("weir_shadow_active"), 0);
  EXPECT_EQ(candidate.requests().size(), 1u);
  EXPECT_EQ(post_admin(admin, "/api/shadow/fp9/on").status, 404u);
  EXPECT_EQ(get_admin(admin, "/api/shadow/fp8/on").status, 405u);
  const auto listed = boost::json::parse(get_admin(admin, "/api/live").body).as_object();
  EXPECT_EQ(listed.at("shadows").at("fp8").at("on"), false);
  EXPECT_EQ(listed.at("shadows").at("fp8").at("pairs"), 1);
}

SHADOW_TEST(AReloadAddsAndRemovesIt) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  const auto with = twin_of(primary, candidate);
  auto without = with;
  without.shadows.clear();
  WeirUnderTest weir(without);
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  weir.reload(with, "shadow fp8 (replica cand0) added");
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 1);
  weir.metrics_after(3);
  EXPECT_EQ(candidate.requests().size(), 1u);
  weir.reload(without, "shadow fp8 (replica cand0) removed");
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  weir.metrics_after(4);
  EXPECT_EQ(candidate.requests().size(), 1u);
}

SHADOW_TEST(ADrainEndsShadowsFirst) {
  Event candidate_has_it;
  ScriptedReplica primary(play_chat), candidate([&](Exchange&exchange) {
    candidate_has_it.set();
    exchange.wait_for_close();
  });
  WeirUnderTest weir(twin_of(primary, candidate));
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 1);
  candidate_has_it.wait("the candidate to have the request");
  const auto begin = Clock::now();
  weir.stop();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4)) << "nothing of a client's was left";
  EXPECT_EQ(weir.log_lines(2).size(), 2u);
}

}  // namespace
}  // namespace weir::integration
