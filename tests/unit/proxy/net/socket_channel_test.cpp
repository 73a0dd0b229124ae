#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "proxy/net/connect.hpp"
#include "proxy/net/socket_channel.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::net {
namespace {

/// A channel and the far end of its socket: a pair of the system's, or two ends of a TCP connection over loopback.
class Socket : public testing::Test {
 protected:
  Socket() { poller.start(context); }
  ~Socket() override { poller.stop(); }
  void make_pair() {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    far.reset(fds[1]);
    channel = std::make_unique<SocketChannel>(poller, clock, UniqueFd(fds[0]));
    poll();
  }
  void make_connection() {
    const LoopbackListener listener;
    channel = connector.connect({listener.endpoint});
    ASSERT_NE(channel, nullptr);
    far.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ASSERT_TRUE(far);
    poll();
  }
  void poll() {
    while (context.poll() > 0) {
    }
  }
  void says(std::string_view bytes) {
    EXPECT_EQ(::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    poll();
  }
  /// Returns what the far end reads: bytes, or "" at the end, or an error's name.
  std::string heard() const {
    std::array<char, 256> bytes;
    const auto size = ::recv(far.get(), bytes.data(), bytes.size(), 0);
    if (size < 0) return errno == ECONNRESET ? "reset" : errno == EAGAIN ? "nothing yet" : "error";
    return {bytes.data(), static_cast<std::size_t>(size)};
  }
  Channel::Read read(std::size_t size) {
    const auto read = channel->read(std::span(buffer).first(size));
    return read;
  }

  Poller poller;
  boost::asio::io_context context{1};
  ArrivalClock clock{config::ReadClock::kernel};
  tls::Handshaking handshaking{context, nullptr};
  SocketConnector connector{{poller, clock, handshaking}};
  std::unique_ptr<Channel> channel;
  UniqueFd far;
  std::array<char, 64> buffer{};
};

TEST_F(Socket, WritesNoMoreThanItsShareInARow) {
  make_pair();
  const int room = 1 << 20;
  ::setsockopt(far.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  const std::string much(Channel::bytes_in_a_row + 1000, 'x');
  const std::array<std::string_view, 2> pieces{"a", much};
  EXPECT_LE(channel->write(pieces, 0), static_cast<ssize_t>(Channel::bytes_in_a_row));
  const std::string_view one = much;
  EXPECT_LE(channel->write({&one, 1}, 0), static_cast<ssize_t>(Channel::bytes_in_a_row));
}

TEST_F(Socket, StampsWithTheArrivalNotTheRead) {
  make_connection();
  // The kernel begins to stamp a moment after the first socket has asked for it.
  for (int tries = 0; tries < 100; ++tries) {
    says("x");
    const auto after = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - after < std::chrono::milliseconds(2)) {
    }
    const auto got = read(10);
    ASSERT_EQ(got.size, 1);
    if (got.at < after + std::chrono::milliseconds(1)) return;
  }
  FAIL() << "the stamp is that of the read";
}

TEST_F(Socket, ClosesByAResetWhereThatIsAskedFor) {
  make_connection();
  channel->reset_on_close();
  EXPECT_EQ(heard(), "nothing yet");
  channel.reset();
  EXPECT_EQ(heard(), "reset");
}

struct Breaking : SocketChannel {
  static void off(SocketChannel& one) { (one.*&Breaking::break_off)(); }
};

TEST_F(Socket, ThatIsBrokenOffTellsItsOwnSideAtOnceAndTheFarEndByAReset) {
  make_connection();
  channel->break_off_if_vanished();
  EXPECT_EQ(channel->ended(), Channel::Ended::no) << "its peer is there";
  struct Told final : Watcher {
    void ready(std::uint32_t, std::uint32_t events) override { seen |= events; }
    void prefetch(std::uint32_t, int) const override {}
    std::uint32_t seen = 0;
  } told;
  channel->watch(&told);
  Breaking::off(static_cast<SocketChannel&>(*channel));
  EXPECT_EQ(told.seen, 0u) << "whoever breaks it off may end with it";
  poll();
  EXPECT_NE(told.seen & EPOLLHUP, 0u);
  EXPECT_EQ(channel->ended(), Channel::Ended::broken);
  EXPECT_EQ(heard(), "reset");
}

TEST_F(Socket, KnowsWhatIsNotAcknowledged) {
  make_connection();
  const std::string much(1 << 16, 'x');
  const std::string_view all = much;
  ssize_t sent = 0;
  for (ssize_t size = 0; (size = channel->write({&all, 1}, 0)) > 0;) sent += size;
  // The far end's system has room for only a part of it.
  EXPECT_GT(channel->unacknowledged(), 0);
  EXPECT_LE(channel->unacknowledged(), sent);
}

// A loop that is late has not been told yet what has connected.
TEST_F(Socket, ThatHasConnectedUnseenWaitsForTheLoop) {
  const LoopbackListener listens;
  const Deaf deaf;
  EXPECT_TRUE(connector.connect(Address(listens.endpoint))->connecting_waits_for_loop());
  EXPECT_FALSE(connector.connect(deaf.address())->connecting_waits_for_loop());
}

TEST(Vanished, IsWhoWasAskedTwiceAndHasBeenSilentFor30Seconds) {
  const struct {
    const char* what;
    std::uint32_t silent_for_ms;
    std::uint8_t retransmits, probes;
    bool vanished;
  } rows[]{
      {"a client that acknowledges what it gets", 5, 0, 0, false},
      {"a client that has nothing to acknowledge", 300'000, 0, 0, false},
      {"a link that is down for a while", 29'999, 7, 0, false},
      {"a link that stays down", 30'000, 7, 0, true},
      {"keepalive probes without an answer", 30'000, 0, 3, true},
      {"keepalive probes that begin", 20'000, 0, 2, false},
      {"a closed window whose next probe has just gone out", 120'000, 0, 1, false},
      {"a closed window, and probes without an answer", 31'000, 0, 2, true},
      {"a packet that was lost behind a long silence", 120'000, 1, 0, false},
  };
  for (const auto& row : rows) {
    tcp_info known{};
    known.tcpi_last_ack_recv = row.silent_for_ms;
    known.tcpi_retransmits = row.retransmits;
    known.tcpi_probes = row.probes;
    EXPECT_EQ(has_vanished(known), row.vanished) << row.what;
  }
}

TEST(Vanished, IsNobodyBehindWhatIsNoSocketOfTcp) { EXPECT_FALSE(has_vanished(-1)); }

}  // namespace
}  // namespace weir::proxy::net
