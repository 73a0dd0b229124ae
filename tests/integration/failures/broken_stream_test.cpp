// A replica breaks off after the client has seen something: what only the kernel's buffers and resets show. The fault
// matrix has the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::StartsWith;

std::string first_events(const StreamScript& script, std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes += script.events.at(i);
  return bytes;
}

TEST(BrokenStream, OfAnHttp10ClientEndsInAReset) {
  const auto sent = first_events(vllm_chat(8), 4);
  for (const bool resets : {true, false}) {
    Event seen;
    ScriptedReplica replica([&](Exchange& exchange) {
      exchange.send(sse_head() + chunk(sent));
      seen.wait("the client to have the events");
      resets ? exchange.reset() : exchange.close();
    });
    WeirUnderTest weir(pool_of({&replica}));
    HttpClient client(weir.port());
    auto request = post(chat, chat_body_with_usage());
    request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
    client.send(request);
    auto got = client.response_head();
    client.read_until(got, sent);
    seen.set();
    client.rest(got);
    EXPECT_EQ(got.end, BodyEnd::reset) << "a FIN would make the answer look whole";
  }
}

TEST(BrokenStream, BytesThatLieBeforeTheResetAreNotLost) {
  const auto sent = first_events(vllm_chat(200), 150);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(sent));
    exchange.reset();
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u);
  EXPECT_THAT(got.body, StartsWith(sent + "data: {\"error\""));
  EXPECT_THAT(got.end, AnyOf(Eq(BodyEnd::fin), Eq(BodyEnd::reset)));
}

}  // namespace
}  // namespace weir::integration
