#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/net/channel.hpp"
#include "proxy/net/connect.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"
#include "tests/unit/proxy/net/scripted_channel.hpp"

namespace weir::proxy::net {
namespace {

class ChannelWaits : public testing::Test {
 protected:
  void wait_for(std::uint32_t events) {
    wait.wait(events, [this] { ++told; });
  }
  void report() {
    while (peer->report()) {
    }
  }
  Calls calls;
  std::shared_ptr<Peer> peer = std::make_shared<Peer>(calls);
  ScriptedChannel channel{peer};
  ChannelWait wait{channel};
  int told = 0;
};

TEST_F(ChannelWaits, EndsAtTheEventsThatAreWaitedForAndAtNoOthers) {
  wait_for(EPOLLIN);
  report();
  EXPECT_EQ(told, 0) << "it is writable, and nothing has come";
  peer->says("x");
  report();
  EXPECT_EQ(told, 1);
  wait_for(EPOLLOUT);
  EXPECT_EQ(told, 1);
  peer->says("y");
  report();
  EXPECT_EQ(told, 2);
}

TEST_F(ChannelWaits, EndsAtAHangUpWhateverIsWaitedFor) {
  peer->takes_nothing();
  wait_for(EPOLLOUT);
  peer->ends();
  report();
  EXPECT_EQ(told, 1);
}

TEST_F(ChannelWaits, IsTakenBackOnce) {
  wait_for(EPOLLIN);
  wait.cancel();
  EXPECT_EQ(told, 1);
  wait.cancel();
  peer->says("x");
  report();
  EXPECT_EQ(told, 1);
}

TEST(WaitingForAChannel, LeavesItUnwatched) {
  Calls calls;
  const auto peer = std::make_shared<Peer>(calls);
  ScriptedChannel channel(peer);
  {
    const ChannelWait wait(channel);
  }
  EXPECT_FALSE(peer->watched());
}

struct Told final : Watcher {
  void ready(std::uint32_t, std::uint32_t what) override { events = what; }
  void prefetch(std::uint32_t, int) const override {}
  std::uint32_t events = 0;
};

TEST(SinkChannel, TakesAllAndBringsNothing) {
  SinkChannel sink;
  const std::array<std::string_view, 3> pieces{"ab", "", "cde"};
  EXPECT_EQ(sink.write(pieces, 0), 5);
  EXPECT_EQ(sink.write(pieces, 1), 4);
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(sink.ended(), Channel::Ended::no);
  EXPECT_EQ(sink.unacknowledged(), 0);
}

TEST(SinkChannel, HangsUpWhenItIsTold) {
  SinkChannel sink;
  Told told;
  sink.watch(&told);
  sink.hang_up();
  EXPECT_NE(told.events & EPOLLRDHUP, 0u);
  EXPECT_EQ(sink.ended(), Channel::Ended::broken);
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, 0);
  sink.watch(nullptr);
  told.events = 0;
  sink.hang_up();
  EXPECT_EQ(told.events, 0u) << "nobody is told after watch(nullptr)";
}

TEST(Completion, TellsWhatIsKeptOnce) {
  Completion<int> completion;
  EXPECT_FALSE(completion);
  std::vector<int> told;
  completion.keep([&](int news) { told.push_back(news); });
  EXPECT_TRUE(completion);
  completion.resume(1);
  EXPECT_FALSE(completion);
  EXPECT_EQ(told, std::vector{1});
}

TEST(Completion, MayBeKeptAnewByWhoIsTold) {
  Completion<int> completion;
  std::vector<int> told;
  completion.keep([&](int news) {
    told.push_back(news);
    completion.keep([&](int next) { told.push_back(10 * next); });
  });
  completion.resume(1);
  ASSERT_TRUE(completion) << "the handler of the next operation is lost";
  completion.resume(2);
  EXPECT_EQ(told, (std::vector{1, 20}));
}

TEST(Completion, TellsLaterFromItsExecutor) {
  boost::asio::io_context context;
  Completion<int> completion;
  std::vector<int> told;
  completion.keep(boost::asio::bind_executor(context, [&](int news) { told.push_back(news); }));
  completion.tell(3);
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(completion);
  context.poll();
  EXPECT_EQ(told, std::vector{3});
}

TEST(Completion, GoesWithItsOwner) {
  std::vector<int> told;
  const auto alive = std::make_shared<int>(0);
  {
    Completion<int> first;
    first.keep([&, alive](int news) { told.push_back(news); });
    Completion<int> second(std::move(first));
    EXPECT_FALSE(first);
    first.keep([&, alive](int news) { told.push_back(10 * news); });
    first = std::move(second);
    EXPECT_EQ(alive.use_count(), 2) << "the handler before is gone";
    EXPECT_FALSE(second);
    first.resume(1);
    EXPECT_EQ(alive.use_count(), 1);
    second.keep([alive](int) {});
  }
  EXPECT_EQ(told, std::vector{1});
  EXPECT_EQ(alive.use_count(), 1);
}

using metrics::Moment;

Moment at(int seconds) { return Moment(std::chrono::seconds(seconds)); }

struct Waiting final : Timed {
  explicit Waiting(Moment when = at(10)) : due(when) {}
  Moment deadline() const override { return due; }
  void deadline_passed(Moment now) override {
    passed.push_back(now);
    if (then) then();
  }

  Moment due;
  std::vector<Moment> passed;
  std::function<void()> then;
};

TEST(Deadlines, PassOnceTheyAreReachedAndAreMovedByWritingThem) {
  Deadlines deadlines;
  Waiting waiting;
  deadlines.attach(waiting);
  deadlines.tick(at(9));
  EXPECT_TRUE(waiting.passed.empty());
  deadlines.tick(at(10));
  deadlines.tick(at(11));
  EXPECT_EQ(waiting.passed, (std::vector{at(10), at(11)})) << "again where they stay reached";
  for (const auto due : {at(20), Moment::max()}) {
    waiting.due = due;
    deadlines.tick(due == at(20) ? at(19) : at(1'000'000));
  }
  EXPECT_EQ(waiting.passed.size(), 2u);
}

/// Three are due at once, and each destroys what `whom` says when it is told.
void destroy_in_passing(const std::vector<std::size_t>& destroyers, const std::vector<std::size_t>& victims) {
  Deadlines deadlines;
  std::vector<std::unique_ptr<Waiting>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<Waiting>());
    deadlines.attach(*all.back());
  }
  int told = 0;
  std::vector<bool> gone(3, false), reached(3, false);
  for (std::size_t i = 0; i < 3; ++i)
    all[i]->then = [&, i] {
      EXPECT_FALSE(gone[i]);
      reached[i] = true;
      ++told;
      for (std::size_t d = 0; d < destroyers.size(); ++d) {
        if (destroyers[d] != i || gone[victims[d]]) continue;
        gone[victims[d]] = true;
        // A handler that destroys itself may still be running in the function object it owns.
        auto running = victims[d] == i ? std::move(all[i]->then) : nullptr;
        all[victims[d]].reset();
        if (running) return;
      }
    };
  deadlines.tick(at(10));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(reached[i] || gone[i]) << i;
  told = 0;
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < 3; ++i)
    if (all[i]) all[i]->then = [&told] { ++told; }, left.push_back(i);
  deadlines.tick(at(11));
  EXPECT_EQ(told, static_cast<int>(left.size())) << "those that are left are still in the list, once";
}

TEST(Deadlines, MayDestroyThemselvesAndEachOther) {
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 3; ++b)
      for (std::size_t c = 0; c < 3; ++c) {
        SCOPED_TRACE(std::to_string(a) + std::to_string(b) + std::to_string(c));
        destroy_in_passing({0, 1, 2}, {a, b, c});
      }
  destroy_in_passing({0, 0, 0}, {1, 2, 0});
  destroy_in_passing({1, 1, 1}, {0, 2, 1});
}

TEST(Deadlines, MayTakeInNewOnesWhichHaveTheirTurnAtTheNextTick) {
  Deadlines deadlines;
  Waiting first, second(at(1));
  first.then = [&] {
    if (!second.is_linked()) deadlines.attach(second);
  };
  deadlines.attach(first);
  deadlines.tick(at(10));
  EXPECT_TRUE(second.passed.empty());
  deadlines.tick(at(11));
  EXPECT_EQ(second.passed, std::vector{at(11)});
}

TEST(Deadlines, ThatAnotherOneHasPutOffInTheMeantimeAreNotReached) {
  Deadlines deadlines;
  Waiting first, second;
  first.then = [&] { second.due = at(20); };
  second.then = [&] { first.due = at(20); };
  deadlines.attach(first);
  deadlines.attach(second);
  deadlines.tick(at(10));
  EXPECT_EQ(first.passed.size() + second.passed.size(), 1u);
}

constexpr std::size_t portion = Deadlines::handled_at_once;

TEST(Deadlines, ThatAreReachedTogetherAreHandledInPortions) {
  Deadlines deadlines;
  std::vector<Waiting> all(10 * portion + 3);
  std::size_t told = 0;
  for (auto& one : all) {
    one.then = [&told] { ++told; };
    deadlines.attach(one);
  }
  std::size_t portions = 1;
  for (bool more = deadlines.tick(at(10)); more; more = deadlines.go_on(at(10)), ++portions)
    EXPECT_EQ(told, portions * portion);
  EXPECT_EQ(portions, 11u);
  EXPECT_EQ(told, all.size());
  for (const auto& one : all) EXPECT_EQ(one.passed.size(), 1u) << "nobody is told twice in a round";
}

TEST(Deadlines, ThatAreNotReachedAreLookedAtInPortionsToo) {
  Deadlines deadlines;
  struct Looked final : Timed {
    Moment deadline() const override { return ++looks, Moment::max(); }
    void deadline_passed(Moment) override {}
    mutable int looks = 0;
  };
  std::vector<Looked> all(3 * Deadlines::looked_at_at_once);
  for (auto& one : all) deadlines.attach(one);
  const auto looks = [&all] {
    std::size_t sum = 0;
    for (const auto& one : all) sum += static_cast<std::size_t>(one.looks);
    return sum;
  };
  EXPECT_TRUE(deadlines.tick(at(10)));
  EXPECT_EQ(looks(), Deadlines::looked_at_at_once);
  while (deadlines.go_on(at(10))) {
  }
  EXPECT_EQ(looks(), all.size());
}

TEST(Deadlines, BeginNoRoundWhileOneIsUnderWay) {
  Deadlines deadlines;
  std::vector<Waiting> all(3 * portion);
  for (auto& one : all) deadlines.attach(one);
  EXPECT_TRUE(deadlines.tick(at(10)));
  EXPECT_FALSE(deadlines.tick(at(11))) << "whoever began the round goes on with it";
  EXPECT_TRUE(deadlines.go_on(at(12)));
  EXPECT_FALSE(deadlines.go_on(at(13)));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].passed, std::vector{at(i < portion ? 10 : i < 2 * portion ? 12 : 13)});
}

/// Between portions and in handlers, objects go, come, are put off and are reached, at random. In every round each
/// object that is there from its begin to its end, and stays reached, is told exactly once, and none that has gone is.
TEST(Deadlines, HandleEachOnceARoundWhateverHappensMeanwhile) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    struct One final : Timed {
      Moment deadline() const override { return due; }
      void deadline_passed(Moment) override {
        ++told;
        then();
      }
      Moment due{};
      int told = 0;
      bool old = false, touched = false;
      std::function<void()> then = [] {};
    };
    Deadlines deadlines;
    std::vector<std::unique_ptr<One>> all;
    One* running = nullptr;
    const auto change = [&] {
      if (all.empty()) return;
      auto& one = all[below(all.size())];
      switch (below(3)) {
        case 0:
          if (one.get() != running) one.reset(), std::swap(one, all.back()), all.pop_back();
          break;
        case 1:
          one->due = at(1'000'000);
          one->touched = true;
          break;
        default:
          if (one->due > at(10)) one->due = at(0), one->touched = true;
      }
    };
    const auto add = [&] {
      auto& one = all.emplace_back(std::make_unique<One>());
      one->then = [&, self = one.get()] {
        running = self;
        if (below(3) == 0) change();
        running = nullptr;
      };
      deadlines.attach(*one);
    };
    for (std::size_t n = 1 + below(20 * portion); n > 0; --n) add();
    for (int round = 0; round < 5; ++round) {
      for (auto& one : all) one->told = 0, one->old = true, one->touched = false;
      for (bool more = deadlines.tick(at(10)); more; more = deadlines.go_on(at(10))) {
        if (below(2) == 0) change();
        if (below(2) == 0) add();
      }
      for (const auto& one : all) {
        EXPECT_LE(one->told, one->old ? 1 : 0) << "what came meanwhile has its turn in the next round";
        if (one->old && !one->touched) {
          EXPECT_EQ(one->told, one->due <= at(10) ? 1 : 0);
        }
      }
    }
  }
}

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
