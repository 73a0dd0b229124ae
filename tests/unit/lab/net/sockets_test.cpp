#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "lab/net/sockets.hpp"

namespace weir::lab::net {
namespace {

using boost::asio::ip::tcp;

class FirstThatConnects : public testing::Test {
 protected:
  static tcp::endpoint any() { return {boost::asio::ip::address_v4::loopback(), 0}; }
  tcp::endpoint listening() { return acceptors_.emplace_back(io_, any()).local_endpoint(); }
  tcp::endpoint refusing() { return tcp::acceptor(io_, any()).local_endpoint(); }
  /// A listener whose backlog is full.
  tcp::endpoint deaf() {
    auto& acceptor = acceptors_.emplace_back(io_);
    acceptor.open(tcp::v4());
    acceptor.bind(any());
    acceptor.listen(0);
    for (bool taken = true; taken;) {
      taken = false;
      sockets_.emplace_back(io_).async_connect(acceptor.local_endpoint(),
                                               [&](const boost::system::error_code& ec) { taken = !ec; });
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(50));
    }
    return acceptor.local_endpoint();
  }
  static tcp::endpoint chosen(const std::vector<tcp::endpoint>& addresses) {
    return first_that_connects(
        tcp::resolver::results_type::create(addresses.begin(), addresses.end(), "several.example", "80"));
  }

 private:
  boost::asio::io_context io_;
  std::list<tcp::acceptor> acceptors_;
  std::list<tcp::socket> sockets_;
};

TEST_F(FirstThatConnects, IsTheFirstThatListens) {
  const auto one = listening(), other = listening();
  EXPECT_EQ(chosen({one, other}), one);
  EXPECT_EQ(chosen({refusing(), other, one}), other);
}

TEST_F(FirstThatConnects, DoesNotWaitForOneThatDoesNotAnswer) {
  const auto there = listening();
  EXPECT_EQ(chosen({deaf(), there}), there);
}

TEST_F(FirstThatConnects, IsTheFirstOfAllWhereNoneListens) {
  const auto first = refusing();
  EXPECT_EQ(chosen({first, refusing()}), first);
}

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

TEST(Arrival, IsAsLongAgoAsItsStamp) {
  const Moment now{100s};
  struct {
    std::chrono::nanoseconds stamp;
    Moment arrival;
  } const cases[]{
      {1000s, now},       {1000s - 3us, now - 3us}, {990s, now - 10s}, {990s - 1ns, now},  // Too old to be true.
      {1000s + 1ns, now},  // The wall clock was set back.
  };
  for (const auto& [stamp, arrival] : cases) EXPECT_EQ(arrival_of(stamp, 1000s, now), arrival) << stamp.count();
}

/// Two ends of a connection. The kernel stamps what `reader` gets.
class StampedSocketTest : public testing::Test {
 protected:
  StampedSocketTest() {
    tcp::acceptor acceptor(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    stamp_arrivals(acceptor.native_handle());
    writer_.connect(acceptor.local_endpoint());
    reader_.tcp() = acceptor.accept();
  }

  void begin_read(asio::mutable_buffer room) {
    reader_.async_read_some(room, [this](error_code ec, std::size_t n) {
      ec_ = ec;
      read_ = n;
    });
  }
  /// Reads what has been sent, after a while.
  void read_late() {
    const auto sent = Clock::now();
    while (Clock::now() < sent + late) {
    }
    io_.restart();
    begin_read(asio::buffer(room_));
    io_.run();
  }
  /// The kernel begins to stamp a little after it has been asked to, so that first reads may have no stamp.
  void wait_for_stamps() {
    for (int i = 0; i < 1000; ++i) {
      send("0");
      const auto sent = Clock::now();
      read_late();
      if (reader_.arrived() <= sent + late / 2) return;
    }
    FAIL() << "the kernel stamps nothing";
  }
  void send(const std::string& bytes) { asio::write(writer_, asio::buffer(bytes)); }

  static constexpr auto late = 10ms;
  asio::io_context io_;
  tcp::socket writer_{io_};
  StampedSocket reader_{io_};
  std::array<char, 16> room_{};
  error_code ec_;
  std::optional<std::size_t> read_;
};

TEST_F(StampedSocketTest, AReadIsAsOldAsItsBytesHoweverLateItIs) {
  wait_for_stamps();
  const auto before = Clock::now();
  send("abc");
  const auto sent = Clock::now();
  read_late();
  EXPECT_EQ(read_, 3u);
  EXPECT_FALSE(ec_);
  EXPECT_EQ(std::string(room_.data(), 3), "abc");
  EXPECT_GE(reader_.arrived(), before - 1ms) << "two clocks are read one after the other";
  EXPECT_LE(reader_.arrived(), sent + late / 2);
}

TEST_F(StampedSocketTest, FillsTheFirstBufferWithRoomAndLeavesTheRest) {
  const std::array<asio::mutable_buffer, 3> buffers{asio::buffer(room_, 0), asio::buffer(room_, 2),
                                                    asio::buffer(room_.data() + 2, 2)};
  send("abc");
  reader_.async_read_some(buffers, [this](error_code, std::size_t n) { read_ = n; });
  io_.run();
  EXPECT_EQ(read_, 2u);
  EXPECT_EQ(std::string(room_.data(), 2), "ab");
  io_.restart();
  begin_read(asio::buffer(room_));
  io_.run();
  EXPECT_EQ(read_, 1u);
  EXPECT_EQ(room_[0], 'c');
}

TEST_F(StampedSocketTest, WithoutRoomIsCalledLaterAndTakesNothing) {
  for (const bool there : {false, true}) {
    if (there) send("abc");
    read_.reset();
    begin_read(asio::buffer(room_, 0));
    EXPECT_EQ(read_, std::nullopt) << "not from inside the call";
    io_.restart();
    io_.poll();
    EXPECT_EQ(read_, 0u);
    EXPECT_FALSE(ec_) << "it is no end of the connection";
  }
  begin_read(asio::buffer(room_));
  io_.restart();
  io_.run();
  EXPECT_EQ(read_, 3u);
}

TEST_F(StampedSocketTest, EndsWithTheConnection) {
  writer_.close();
  begin_read(asio::buffer(room_));
  io_.run();
  EXPECT_EQ(ec_, asio::error::eof);
  EXPECT_EQ(read_, 0u);
}

TEST_F(StampedSocketTest, AReadThatWaitsCanBeCancelled) {
  begin_read(asio::buffer(room_));
  io_.poll();
  EXPECT_EQ(read_, std::nullopt);
  reader_.tcp().cancel();
  io_.restart();
  io_.run();
  EXPECT_EQ(ec_, asio::error::operation_aborted);
}

}  // namespace
}  // namespace weir::lab::net
