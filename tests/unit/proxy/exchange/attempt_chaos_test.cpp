// A replica, a client and the time do anything in any order, and the rules of an attempt still hold.
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

std::string some_answer(std::mt19937& random) {
  std::string body;
  const std::string parts[]{token("a"),   token("bc"),    finish_event,  usage_event, done_event,
                            ": ping\n\n", refusing_event, "data: {\n\n", "\r\n",      token(std::string(9'000, 'x'))};
  for (auto events = random() % 8; events > 0; --events) body += parts[random() % std::size(parts)];
  std::string bytes = random() % 4 == 0 ? "HTTP/1.1 100 Continue\r\n\r\n" : "";
  const char* const types[]{"text/event-stream", "application/json", "text/plain"};
  const char* const statuses[]{"200 OK", "200 OK", "200 OK", "200 OK", "400 Bad Request", "503 Busy", "204 None"};
  bytes += std::string("HTTP/1.1 ") + statuses[random() % 7] + "\r\nContent-Type: " + types[random() % 4 / 2] + "\r\n";
  switch (random() % 3) {
    case 0:
      bytes += "Content-Length: " + std::to_string(body.size() + (random() % 8 == 0 ? 9 : 0)) + "\r\n\r\n" + body;
      break;
    case 1:
      bytes += "\r\n" + body;
      break;
    default:
      bytes += "Transfer-Encoding: chunked\r\n\r\n";
      if (!body.empty()) bytes += chunk(body);
      bytes += last_chunk;
  }
  if (random() % 8 == 0) bytes[random() % bytes.size()] = static_cast<char>("\r\n\0 x"[random() % 5]);
  if (random() % 8 == 0) bytes += "behind";
  return bytes;
}

/// Plays one story. Returns true if it came to an answer.
bool play(unsigned seed) {
  std::mt19937 random(seed);
  Circumstances one;
  one.stream = random() % 4 != 0;
  one.to_head = random() % 16 == 0;
  one.http_1_1 = random() % 4 != 0;
  one.injected = random() % 2 == 0;
  one.reused = random() % 4 == 0;
  one.sent = random() % 8 != 0;
  one.keep_errors = random() % 3 == 0;
  one.leaves_errors = random() % 2 == 0;
  one.api = random() % 4 == 0 ? Api::other : Api::openai_chat;
  if (random() % 8 == 0) one.limits.accept_hold = config::Seconds(0);
  AttemptStory attempt(one);
  attempt.client_takes_all = random() % 4 != 0;
  auto& machine = *attempt.machine;

  const auto bytes = some_answer(random);
  std::string_view rest = bytes;
  double now = 0;
  bool committed = false;
  while (!machine.done()) {
    EXPECT_EQ(attempt.pool->figures().in_flight(), 1u);
    EXPECT_FALSE(committed && !machine.committed());
    committed = machine.committed();
    EXPECT_EQ(committed, !attempt.client.empty());
    EXPECT_EQ(committed, attempt.accepted == 1);
    now += static_cast<double>(random() % 4);
    const auto what = random() % 40;
    if (what == 0) {
      machine.client_gone(at(now));
    } else if (what <= 2 && machine.deadline() < at(1'000)) {
      now = std::chrono::duration<double>(machine.deadline() - at(0)).count() + 0.1;
      attempt.passes(at(now));
    } else if (what == 3 || rest.empty()) {
      attempt.breaks(random() % 2 == 0 ? End::reset : End::closed, at(now));
    } else {
      const auto piece = rest.substr(0, 1 + random() % 400);
      attempt.arrives(piece, at(now));
      rest.remove_prefix(piece.size());
    }
  }
  EXPECT_EQ(machine.deadline(), Moment::max());
  const bool kept = machine.end() == End::stale || machine.end() == End::option_refused;
  EXPECT_EQ(attempt.pool->figures().in_flight(), kept ? 1u : 0u);
  EXPECT_FALSE(machine.client_reusable() && machine.cut());
  const bool refused = machine.end() != End::client_left && machine.reply() == Reply::error;
  const auto put_by = machine.take_kept();
  const auto seen = attempt.seen(put_by.empty() ? attempt.client : put_by);
  EXPECT_TRUE(refused || put_by.empty());
  EXPECT_TRUE(put_by.empty() || seen.whole == !machine.cut()) << "what is kept is whole, or known to be cut";
  if (!refused || !put_by.empty()) {
    EXPECT_EQ(seen.body.size(), machine.bytes_out());
  }
  if (machine.end() != End::client_left && machine.reply() == Reply::relayed) {
    EXPECT_TRUE(machine.committed());
    EXPECT_EQ(seen.whole, !machine.cut()) << "a body is whole, or known to be cut";
  } else if (machine.end() != End::client_left) {
    EXPECT_EQ(attempt.client, "") << "nothing was sent of what another attempt or an error will answer";
    EXPECT_EQ(attempt.accepted, 0);
    EXPECT_TRUE(!refused || (machine.retry_reason() && one.keep_errors));
  }
  const bool good = attempt.told().starts_with("relayed, ok,") && machine.end() != End::client_left;
  if (random() % 4 == 0) {
    machine.client_gone(at(now));
    EXPECT_FALSE(machine.client_reusable());
    const bool has_all = attempt.client_takes_all && machine.answer().complete == metrics::Completeness::marker;
    EXPECT_TRUE(machine.outcome() != Outcome::ok || has_all) << "a client that left half of its answer is no success";
  }
  return good;
}

TEST(RelayChaos, HoldsWhatMustHold) {
  int good = 0;
  for (unsigned seed = 0; seed < 4'000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    good += play(seed) ? 1 : 0;
  }
  EXPECT_GT(good, 200) << "the stories are not all sad";
}

}  // namespace
}  // namespace weir::proxy::exchange
