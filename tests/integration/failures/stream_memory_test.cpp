// What a stream costs while it waits for its next token: the resident memory of weir with a thousand of them, less that
// with one. scripts/test leaves this out where a sanitizer keeps memory of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <list>

#include "tests/integration/peers/event.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

TEST(StreamMemory, IsAtMost8KiBWhileAStreamWaits) {
  rlimit descriptors{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = descriptors.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &descriptors), 0);

  Event go_on;
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.events[0]) + chunk(script.events[1]));
    go_on.wait("the test to have read the memory");
    exchange.send(chunk(script.events[2]) + chunk(script.marker) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));
  std::list<HttpClient> clients;
  std::list<Response> answers;
  const auto begin_streams = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) clients.emplace_back(weir.port()).send(post(chat, chat_body()));
    for (auto client = std::next(clients.begin(), static_cast<std::ptrdiff_t>(answers.size())); client != clients.end();
         ++client) {
      answers.push_back(client->response_head());
      client->read_until(answers.back(), script.events[1]);
    }
  };
  begin_streams(1);
  const auto with_one = weir.process().resident_memory();
  constexpr std::size_t streams = 1000;
  begin_streams(streams);
  const auto with_all = weir.process().resident_memory();
  EXPECT_LE((with_all - with_one) / streams, 8u * 1024) << with_one << " and " << with_all << " bytes";
  go_on.set();
  for (auto client = clients.begin(); auto& answer : answers) (client++)->rest(answer);
  for (const auto& answer : answers) EXPECT_EQ(answer.end, BodyEnd::whole);
}

}  // namespace
}  // namespace weir::integration
