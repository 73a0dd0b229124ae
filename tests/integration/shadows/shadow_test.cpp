// A shadow gets copies of requests, and its answers are measured and thrown away. Whatever it does, clients notice
// nothing, and its counts add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <future>
#include <map>
#include <stdexcept>

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
  const auto got = fetch(weir.port(), post(chat, chat_body(), "Authorization: Bearer sk-client\r\nCookie: a=b\r\n"));
  EXPECT_EQ(got.status, 200u);
  all_looked_at(weir, 1);
  candidate.wait_for_requests(1);
  const auto mirrored = candidate.only_request(), original = primary.only_request();
  EXPECT_EQ(mirrored.body, original.body);
  EXPECT_EQ(mirrored.target, original.target);
  EXPECT_EQ(mirrored.head.field("x-weir-shadow").value_or(""), "fp8");
  EXPECT_EQ(mirrored.head.field("authorization").value_or(""), "")
      << "a client's credential is not the candidate's business";
  EXPECT_EQ(mirrored.head.field("cookie").value_or(""), "");
  EXPECT_EQ(original.head.field("x-weir-shadow").value_or(""), "");
  EXPECT_EQ(original.head.field("authorization").value_or(""), "Bearer sk-client");

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

SHADOW_TEST(ExcludedKeysAreNotMirrored) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  // printf %s sk-secret | sha256sum
  WeirUnderTest weir(twin_of(
      primary, candidate, {{"exclude_keys", "\"746b4ad1ca9129e1caf080bf9406d43531b8bbf97f42cc1597ee4f3d4663938e\""}}));
  for (const auto* const field : {"Authorization: Bearer sk-secret\r\n", "Authorization: bearer sk-secret\r\n",
                                  "x-api-key: sk-secret\r\n", "Authorization: Bearer sk-other\r\n"})
    ASSERT_EQ(fetch(weir.port(), post(chat, chat_body(), field)).status, 200u);
  all_looked_at(weir, 1);
  EXPECT_EQ(weir.metrics_after(5).sum("weir_shadow_requests_total"), 1);
  EXPECT_EQ(candidate.requests().size(), 1u);
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

SHADOW_TEST(OnlyTwinsRequestsGoToATwin) {
  ScriptedReplica first(play_chat), second(play_chat), candidate(play_chat);
  auto settings = twin_of(first, candidate);
  settings.pools[0].replicas.push_back({"r1", second.url()});
  settings.pools[0].more["policy"] = "\"round_robin\"";
  WeirUnderTest weir(settings);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 3);
  const auto metrics = weir.metrics_after(9);
  EXPECT_EQ(first.requests().size(), 3u);
  EXPECT_EQ(candidate.requests().size(), 3u);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total"), 3);
}

TEST(Shadow, ASampleTakesWholeConversationsAndAboutItsShare) {
  ScriptedReplica primary(play_chat), candidate(play_chat), other(play_chat);
  auto settings = twin_of(primary, candidate);
  settings.shadows[0].more = {{"sample", "0.5"}};
  // This one is given every request, so its count tells that the shadows' thread has looked at all of them.
  settings.shadows.push_back({"all", {{"cand1", other.url()}}, {{"sample", "1"}}});
  WeirUnderTest weir(settings);
  constexpr std::size_t conversations = 60;
  const auto first_turn = [](std::size_t i) {
    return R"({"model":"m","stream":true,"messages":[{"role":"user","content":"question )" + std::to_string(i) + "\"}";
  };
  for (std::size_t i = 0; i < conversations; ++i) {
    ASSERT_EQ(fetch(weir.port(), post(chat, first_turn(i) + "]}")).status, 200u);
    const auto second = R"(,{"role":"assistant","content":"a"},{"role":"user","content":"more"}]})";
    ASSERT_EQ(fetch(weir.port(), post(chat, first_turn(i) + second)).status, 200u);
  }
  weir.metrics_when("the shadows' thread to have looked at all requests", [&](const MetricsPage& page) {
    return page.sum("weir_shadow_requests_total", {{"replica", "cand1"}}) == 2 * conversations;
  });
  const auto metrics = weir.metrics_when("all copies to have ended", [&](const MetricsPage& page) {
    return page.sum("weir_requests_total", {{"role", "shadow"}}) ==
           page.sum("weir_shadow_requests_total", {{"result", "sent"}});
  });
  // A copy may have been dropped, because the machine is busy. It was drawn all the same, and the log has it.
  const auto drawn = metrics.sum("weir_shadow_requests_total", {{"replica", "cand0"}});
  std::map<std::string, std::size_t> turns;
  std::size_t lines = 0, sent = 0;
  for (const auto& line : weir.log_lines(4 * conversations + static_cast<std::size_t>(drawn))) {
    if (member(line, "shadow") != "fp8") continue;
    ++turns[member(line, "group")];
    ++lines;
    if (member(line, "drop_reason") == "null") ++sent;
  }
  EXPECT_EQ(lines, drawn);
  for (const auto& [conversation, count] : turns) EXPECT_EQ(count, 2u) << "both turns or none: " << conversation;
  EXPECT_GT(turns.size(), 15u);
  EXPECT_LT(turns.size(), 45u);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"replica", "cand0"}, {"result", "sent"}}), sent);
  EXPECT_EQ(candidate.requests().size(), sent);
}

/// What a shadow does that would harm a client, if it could.
struct Trouble {
  const char* name;
  ScriptedReplica::Handler handler;
  const char* outcome;
};
std::ostream& operator<<(std::ostream& out, const Trouble& one) { return out << one.name; }

class ShadowInTrouble : public ::testing::TestWithParam<Trouble> {};

void clients_notice_nothing(const Trouble& trouble) {
  ScriptedReplica primary(play_chat), candidate(trouble.handler);
  WeirUnderTest weir(twin_of(primary, candidate));
  for (int i = 0; i < 3; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 200u);
    EXPECT_THAT(got.body, ::testing::EndsWith("data: [DONE]\n\n"));
  }
  all_looked_at(weir, 3);
  const auto metrics = weir.metrics_after(6);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "primary"}, {"outcome", "ok"}}), 3);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "primary"}}), 3);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 0);
  EXPECT_EQ(metrics.sum("weir_replica_state", {{"role", "primary"}, {"state", "up"}}), 1);
  const auto line = line_of(weir, "shadow", 6);
  EXPECT_EQ(member(line, "outcome"), trouble.outcome);
  // A replica's books keep what failed for a second.
  expect_idle(weir.metrics_when("an empty ledger",
                                [](const MetricsPage& page) { return page.sum("weir_queued_tokens") == 0; }));
}

TEST_P(ShadowInTrouble, ClientsNoticeNothing) {
  with_loops_on_time([] { clients_notice_nothing(GetParam()); });
}

const Trouble troubles[] = {
    {"error", [](Exchange& exchange) { exchange.send(answer("500 Internal Server Error", "{}")); }, "upstream_error"},
    {"full", [](Exchange& exchange) { exchange.send(answer("429 Too Many Requests", "{}")); }, "replica_refused"},
    {"reset", [](Exchange& exchange) { exchange.reset(); }, "upstream_reset"},
    {"cut",
     [](Exchange& exchange) {
       exchange.send(sse_head() + chunk(vllm_chat(tokens).events[0]) + chunk(vllm_chat(tokens).events[1]));
       exchange.close();
     },
     "upstream_reset"},
    {"nonsense", [](Exchange& exchange) { exchange.send("nonsense\r\n\r\n"); }, "upstream_error"},
};
INSTANTIATE_TEST_SUITE_P(All, ShadowInTrouble, ::testing::ValuesIn(troubles),
                         [](const auto& test) { return std::string(test.param.name); });

SHADOW_TEST(ThatStandsStillHoldsNobodyUpAndIsSparedTheRest) {
  Event over;
  ScriptedReplica primary(play_chat), candidate([&over](Exchange&) { over.wait("the test's end"); });
  WeirUnderTest weir(twin_of(primary, candidate, {{"max_in_flight", "2"}}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  const AtTheEnd it_ends{{&over}};
  all_looked_at(weir, 5);
  const auto metrics = weir.metrics_after(8);  // Five of the primary, and three that were dropped.
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "sent"}}), 2);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total", {{"result", "max_in_flight"}}), 3);
  std::size_t dropped = 0;
  for (const auto& line : weir.log_lines(8)) dropped += member(line, "drop_reason") == "max_in_flight";
  EXPECT_EQ(dropped, 3u);
}

SHADOW_TEST(ThatRefusesConnectionsHasFailures) {
  ScriptedReplica primary(play_chat);
  auto settings = pool_of({&primary});
  settings.shadows = {{"fp8", {{"cand0", "http://127.0.0.1:" + std::to_string(free_port())}}, {{"twin", "\"r0\""}}}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 4);
  const auto metrics = weir.metrics_after(8);
  EXPECT_EQ(metrics.sum("weir_shadow_requests_total"), 4);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "shadow"}, {"outcome", "upstream_error"}}), 4);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"role", "primary"}, {"outcome", "ok"}}), 4);
}

/// A client leaves while both stream.
void client_leaves(const std::string& on_client_abort, bool candidate_ends) {
  Event primary_sent, candidate_sent, client_left;
  const auto script = vllm_chat(tokens);
  Event closed;
  ScriptedReplica primary([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.events[0]) + chunk(script.events[1]));
    exchange.wait_for_close();
  });
  ScriptedReplica candidate([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.events[0]) + chunk(script.events[1]));
    candidate_sent.set();
    if (candidate_ends) {
      exchange.wait_for_close();
      closed.set();
      return;
    }
    client_left.wait("the client to leave");
    for (std::size_t i = 2; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  });
  WeirUnderTest weir(twin_of(primary, candidate, {{"on_client_abort", '"' + on_client_abort + '"'}}));
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  client.read_until(got, script.events[1]);
  all_looked_at(weir, 1);
  candidate_sent.wait("the candidate's first token");
  client.close();
  if (!candidate_ends) {
    weir.metrics_after(1);
    client_left.set();
  } else {
    closed.wait("the candidate's connection to be closed");
  }
  weir.metrics_after(2);
  EXPECT_EQ(member(line_of(weir, "primary"), "outcome"), "client_abort");
  EXPECT_EQ(member(line_of(weir, "shadow"), "outcome"), candidate_ends ? "client_abort" : "ok");
}

SHADOW_TEST(FollowsItsClient) { client_leaves("follow", true); }

SHADOW_TEST(FinishesWithoutItsClient) { client_leaves("finish", false); }

SHADOW_TEST(IsSwitchedOffAndOnAndEndsByItself) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  auto settings = twin_of(primary, candidate, {{"max_pairs", "2"}});
  const auto admin = free_port();
  settings.admin = {{"listen", "\"127.0.0.1:" + std::to_string(admin) + '"'}};
  WeirUnderTest weir(settings);
  const auto post_admin = [admin](const std::string& path) {
    return fetch(admin, "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                            "Content-Length: 2\r\n\r\n{}")
        .status;
  };
  const auto ask = [&] { ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u); };
  EXPECT_EQ(post_admin("/api/shadow/fp8/off"), 200u);
  ask();
  weir.metrics_after(1);
  EXPECT_EQ(weir.metrics().sum("weir_shadow_active"), 0);
  EXPECT_EQ(candidate.requests().size(), 0u);
  EXPECT_EQ(post_admin("/api/shadow/fp8/on"), 200u);
  for (std::size_t i = 1; i <= 2; ++i) {
    ask();
    all_looked_at(weir, i);
    weir.metrics_after(1 + 2 * i);
  }
  ask();
  weir.wait_until_said("shadow 'fp8' is off: max_pairs are there");
  EXPECT_EQ(weir.metrics_after(6).sum("weir_shadow_active"), 0);
  EXPECT_EQ(candidate.requests().size(), 2u);
  EXPECT_EQ(post_admin("/api/shadow/fp9/on"), 404u);
  EXPECT_EQ(fetch(admin, "GET /api/shadow/fp8/on HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").status, 405u);
  const auto listed =
      boost::json::parse(fetch(admin, "GET /api/replicas HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").body).as_object();
  EXPECT_EQ(listed.at("shadows").as_array().at(0).at("on"), false);
  EXPECT_EQ(listed.at("shadows").as_array().at(0).at("finished"), 2);
}

TEST(Shadow, RequestsThatCannotBeRepeatedElsewhereAreNotMirrored) {
  ScriptedReplica primary([](Exchange&exchange) { exchange.send(answer("200 OK", "{}")); }), candidate(play_chat);
  auto settings = twin_of(primary, candidate);
  settings.server["paths"] = "[\"*\"]";
  WeirUnderTest weir(settings);
  for (const auto& [path, body] :
       {std::pair{"/v1/embeddings", R"({"model":"m","input":"a"})"}, std::pair{"/flush", "{}"},
        std::pair{"/v1/responses", R"({"model":"m","input":"a","previous_response_id":"r1"})"},
        std::pair{chat, "no JSON"}})
    fetch(weir.port(), post(path, body));
  EXPECT_EQ(weir.metrics_after(4).sum("weir_shadow_requests_total"), 0);
  EXPECT_EQ(candidate.requests().size(), 0u);
}

SHADOW_TEST(ItsComparisonIsOnMetricsWhileItIsOn) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  const auto admin = free_port();
  auto settings = twin_of(primary, candidate);
  settings.admin = {{"listen", "\"127.0.0.1:" + std::to_string(admin) + '"'}};
  WeirUnderTest weir(settings);
  const auto switched = [&](const std::string& way) {
    return fetch(admin, "POST /api/shadow/fp8/" + way +
                            " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                            "2\r\n\r\n{}")
        .status;
  };
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  auto page = weir.metrics_after(2);
  EXPECT_EQ(page.sum("weir_comparison_state", {{"shadow", "fp8"}, {"state", "too_few"}}), 1);
  EXPECT_EQ(page.sum("weir_comparison_state", {{"shadow", "fp8"}, {"state", "running"}}), 0);
  EXPECT_TRUE(page.has("weir_comparison_state", {{"shadow", "fp8"}, {"state", "running"}}));
  EXPECT_FALSE(page.has("weir_comparison_effect")) << "the first ten minutes do not count";
  ASSERT_EQ(switched("off"), 200u);
  page = weir.metrics();
  EXPECT_FALSE(page.has("weir_comparison_state"));
  EXPECT_FALSE(page.has("weir_comparison_effect"));
  ASSERT_EQ(switched("on"), 200u);
  EXPECT_TRUE(weir.metrics().has("weir_comparison_state", {{"shadow", "fp8"}}));
  auto without = settings;
  without.shadows.clear();
  weir.rewrite(without);
  ::kill(weir.process().id(), SIGHUP);
  weir.wait_until_said("shadow fp8 (replica cand0) removed");
  EXPECT_FALSE(weir.metrics().has("weir_comparison_state"));
}

SHADOW_TEST(AReloadAddsAndRemovesIt) {
  ScriptedReplica primary(play_chat), candidate(play_chat);
  const auto with = twin_of(primary, candidate);
  auto without = with;
  without.shadows.clear();
  WeirUnderTest weir(without);
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  weir.rewrite(with);
  ::kill(weir.process().id(), SIGHUP);
  weir.wait_until_said("shadow fp8 (replica cand0) added");
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 1);
  weir.metrics_after(3);
  EXPECT_EQ(candidate.requests().size(), 1u);
  weir.rewrite(without);
  ::kill(weir.process().id(), SIGHUP);
  weir.wait_until_said("shadow fp8 (replica cand0) removed");
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  weir.metrics_after(4);
  EXPECT_EQ(candidate.requests().size(), 1u);
}

SHADOW_TEST(AReloadThatSendsItElsewhereBeginsItAnew) {
  ScriptedReplica primary(play_chat), candidate(play_chat), another(play_chat);
  const auto admin = free_port();
  auto settings = twin_of(primary, candidate), changed = twin_of(primary, another);
  settings.admin = changed.admin = {{"listen", "\"127.0.0.1:" + std::to_string(admin) + '"'}};
  WeirUnderTest weir(settings);
  const auto pairs = [&] {
    const auto target = "GET /api/compare?by=role&a=primary&b=shadow&warm_up=0s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    return boost::json::parse(fetch(admin, target, "GET").body).at("pairs").to_number<int>();
  };
  ASSERT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  all_looked_at(weir, 1);
  line_of(weir, "shadow");
  EXPECT_EQ(pairs(), 1);
  weir.rewrite(changed);
  ::kill(weir.process().id(), SIGHUP);
  weir.wait_until_said("reload (SIGHUP): ");
  EXPECT_EQ(pairs(), 0) << "what the first candidate answered is not the second one's";
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
