// TLS on both sides: records, ends that may be forged, keys that change. proxy/net/channel.hpp's promises are
// tested in channel_contract_test.cpp.
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <string>

#include "proxy/net/tls/tls_channel.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

/// OpenSSL gets no memory as large as a record while this is set.
thread_local bool no_records = false;

void* allocate(std::size_t size, const char*, int) {
  return no_records && size > Socket::record_size ? nullptr : std::malloc(size);
}
void* reallocate(void* memory, std::size_t size, const char*, int) { return std::realloc(memory, size); }
void release(void* memory, const char*, int) { std::free(memory); }
/// OpenSSL takes these functions only before its first allocation, so they are set before main().
const bool is_allocator_set = CRYPTO_set_mem_functions(&allocate, &reallocate, &release) == 1;

class BothTlsSides : public testing::TestWithParam<Kind> {
 protected:
  ChannelEnds ends{GetParam()};
};

TEST_P(BothTlsSides, ReadWhatWasWrittenHoweverTheCiphertextIsCut) {
  std::string all;
  for (int i = 0; all.size() < 50'000; ++i) all += std::to_string(i) + ' ';
  for (const std::size_t piece : {1u, 2u, 5u, 21u, 1000u, 16'401u, 1'000'000u}) {
    ChannelEnds two(GetParam());
    two.open();
    const std::size_t size = piece < 20 ? 3000 : all.size();  // Each piece costs a turn of the poller.
    two.peer->write(std::string_view(all).substr(0, size / 3));
    two.peer->write(std::string_view(all).substr(size / 3, size - size / 3));
    std::string got, out = two.peer->take_ciphertext();
    for (std::string_view rest = out; !rest.empty();) {
      const auto sent = ::send(two.far.get(), rest.data(), std::min(piece, rest.size()), MSG_NOSIGNAL);
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
      two.poll();
      for (ssize_t n = 1; n > 0;) {
        const auto text = two.read(1 + got.size() % 700);
        n = text.size;
        if (n > 0) got.append(two.buffer.data(), static_cast<std::size_t>(n));
        if (n < 0) {
          ASSERT_EQ(errno, EAGAIN);
        }
      }
    }
    EXPECT_TRUE(got == all.substr(0, size)) << piece;
  }
}

TEST(TlsToReplica, WaitsForTheLoopUntilTheHandshakeWaitsForThePeer) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.begin();
  EXPECT_TRUE(ends.channel->connecting_waits_for_loop()) << "it is connected, and the loop was not told";
  ends.poll();
  EXPECT_FALSE(ends.channel->connecting_waits_for_loop()) << "it has said hello";
  std::array<char, 4096> hello;
  const auto size = ::recv(ends.far.get(), hello.data(), hello.size(), 0);
  ASSERT_GT(size, 0);
  ends.peer->accept({hello.data(), static_cast<std::size_t>(size)});
  const auto answer = ends.peer->take_ciphertext();
  ::send(ends.far.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(ends.channel->connecting_waits_for_loop()) << "the peer has answered, and nobody has read that";
  ends.run();
  EXPECT_TRUE(ends.peer->is_open());
  EXPECT_FALSE(ends.channel->connecting_waits_for_loop());
}

TEST_P(BothTlsSides, WriteSeveralPiecesAsOneRecord) {
  ends.open();
  ends.heard();
  ends.peer->records = 0;
  const std::array<std::string_view, 3> pieces{"1a\r\n", "data: token\n\n", "\r\n"};
  EXPECT_EQ(ends.channel->write(pieces, 0), 19);
  EXPECT_EQ(ends.heard(), "1a\r\ndata: token\n\n\r\n");
  EXPECT_EQ(ends.peer->records, 1);
}

TEST_P(BothTlsSides, TakeAnEndWithoutACloseNotifyForAnError) {
  ends.open();
  ends.says("ab");
  ::shutdown(ends.far.get(), SHUT_WR);
  ends.poll();
  EXPECT_NE(ends.channel->ended(), Channel::Ended::no);
  EXPECT_EQ(ends.read_text(10), "ab");
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(ends.read(10).size, -1) << "and so it stays";
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_P(BothTlsSides, ReadTheEndThatComesTogetherWithARecordWithoutBytes) {
  ends.open();
  SSL_key_update(&ends.peer->ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
  SSL_do_handshake(&ends.peer->ssl());
  const auto record = ends.peer->take_ciphertext();
  ASSERT_FALSE(record.empty());
  ::send(ends.far.get(), record.data(), record.size(), 0);
  ::shutdown(ends.far.get(), SHUT_WR);
  ends.poll();
  EXPECT_EQ(ends.read(100).size, -1);
  EXPECT_EQ(errno, ECONNRESET) << "no event follows that could tell of it";
}

TEST_P(BothTlsSides, TakeACloseNotifyForTheEndBeforeTheSocketCloses) {
  ends.open();
  ends.watcher.told.clear();
  ends.read(10);
  EXPECT_TRUE(ends.channel->is_quiet());
  ends.peer->say_end();
  ends.run();
  EXPECT_FALSE(ends.channel->is_quiet()) << "it is fit for no other request";
  EXPECT_EQ(ends.read(10).size, 0);
  ends.poll();
  EXPECT_NE(ends.channel->ended(), Channel::Ended::no);
  EXPECT_NE(ends.watcher.all() & EPOLLRDHUP, 0u) << "whoever only watches is told";
  EXPECT_EQ(ends.write("bye"), 3) << "the other half is open";
}

TEST_P(BothTlsSides, TakeAlteredCiphertextForAnError) {
  ends.open();
  ends.peer->write("abcdef");
  auto out = ends.peer->take_ciphertext();
  out.back() = static_cast<char>(out.back() ^ 1);
  ::send(ends.far.get(), out.data(), out.size(), 0);
  ends.poll();
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_NE(errno, EAGAIN);
}

TEST_P(BothTlsSides, AreBrokenOffWhereThereIsNoMemoryForARecord) {
  ASSERT_TRUE(is_allocator_set);
  ends.over_tcp = true;
  ends.open();
  ends.read(10);
  ASSERT_EQ(ends.write("x"), 1);  // Gives the handshake's buffer back.
  ends.poll();
  ends.watcher.told.clear();
  no_records = true;
  EXPECT_EQ(ends.write("ab"), -1);
  EXPECT_NE(errno, EAGAIN);
  no_records = false;
  EXPECT_TRUE(ends.watcher.told.empty()) << "whoever writes is at work";
  ends.poll();
  EXPECT_NE(ends.watcher.all() & hang_up_events, 0u) << "whoever waits for a read is told";
  EXPECT_NE(ends.channel->ended(), Channel::Ended::no);
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_P(BothTlsSides, AreBrokenOffWhereThereIsNoMemoryToReadARecord) {
  ends.open();
  ends.read(10);
  ends.watcher.told.clear();
  ends.peer->write("ab");
  const auto record = ends.peer->take_ciphertext();
  ::send(ends.far.get(), record.data(), record.size(), 0);
  ends.poll();
  EXPECT_NE(ends.watcher.all() & EPOLLIN, 0u);
  no_records = true;
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_EQ(errno, ECONNRESET);
  no_records = false;
}

TEST_P(BothTlsSides, HaveNoEndSaidForThemOnceTheyAreToReset) {
  ends.open();
  ends.channel->reset_on_close();
  ends.channel.reset();
  ends.run();
  EXPECT_FALSE(ends.peer->heard_end);
}

TEST_P(BothTlsSides, FollowTheKeyUpdatesOfALongLife) {
  ends.open();
  for (int i = 0; i < 200; ++i) {
    for (int updates = 0; updates < 3; ++updates) {
      SSL_key_update(&ends.peer->ssl(), i % 2 == 0 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(&ends.peer->ssl());
    }
    ends.says("x");
    ASSERT_EQ(ends.read_text(10), "x") << i;
    ASSERT_EQ(ends.write("too"), 3) << i;
    ASSERT_EQ(ends.heard(), "too") << i;
  }
}

/// The peer changes its keys so many times, and then says this.
std::string key_updates(TlsPeer& peer, std::size_t count, std::string_view then = "") {
  std::string records;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(SSL_key_update(&peer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    EXPECT_EQ(SSL_do_handshake(&peer.ssl()), 1);
    records += peer.take_ciphertext();
  }
  if (!then.empty()) peer.write(then);
  return records + peer.take_ciphertext();
}

void send_all(ChannelEnds& ends, std::string_view records) {
  ASSERT_EQ(::send(ends.far.get(), records.data(), records.size(), 0), static_cast<ssize_t>(records.size()));
}

TEST_P(BothTlsSides, ReadWhatComesBehindAFewRecordsWithoutData) {
  for (const std::size_t few : {1u, 2u, 15u, 16u, 17u, 40u, 60u}) {
    SCOPED_TRACE(few);
    ChannelEnds two(GetParam());
    two.open();
    for (int times = 0; times < 3; ++times) {
      send_all(two, key_updates(*two.peer, few, "after"));
      std::string got;
      for (int turns = 0; turns < 6 && got.empty(); ++turns) {
        two.watcher.told.clear();
        two.poll();
        EXPECT_NE(two.watcher.all() & EPOLLIN, 0u) << "each turn that is left is asked for";
        const auto read = two.read(100);
        if (read.size > 0) got.assign(two.buffer.data(), static_cast<std::size_t>(read.size));
      }
      EXPECT_EQ(got, "after");
    }
    EXPECT_EQ(two.channel->ended(), Channel::Ended::no);
    EXPECT_EQ(two.write("x"), 1);
  }
}

TEST_P(BothTlsSides, TakeRecordsWithoutDataInTurnsAndEndAPeerThatSendsNothingElse) {
  ends.open();
  send_all(ends, key_updates(*ends.peer, 1000, "data"));
  std::size_t turns = 0;
  for (; turns < 100 && ends.channel->ended() == Channel::Ended::no; ++turns) {
    ends.watcher.told.clear();
    ASSERT_GT(ends.context.poll(), 0u) << "a turn follows";
    if ((ends.watcher.all() & EPOLLIN) == 0) continue;
    EXPECT_EQ(ends.read(100).size, -1);
  }
  EXPECT_GE(turns, 4u) << "others have their turn between them";
  EXPECT_LE(turns, 10u);
  EXPECT_EQ(ends.read(100).size, -1);
  EXPECT_EQ(errno, ECONNABORTED);
  EXPECT_EQ(ends.write("x"), -1) << "the connection is broken";
  ends.poll();
  EXPECT_NE(ends.watcher.all() & EPOLLRDHUP, 0u) << "whoever only watches is told";
}

TEST_P(BothTlsSides, CountARecordWithoutDataOnceHoweverItIsCut) {
  ends.open();
  const auto records = key_updates(*ends.peer, 20, "after");
  std::string got;
  for (const char byte : records) {
    send_all(ends, {&byte, 1});
    ends.poll();
    const auto read = ends.read(100);
    if (read.size > 0) got.append(ends.buffer.data(), static_cast<std::size_t>(read.size));
  }
  ends.poll();
  const auto read = ends.read(100);
  if (read.size > 0) got.append(ends.buffer.data(), static_cast<std::size_t>(read.size));
  EXPECT_EQ(got, "after");
  EXPECT_EQ(ends.channel->ended(), Channel::Ended::no);
}

TEST_P(BothTlsSides, AreNotQuietWhileRecordsAreLeft) {
  ends.open();
  while (ends.read(100).size > 0) {
  }
  send_all(ends, key_updates(*ends.peer, 3));
  ends.poll();
  EXPECT_TRUE(ends.channel->is_quiet()) << "changed keys are no bytes";
  send_all(ends, key_updates(*ends.peer, 3, "surplus"));
  ends.poll();
  EXPECT_FALSE(ends.channel->is_quiet());
  EXPECT_EQ(ends.read_text(100), "surplus");
  send_all(ends, key_updates(*ends.peer, 30, "surplus"));
  ends.poll();
  EXPECT_FALSE(ends.channel->is_quiet());
}

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::tls_to_client ? "ToClient" : "ToReplica";
}
INSTANTIATE_TEST_SUITE_P(Tls, BothTlsSides, testing::Values(Kind::tls_to_client, Kind::tls_to_replica), name_of);

/// Two ends of a TCP connection over loopback, whose arrivals the kernel stamps.
TEST(TlsChannel, StampsWithTheCiphertextsArrivalNotTheRead) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.over_tcp = true;
  ends.open();
  // The kernel begins to stamp a moment after the first socket has asked for it.
  for (int tries = 0; tries < 100; ++tries) {
    ends.says("x");
    const auto after = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - after < std::chrono::milliseconds(2)) {
    }
    const auto got = ends.read(10);
    ASSERT_EQ(got.size, 1);
    if (got.at < after + std::chrono::milliseconds(1)) return;
  }
  FAIL() << "the stamp is that of the read";
}

class Noting final : public Handshaking::Stepper {
 public:
  Noting(std::string& notes, char name) : notes_(notes), name_(name) {}
  void step() override { notes_ += name_; }

 private:
  std::string& notes_;
  char name_;
};

class HandshakingTest : public testing::Test {
 protected:
  boost::asio::io_context context{1};
  Handshaking handshaking{context, nullptr};
  std::string notes;
};

TEST_F(HandshakingTest, LetsOthersHaveTheirTurnBetweenTwoSteps) {
  Noting a(notes, 'a'), b(notes, 'b'), c(notes, 'c');
  for (auto* one : {&a, &b, &c}) handshaking.ask(*one, Side::client);
  EXPECT_EQ(notes, "") << "no step is taken at once";
  while (context.poll_one() > 0) {
    notes += '.';
    ASSERT_LT(notes.size(), 20u);
  }
  EXPECT_EQ(notes, "a.b.c.");
}

TEST_F(HandshakingTest, GivesOneTurnToWhoAsksTwice) {
  Noting a(notes, 'a');
  handshaking.ask(a, Side::client);
  handshaking.ask(a, Side::client);
  context.poll();
  EXPECT_EQ(notes, "a");
  handshaking.ask(a, Side::client);
  context.restart();
  context.poll();
  EXPECT_EQ(notes, "aa");
}

TEST_F(HandshakingTest, LetsReplicasGoFirst) {
  Noting a(notes, 'a'), b(notes, 'b'), c(notes, 'c'), d(notes, 'd');
  handshaking.ask(a, Side::client);
  handshaking.ask(b, Side::client);
  handshaking.ask(c, Side::replica);
  handshaking.ask(d, Side::replica);
  context.poll();
  EXPECT_EQ(notes, "cdab");
}

TEST_F(HandshakingTest, ForgetsWhoIsGone) {
  Noting b(notes, 'b');
  {
    Noting a(notes, 'a');
    handshaking.ask(a, Side::client);
    handshaking.ask(b, Side::client);
  }
  context.poll();
  EXPECT_EQ(notes, "b");
}

}  // namespace
}  // namespace weir::proxy::net::tls
