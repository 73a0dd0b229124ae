#include "proxy/exchange/client_watch.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proxy/net/scripted_channel.hpp"

namespace weir::proxy::exchange {
namespace {

struct NotesNews final : ClientWatch::Listener {
  void client_gone() override { ++gone; }
  void client_writable() override { ++writable; }
  int gone = 0, writable = 0;
};

class ClientWatching : public testing::Test {
 protected:
  void report() {
    while (peer->report()) {
    }
  }
  net::Calls calls;
  std::shared_ptr<net::Peer> peer = std::make_shared<net::Peer>(calls);
  net::ScriptedChannel channel{peer};
  std::string unread;
  NotesNews told;
};

TEST_F(ClientWatching, TellsThatTheClientHasGone) {
  for (const bool reset : {false, true}) {
    const auto other = std::make_shared<net::Peer>(calls);
    net::ScriptedChannel its_channel(other);
    ClientWatch watch(its_channel, unread);
    NotesNews its_told;
    watch.listen(&its_told);
    other->report();
    EXPECT_FALSE(watch.gone());
    reset ? other->breaks() : other->ends();
    other->report();
    EXPECT_TRUE(watch.gone());
    EXPECT_EQ(its_told.gone, 1);
  }
}

TEST_F(ClientWatching, LetsAClientEndItsDirectionWhereThatIsAllowed) {
  ClientWatch watch(channel, unread, config::HalfClose::allow);
  watch.listen(&told);
  peer->says("GET");
  peer->ends();
  report();
  EXPECT_FALSE(watch.gone());
  EXPECT_EQ(told.gone, 0);
  EXPECT_EQ(unread, "GET");
  peer->breaks();
  report();
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(told.gone, 1);
}

TEST_F(ClientWatching, BeginsWithAClientThatHasEndedItsDirectionWhereThatIsAllowed) {
  for (const bool reset : {false, true}) {
    reset ? peer->breaks() : peer->ends();
    report();
    const ClientWatch watch(channel, unread, config::HalfClose::allow);
    EXPECT_EQ(watch.gone(), reset);
  }
}

TEST_F(ClientWatching, KnowsOfAClientThatWentBeforeItBegan) {
  peer->ends();
  report();
  const ClientWatch watch(channel, unread);
  EXPECT_TRUE(watch.gone());
}

TEST_F(ClientWatching, KnowsOfAClientThatWentWhileNobodyListened) {
  ClientWatch watch(channel, unread);
  peer->ends();
  report();
  watch.listen(&told);
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(told.gone, 0);
}

TEST_F(ClientWatching, TellsNobodyOnceTheListenerHasGone) {
  ClientWatch watch(channel, unread);
  watch.listen(&told);
  watch.listen(nullptr);
  peer->ends();
  report();
  EXPECT_EQ(told.gone + told.writable, 0);
}

TEST_F(ClientWatching, KeepsWhatComesOfAFollowingRequest) {
  ClientWatch watch(channel, unread);
  peer->says("GET /health", 4);
  report();
  EXPECT_EQ(unread, "GET /health");
  EXPECT_FALSE(watch.gone());
}

TEST_F(ClientWatching, ReadsNoMoreThanItsShare) {
  static_assert(ClientWatch::most_unread == 4096);
  unread = "before";
  ClientWatch watch(channel, unread);
  peer->says(std::string(10'000, 'x'), 1000);
  report();
  EXPECT_EQ(unread.size(), ClientWatch::most_unread);
  EXPECT_EQ(peer->unread(), 10'006 - ClientWatch::most_unread);
}

TEST_F(ClientWatching, KnowsOfAClientThatEndsBehindMoreThanItsShare) {
  ClientWatch watch(channel, unread);
  watch.listen(&told);
  peer->says(std::string(10'000, 'x'));
  report();
  ASSERT_GT(peer->unread(), 0u);
  EXPECT_FALSE(watch.gone());
  peer->ends();
  report();
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(told.gone, 1);
}

TEST_F(ClientWatching, TellsWhenTheClientTakesBytesAgain) {
  ClientWatch watch(channel, unread);
  watch.listen(&told);
  report();
  const int before = told.writable;
  peer->takes_nothing();
  const std::string_view bytes = "abc";
  EXPECT_LT(channel.write({&bytes, 1}, 0), 0);
  report();
  EXPECT_EQ(told.writable, before);
  peer->takes(3);
  report();
  EXPECT_EQ(told.writable, before + 1);
}

TEST_F(ClientWatching, EndsWithIt) {
  { const ClientWatch watch(channel, unread); }
  EXPECT_FALSE(peer->watched());
}

}  // namespace
}  // namespace weir::proxy::exchange
