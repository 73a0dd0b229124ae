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

TEST(ClientWatchTells, ThatTheClientHasGoneAndThatItEndedItsDirectionUnlessThatIsAllowed) {
  enum When { before, unheard, listening, no_longer_listening };
  for (const auto half_close : {config::HalfClose::abort, config::HalfClose::allow})
    for (const bool reset : {false, true})
      for (const auto when : {before, unheard, listening, no_longer_listening}) {
        const bool goes = reset || half_close == config::HalfClose::abort;
        SCOPED_TRACE(testing::Message() << "when " << when << ", reset " << reset << ", goes " << goes);
        net::Calls calls;
        const auto peer = std::make_shared<net::Peer>(calls);
        net::ScriptedChannel channel(peer);
        std::string unread;
        NotesNews told;
        const auto report = [&] {
          while (peer->report()) {
          }
        };
        const auto leaves = [&] {
          peer->says("GET");
          reset ? peer->breaks() : peer->ends();
          report();
        };
        if (when == before) leaves();
        ClientWatch watch(channel, unread, half_close);
        if (when >= listening) watch.listen(&told);
        if (when == no_longer_listening) watch.listen(nullptr);
        EXPECT_EQ(watch.gone(), when == before && goes);
        if (when != before) leaves();
        EXPECT_EQ(watch.gone(), goes);
        EXPECT_EQ(told.gone, goes && when == listening ? 1 : 0);
        EXPECT_EQ(unread, when == before ? "" : "GET");
        peer->breaks();
        report();
        EXPECT_TRUE(watch.gone()) << "a reset is no half of a close";
      }
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
