// When a client leaves, weir frees the GPU: it closes the connection to the replica at once, in every phase, and counts
// what was lost.
#include <gtest/gtest.h>


#include "tests/integration/peers/leaving.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

enum class Leaving { close, reset };

struct Departure {
  const char* name;
  bool head_sent;      ///< The replica has sent its head when the client leaves.
  std::size_t events;  ///< That many events have reached the client when it leaves (0: it waits for the first).
  Leaving leaving;
  const char* phase;
};

std::ostream& operator<<(std::ostream& out, const Departure& one) { return out << one.name; }

class ClientLeaves : public ::testing::TestWithParam<Departure> {};

TEST_P(ClientLeaves, TheReplicasConnectionIsClosedAtOnceAndNothingStaysInTheLedger) {
  const auto& departure = GetParam();
  const auto script = vllm_chat(10);
  Progress sent;
  CloseTimes closes;
  ScriptedReplica replica([&](Exchange& exchange) {
    if (departure.head_sent) exchange.send(sse_head());
    for (std::size_t i = 0; i < departure.events; ++i) exchange.send(chunk(script.events[i]));
    sent.add(1);
    closes.saw(exchange.wait_for_close());
  });
  WeirUnderTest weir(pool_of({&replica}));

  // The replica says no more, so nothing but the client's end makes weir notice.
  std::vector<Clock::duration> took;
  for (std::size_t i = 1; i <= departures; ++i) {
    HttpClient client(weir.port());
    client.send(post(chat, chat_body()));
    sent.wait_for(i, "the replica to have the request");
    if (departure.events > 0) {
      auto got = client.response_head();
      client.read_until(got, script.events[departure.events - 1]);
    }
    const auto left = Clock::now();
    departure.leaving == Leaving::reset ? client.reset() : client.close();
    took.push_back(closes.wait_for(i) - left);
  }
  expect_prompt_close(departure.name, std::move(took));

  const auto metrics = weir.metrics_after(departures);
  expect_idle(weir.metrics_when("an empty ledger",
                                [](const MetricsPage& page) { return page.sum("weir_queued_tokens") == 0; }));
  EXPECT_EQ(metrics.sum("weir_requests_total"), departures);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "client_abort"}, {"phase", departure.phase}}), departures);
  // The first event is the role alone.
  const auto tokens = departure.events == 0 ? 0 : departures * (departure.events - 1);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), tokens);
  EXPECT_EQ(metrics.sum("weir_aborted_output_tokens_total"), tokens);
  EXPECT_EQ(metrics.sum("weir_time_to_first_token_seconds_count"), tokens > 0 ? departures : 0);
  EXPECT_EQ(metrics.sum("weir_time_per_output_token_seconds_count"), 0);
  const auto line = weir.log_lines(1).front();
  EXPECT_EQ(member(line, "outcome"), "client_abort");
  EXPECT_EQ(member(line, "phase"), departure.phase);
  EXPECT_EQ(replica.requests().size(), departures) << "what a client left is not tried again";
}

INSTANTIATE_TEST_SUITE_P(
    Phases, ClientLeaves,
    ::testing::Values(Departure{"before_the_head_by_close", false, 0, Leaving::close, "prefill"},
                      Departure{"before_the_first_event_by_close", true, 0, Leaving::close, "prefill"},
                      Departure{"after_the_role_by_close", true, 1, Leaving::close, "prefill"},
                      Departure{"in_mid_stream_by_reset", true, 4, Leaving::reset, "decode"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weir::integration
