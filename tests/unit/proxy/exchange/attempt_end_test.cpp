// Answers end whole, broken off, too late, or left by the client, and the lease ends with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string huge_event = token(std::string(metrics::measure::StreamMeter::carry_limit, 'x'));
std::string sized_head(std::size_t size) { return sse_head("Content-Length: " + std::to_string(size) + "\r\n"); }

/// The body has exactly one whole error event behind `events`.
void expect_error_event(const std::string& body, const std::string& events, const std::string& lead = "data: ") {
  ASSERT_THAT(body, StartsWith(events + lead));
  const auto rest = body.substr(events.size() + lead.size());
  ASSERT_EQ(rest.find("\n\n"), rest.size() - 2) << rest;
  EXPECT_TRUE(boost::json::parse(rest).as_object().contains("error")) << rest;
}

std::string outcome_of(End how) {
  return how == End::timed_out     ? "timeout"
         : how == End::bad_framing ? "upstream_error"
                                   : "upstream_reset";
}
void break_off(AttemptStory& attempt, End how) {
  if (how == End::timed_out) {
    while (!attempt.machine->done()) attempt.passes(attempt.machine->deadline());
  } else if (how == End::bad_framing) {
    attempt.arrives("no size\r\n");
  } else {
    attempt.breaks(how);
  }
}

TEST(RelayBreak, IsToldToTheClientWhereItsFramingAndTheEventsAllowAndIsNoneBehindTheEnd) {
  const std::vector<End> any{End::reset, End::closed, End::bad_framing, End::timed_out};
  const std::string a = token("a"), part = token("b").substr(0, 40), chunked = "Transfer-Encoding: chunked\r\n";
  const std::string long_part = token(std::string(9'000, 'x')).substr(0, 9'000), marked = a + finish_event + done_event;
  const std::string engine_died = a + "data: {\"error\": {\"message\": \"EngineCore died\"}}\n\n";
  const std::string json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", half = "{\"choices\":[";
  const std::string closing = sse_head("Connection: close\r\n"), promised = sized_head(marked.size() + 1);
  const struct {
    const char* what;
    std::string bytes;
    std::vector<End> ends;
    std::string told;  ///< With BREAK for the outcome of such an end.
    std::string body;  ///< The client gets it of the replica's.
    bool tells = false, injected = false, stream = true;
  } rows[]{
      {"at an event's end", sse_head() + chunk(a + a), any, "relayed, BREAK, cut", a + a, true},
      {"at an event's end, stripped", sse_head() + chunk(a + a), any, "relayed, BREAK, cut", a + a, true, true},
      {"behind an error of the replica's own", sse_head() + chunk(engine_died), any, "relayed, upstream_error, cut",
       engine_died},
      {"within an event", sse_head() + chunk(a + part), any, "relayed, BREAK, cut", a + part},
      {"within an event that was held back", sse_head() + chunk(a + part), any, "relayed, BREAK, cut", a, true, true},
      {"within a long event, which had begun", sse_head() + chunk(a + long_part), any, "relayed, BREAK, cut",
       a + long_part, false, true},
      {"within a promised length, where an event of weir's would pass for the replica's", promised + a, {End::reset},
       "relayed, BREAK, cut", a},
      {"within a document's length", json + "Content-Length: 50\r\n\r\n" + half, {End::closed}, "relayed, BREAK, cut",
       half, false, false, false},
      {"within a document's chunk", json + chunked + "\r\n14\r\n" + half, {End::closed}, "relayed, BREAK, cut", half,
       false, false, false},
      {"behind the end marker", sse_head() + chunk(marked), any, "relayed, ok, whole, client", marked},
      {"behind the end marker, and the client waits for a byte", promised + marked,
       {End::reset, End::closed, End::timed_out}, "relayed, ok, cut", marked},
      {"a reset where the close is the end", sse_head("") + a + finish_event, {End::reset}, "relayed, BREAK, cut",
       a + finish_event, true},
      {"the close behind a finish", closing + a + finish_event, {End::closed}, "relayed, ok, whole, client",
       a + finish_event},
      {"the close behind the marker", closing + marked, {End::closed}, "relayed, ok, whole, client", marked},
      {"the close behind an error", closing + a + refusing_event, {End::closed},
       "relayed, upstream_error, whole, client", a + refusing_event},
      {"the close alone", closing + a, {End::closed}, "relayed, truncated, cut", a, true},
      {"the close alone, stripped", closing + a, {End::closed}, "relayed, truncated, cut", a, true, true},
      {"the close behind an event too long to read", closing + a + huge_event, {End::closed},
       "relayed, ok, whole, client", a + huge_event},
      {"the close within an event", closing + a + "data: {", {End::closed}, "relayed, truncated, cut", a + "data: {"},
  };
  for (const auto& row : rows)
    for (const auto how : row.ends)
      for (const bool http_1_1 : {true, false}) {
        const bool kept_open = row.told.ends_with("client");  // An HTTP/1.0 client's body ends with its connection.
        if (kept_open && !http_1_1) continue;
        SCOPED_TRACE(testing::Message() << row.what << ", end " << static_cast<int>(how) << ", 1." << http_1_1);
        Circumstances one;
        one.http_1_1 = http_1_1;
        one.injected = row.injected;
        one.stream = row.stream;
        AttemptStory attempt(one);
        attempt.arrives(row.bytes);
        ASSERT_FALSE(attempt.machine->done());
        break_off(attempt, how);
        auto told = row.told;
        if (const auto at = told.find("BREAK"); at != told.npos) told.replace(at, 5, outcome_of(how));
        EXPECT_EQ(attempt.told(), told);
        const auto body = attempt.seen().body;
        if (row.tells) expect_error_event(body, row.body);
        EXPECT_TRUE(row.tells || body == row.body) << body;
        EXPECT_EQ(attempt.machine->bytes_out(), body.size());
        EXPECT_EQ(attempt.machine->answer().complete == metrics::Completeness::marker, row.body == marked);
      }
}

TEST(RelayBreak, SpeaksTheDialectOfTheClient) {
  const std::string event = R"(data:{"token":{"id":1,"text":"a","special":false},"generated_text":null})"
                            "\n\n";
  Circumstances one;
  one.api = Api::tgi_generate;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk(event)).breaks(End::reset);
  expect_error_event(attempt.seen().body, event, "data:");
  EXPECT_THAT(attempt.seen().body, HasSubstr(R"("error_type":"upstream_error")"));
}

TEST(RelayOutcome, OfWholeAnswers) {
  const std::string message = R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]})";
  const std::string event = "data: {\"type\":\"response.output_text.delta\"}\n\n";
  const auto stream = [](const std::string& body) { return sse_head() + chunk(body) + last_chunk; };
  const struct {
    const char* what;
    Api api;
    bool streamed;
    std::string bytes;
    Outcome outcome;
    std::uint32_t choices = 1;
  } rows[]{
      {"a document", Api::openai_chat, false, whole_answer("200 OK", message), Outcome::ok},
      {"an error in a 200", Api::openai_chat, false, whole_answer("200 OK", R"({"error":{"message":"x"}})"),
       Outcome::upstream_error},
      {"marker", Api::openai_chat, true, stream(token("a") + done_event), Outcome::ok},
      {"finish, no marker", Api::openai_chat, true, stream(token("a") + finish_event), Outcome::ok},
      {"neither", Api::openai_chat, true, stream(token("a")), Outcome::truncated},
      {"neither that could be read", Api::openai_chat, true, stream(token("a") + huge_event), Outcome::ok},
      {"a finish of one choice, of two", Api::openai_chat, true, stream(token("a") + finish_event), Outcome::truncated,
       2},
      {"no token", Api::openai_chat, true, stream(finish_event + done_event), Outcome::ok_empty},
      {"an error among events", Api::openai_chat, true, stream(token("a") + refusing_event + done_event),
       Outcome::upstream_error},
      {"a stream where a document is due", Api::openai_chat, false, whole_answer("200 OK", "data: x\n\n"),
       Outcome::ok_empty},
      {"nothing where a document is due", Api::openai_chat, false, whole_answer("200 OK", ""), Outcome::ok_empty},
      {"nothing to an embedding", Api::openai_embeddings, false, whole_answer("200 OK", ""), Outcome::ok_empty},
      {"an API whose tokens are not read", Api::other, true, stream(event), Outcome::ok},
      {"a document of such an API", Api::other, false, whole_answer("200 OK", "[1]"), Outcome::ok},
      {"a document where a stream was asked for", Api::openai_chat, true, whole_answer("200 OK", message), Outcome::ok},
      {"text where a document is due", Api::openai_chat, false, whole_answer("200 OK", "hello", "", "text/plain"),
       Outcome::ok_empty},
      {"a page where a stream was asked for", Api::openai_chat, true,
       whole_answer("200 OK", "<h1>hello</h1>", "", "text/html"), Outcome::truncated},
      {"a stream under a wrong type", Api::openai_chat, true,
       whole_answer("200 OK", token("a") + finish_event + done_event, "", "text/plain"), Outcome::ok},
      {"a way elsewhere", Api::openai_chat, true, whole_answer("301 Moved Permanently", "moved", "", "text/html"),
       Outcome::upstream_error},
      {"a way elsewhere, for a document", Api::openai_chat, false,
       whole_answer("307 Temporary Redirect", "", "", "text/html"), Outcome::upstream_error},
      {"a way elsewhere on a path of no engine", Api::other, false, whole_answer("302 Found", "", "", "text/html"),
       Outcome::ok},
  };
  for (const auto& row : rows) {
    Circumstances one;
    one.api = row.api;
    one.stream = row.streamed;
    one.choices = row.choices;
    AttemptStory attempt(one);
    attempt.arrives(row.bytes);
    ASSERT_TRUE(attempt.machine->done()) << row.what;
    EXPECT_EQ(attempt.machine->outcome(), row.outcome) << row.what;
    EXPECT_TRUE(attempt.seen().whole) << row.what;
    EXPECT_EQ(attempt.machine->deadline(), Moment::max()) << row.what;
  }
}

TEST(RelayDeadline, IsForTheFirstTokenFromTheSendThenForEachNextOneOrOfTheWholeAnswer) {
  const std::string document = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
  const std::string unread = chunk("data: {\"type\":\"response.output_text.delta\"}\n\n"), comment = chunk(":\n\n");
  struct Step {
    double at;
    std::string bytes;  ///< With "" the deadline passes.
    double deadline;
  };
  const struct {
    const char* what;
    std::vector<Step> steps;
    std::string told;  ///< Once the last deadline has passed.
    bool stream = true;
    Api api = Api::openai_chat;
    double between_tokens = 120;
  } rows[]{
      {"nothing comes", {{0, "", 300}}, "none, timeout, retry first_token"},
      {"nothing comes of a document, for which another replica would take as long", {{0, "", 1800}}, "none, timeout",
       false},
      {"the head is out already, and comments are no tokens",
       {{1, sse_head(), 11}, {11, "", 300}, {200, comment, 300}},
       "relayed, timeout, cut"},
      {"before the first event the sooner of the two holds, and nothing was sent yet",
       {{295, sse_head(), 300}},
       "none, timeout, retry first_token"},
      {"tokens, then comments and usage",
       {{4, sse_head() + chunk(token("a")), 14},
        {10, chunk(token("b")), 20},
        {20, "", 130},
        {100, chunk(token("c")), 220},
        {200, chunk(":\n\n" + usage_event), 220}},
       "relayed, timeout, cut"},
      {"a limit that is shorter than a stall",
       {{4, sse_head() + chunk(token("a")), 9}},
       "relayed, timeout, cut",
       true,
       Api::openai_chat,
       5},
      {"events whose tokens are not read: a long answer must not end with its first-token time",
       {{4, sse_head() + unread, 124}, {50, comment, 124}},
       "relayed, timeout, cut",
       true,
       Api::other},
      {"a document", {{1, document, 1800}}, "relayed, timeout, cut", false},
      {"a document in place of a stream", {{1, document, 1800}}, "relayed, timeout, cut"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Circumstances one;
    one.stream = row.stream;
    one.api = row.api;
    one.limits.between_tokens = config::Seconds(row.between_tokens);
    AttemptStory attempt(one);
    for (const auto& [when, bytes, deadline] : row.steps) {
      if (!bytes.empty()) attempt.arrives(bytes, at(when));
      if (bytes.empty() && when > 0) attempt.passes(at(when));
      EXPECT_EQ(attempt.machine->deadline(), at(deadline)) << when;
    }
    attempt.passes(at(row.steps.back().deadline + 0.05));
    EXPECT_EQ(attempt.told(), row.told);
    EXPECT_EQ(attempt.client.empty(), row.told.starts_with("none"));
  }
  Circumstances unsent;
  unsent.sent = false;
  AttemptStory attempt(unsent);
  EXPECT_EQ(attempt.machine->deadline(), at(299.5)) << "of the attempt's start until something is sent";
  attempt.machine->client_gone(at(1));
}

TEST(RelayStall, IsToldOnceOfAStreamThatIsReadAndStandsStillBetweenTokens) {
  const auto overdue = [](AttemptStory& attempt) {
    const auto split = attempt.pool->split();
    return split.candidate.overdue + split.stable.overdue;
  };
  Circumstances one;
  one.share = 0.5;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk(token("a")), at(4));
  EXPECT_EQ(attempt.machine->deadline(), at(14));
  EXPECT_EQ(overdue(attempt), 0u);
  attempt.passes(at(14));
  EXPECT_EQ(overdue(attempt), 1u);
  EXPECT_EQ(attempt.last(), "");
  attempt.arrives(chunk(token("b")), at(30));
  EXPECT_EQ(attempt.machine->deadline(), at(150)) << "told once";
  attempt.arrives(chunk(finish_event + done_event) + "0\r\n\r\n", at(31));
  EXPECT_EQ(attempt.told(), "relayed, ok, whole, client, replica");

  AttemptStory slow_client(one);
  slow_client.arrives(sse_head() + chunk(token("a")), at(4));
  slow_client.machine->paused(true);
  EXPECT_EQ(slow_client.machine->deadline(), at(124));
  slow_client.machine->client_gone(at(20));

  one.stream = false;
  AttemptStory document(one);
  document.arrives("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", at(4));
  EXPECT_EQ(document.machine->deadline(), at(1800));
  document.machine->client_gone(at(20));
}

TEST(RelayClient, WhoLeavesAbortsTheAnswerUnlessAllOfItHasGoneOutAndTheFirstCauseWins) {
  const std::string marked = chunk(token("a") + finish_event + done_event);
  const struct {
    const char* what;
    bool sent;
    std::vector<std::string> reads;
    std::size_t taken;  ///< The client takes so many of them at once.
    std::string told;
    bool counts;  ///< The end marker was there, so its latencies are settled.
  } rows[]{
      {"before anything is sent", false, {}, 9, "none, client_abort in queue, cut", false},
      {"before the head", true, {}, 9, "none, client_abort in prefill, cut", false},
      {"before the first event", true, {sse_head()}, 9, "none, client_abort in prefill, cut", false},
      {"between tokens", true, {sse_head() + chunk(token("a"))}, 9, "relayed, client_abort in decode, cut", false},
      {"with the end marker", true, {sse_head() + marked}, 9, "relayed, ok, cut", true},
      {"with the end marker of an empty answer", true, {sse_head() + chunk(finish_event + done_event)}, 9,
       "relayed, ok_empty, cut", true},
      {"with the end marker, and has not taken the last chunk", true, {sse_head() + marked, last_chunk}, 1,
       "relayed, ok, cut, replica", true},
      {"and has not taken the end marker", true, {sse_head() + chunk(token("a")), chunk(done_event)}, 1,
       "relayed, client_abort in decode, cut", true},
      {"behind an end that it has not taken", true, {sse_head() + marked + last_chunk}, 0,
       "relayed, client_abort in decode, cut, replica", true},
      {"at an error of the replica's", true,
       {sse_head() + chunk(token("a")), chunk("data: {\"error\": {\"message\": \"m\", \"code\": 500}}\n\n")}, 9,
       "relayed, upstream_error, cut", false},
      {"behind a refusal", true, {whole_answer("422 Unprocessable Entity", "{}")}, 9,
       "relayed, client_error, cut, replica", false},
      {"behind a break", true, {sse_head() + chunk(token("a")), ""}, 9, "relayed, upstream_reset, cut", false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Circumstances one;
    one.sent = row.sent;
    AttemptStory attempt(one);
    for (std::size_t i = 0; i < row.reads.size(); ++i) {
      attempt.client_takes_all = i < row.taken;
      row.reads[i].empty() ? attempt.breaks(End::reset) : attempt.arrives(row.reads[i]);
    }
    const bool was_done = attempt.machine->done();
    attempt.machine->client_gone(at(3));
    EXPECT_EQ(attempt.told(), row.told);
    EXPECT_EQ(attempt.machine->end() == End::client_left, !was_done);
    EXPECT_EQ(attempt.pool->figures().in_flight(), 0u) << "at once, not with the last of its memory";
    EXPECT_EQ(attempt.machine->answer().complete == metrics::Completeness::marker, row.counts);
    if (row.counts || row.told.find("client_abort") != std::string::npos) {
      EXPECT_EQ(attempt.machine->answer().end.has_value(), row.counts);
    }
  }
}

TEST(ClientOutput, IsNothingForAReadThatLeavesNothing) {
  Circumstances one;
  one.injected = true;
  AttemptStory attempt(one);
  attempt.arrives(sse_head() + chunk(token("a")));
  for (const auto& bytes : {chunk(usage_event), std::string("5"), std::string("0\r\n"), token("b").substr(0, 20)}) {
    attempt.arrives(bytes);
    EXPECT_EQ(attempt.last(), "") << "a chunk of no size would end the body";
  }
  attempt.machine->client_gone(at(2));
}

TEST(RelayLease, TellsThePoolOfPromptsAndTokensAsTheyCome) {
  AttemptStory attempt;
  const auto load = [&] { return attempt.pool->figures().load(0, at(1)); };
  EXPECT_EQ(load().prefill_left, 100u);
  const auto output = load().decode_left;
  attempt.arrives(sse_head());
  EXPECT_EQ(load().prefill_left, 100u);
  attempt.arrives(chunk(token("a")));
  EXPECT_EQ(load().prefill_left, 0u) << "the prompt leaves with the first token";
  EXPECT_EQ(attempt.shard.time_to_first_token.sum(), 1'000'000'000u) << "from the send";
  EXPECT_EQ(attempt.shard.client_time_to_first_token.sum(), 2'000'000'000u) << "from the request";
  attempt.arrives(chunk(token("b") + token("c")));
  EXPECT_EQ(load().resident, 103u);
  EXPECT_EQ(load().decode_left, output - 3);
  attempt.arrives(chunk(finish_event + usage_event + done_event) + last_chunk, at(2));
  EXPECT_EQ(load().in_flight, 0u) << "with the replica's work, not with the client's reading";
  EXPECT_EQ(attempt.machine->concurrency().in_flight_at_start, 0u);
  EXPECT_DOUBLE_EQ(attempt.machine->concurrency().in_flight_mean, 1.0);
  for (int i = 0; i < 4; ++i) {
    balancer::LeaseEnd like_it(balancer::EndCause::answered);
    like_it.output_tokens = 3;
    attempt.offer().end(like_it, at(2));
  }
  const auto next = attempt.offer();
  EXPECT_LT(load().decode_left, output) << "the pool has learned how long answers are";
}

TEST(RelayLease, LeavesThePromptOfAFailureForAMoment) {
  AttemptStory refused, served;
  refused.arrives(whole_answer("429 Too Many Requests", "{}"), at(1));
  EXPECT_EQ(refused.pool->figures().load(0, at(1.5)).prefill_left, 100u) << "a failure is not capacity";
  EXPECT_EQ(refused.pool->figures().load(0, at(2.5)).prefill_left, 0u);
  served.arrives(sse_head() + chunk(finish_event + done_event) + last_chunk, at(1));
  EXPECT_EQ(served.pool->figures().load(0, at(1.5)).prefill_left, 0u) << "an empty answer is one";
}

TEST(RelayOverhead, IsFromArrivalToWrittenOfTokensTakenAtOnce) {
  AttemptStory attempt;
  const auto count = [&] {
    std::uint64_t n = 0;
    const auto& histogram = attempt.shard.token_overhead;
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) n += histogram.bucket(i);
    return n;
  };
  auto& machine = *attempt.machine;
  const auto read = [&](std::string bytes, double when) {
    bytes.append(metrics::measure::StreamMeter::padding, '\0');
    machine.arrived({bytes.data(), bytes.size() - metrics::measure::StreamMeter::padding}, at(when), attempt.out);
  };
  read(sse_head() + chunk(token("a") + token("b")), 1);
  machine.written(at(1.25), true);
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(machine.overhead_max(), std::chrono::milliseconds(250));
  read(chunk(token("c")), 2);
  machine.written(at(2.5), false);
  EXPECT_EQ(count(), 2u) << "what the client did not take at once is its own affair";
  EXPECT_EQ(attempt.shard.client_blocked_events.value(), 1u);
  read(chunk(":\n\n"), 3);
  machine.written(at(4), true);
  EXPECT_EQ(count(), 2u) << "no token";
  read(chunk(token("d")), 5);
  machine.written(at(4), true);
  EXPECT_EQ(count(), 3u) << "never below zero";
  EXPECT_EQ(attempt.shard.client_blocked_events.value(), 1u);
  EXPECT_EQ(machine.overhead_max(), std::chrono::milliseconds(250));
  machine.client_gone(at(6));
}

}  // namespace
}  // namespace weir::proxy::exchange
