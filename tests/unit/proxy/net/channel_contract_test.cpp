// The promises of proxy/net/channel.hpp, for every kind of channel.
#include <gtest/gtest.h>

#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net {
namespace {

class ChannelContract : public testing::TestWithParam<Kind> {
 protected:
  ChannelEnds ends{GetParam()};
  Channel& channel() { return *ends.channel; }
};

TEST_P(ChannelContract, MayBeReadUntilAReadHasEmptiedIt) {
  ends.open();
  ends.read(10);  // A handshake leaves open whether more has come.
  EXPECT_FALSE(channel().may_read());
  ends.says("abcd");
  EXPECT_TRUE(channel().may_read());
  EXPECT_EQ(ends.read_text(2), "ab");
  EXPECT_TRUE(channel().may_read()) << "a read that fills its buffer leaves the rest unknown";
  EXPECT_EQ(ends.read_text(3), "cd");
  EXPECT_FALSE(channel().may_read()) << "a short read has emptied it";
  ends.says("ab");
  EXPECT_EQ(ends.read(2).size, 2);
  EXPECT_EQ(ends.read(2).size, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(channel().may_read()) << "so has one that found nothing";
}

TEST_P(ChannelContract, ATokenCostsOneSystemCallEachWay) {
  ends.a_message_a_call = true;
  ends.open();
  ends.read(100);  // Tickets may have come behind the handshake.
  for (const std::string_view token : {"1\r\na\r\n", "b", "a longer piece of text"}) {
    const std::array<std::string_view, 3> pieces{"data: ", token, "\n\n"};
    std::array<char, 1000> bytes;
    EXPECT_GT(channel().write(pieces, 0), 0);
    EXPECT_GT(::recv(ends.far.get(), bytes.data(), bytes.size(), 0), 0);
    EXPECT_EQ(::recv(ends.far.get(), bytes.data(), bytes.size(), 0), -1) << "it was written by more than one call";
  }
  ends.says("token 1");
  ends.says("token 2");
  EXPECT_EQ(ends.read_text(100), "token 1") << "a second call would have read the other one";
}

TEST_P(ChannelContract, TellsOfWhatComesAfterAReadThatEmptiedIt) {
  ends.open();
  for (const char* const word : {"one", "two", "three"}) {
    ends.watcher.told.clear();
    ends.says(word);
    EXPECT_NE(ends.watcher.all() & EPOLLIN, 0u) << word;
    EXPECT_EQ(ends.read_text(10), word);
  }
}

TEST_P(ChannelContract, ReadsTheEndAfterTheBytesBeforeIt) {
  ends.open();
  ends.says("ab");
  ends.ends();
  EXPECT_NE(channel().ended(), Channel::Ended::no);
  EXPECT_NE(ends.watcher.all() & EPOLLRDHUP, 0u);
  EXPECT_EQ(ends.read_text(10), "ab");
  EXPECT_TRUE(channel().may_read()) << "the end is still to be read";
  EXPECT_EQ(ends.read(10).size, 0);
  EXPECT_EQ(ends.read(10).size, 0);
  EXPECT_NE(channel().ended(), Channel::Ended::no);
}

TEST_P(ChannelContract, IsQuietWhereNothingIsUnreadAndThePeerHasEndedNothing) {
  for (const bool closes : {false, true}) {
    ChannelEnds two(GetParam());
    two.open();
    two.read(10);
    EXPECT_TRUE(two.channel->is_quiet());
    two.says("ab");
    EXPECT_FALSE(two.channel->is_quiet());
    EXPECT_EQ(two.read_text(10), "ab");
    EXPECT_TRUE(two.channel->is_quiet());
    EXPECT_FALSE(two.channel->may_read());
    closes ? two.closes() : two.ends();
    EXPECT_FALSE(two.channel->is_quiet());
  }
}

TEST_P(ChannelContract, WritesFromAnOffsetAcrossPieces) {
  ends.open();
  const std::array<std::string_view, 4> pieces{"abc", "", "def", "gh"};
  EXPECT_EQ(channel().write(pieces, 2), 6);
  EXPECT_EQ(ends.heard(), "cdefgh");
  EXPECT_EQ(channel().write(std::span(pieces).first(1), 1), 2);
  EXPECT_EQ(ends.heard(), "bc");
  EXPECT_EQ(channel().write(std::span(pieces).subspan(1, 1), 0), 0);
}

TEST_P(ChannelContract, LosesNothingOfWhatAFullSocketTakesPieceByPiece) {
  ends.open();
  std::string all;
  for (int i = 0; all.size() < 3'000'000; ++i) all += std::to_string(i) + ' ';
  std::string got;
  std::size_t written = 0, calls = 0;
  while (written < all.size()) {
    ASSERT_LT(++calls, 100'000u);
    // The rest is given in two pieces, which are cut elsewhere each time.
    const std::string_view rest = std::string_view(all).substr(written);
    const std::size_t cut = std::min<std::size_t>(rest.size(), calls * 997 % 40'000);
    const std::array<std::string_view, 2> pieces{rest.substr(0, cut), rest.substr(cut)};
    const auto size = channel().write(pieces, 0);
    ASSERT_LE(size, static_cast<ssize_t>(Channel::bytes_in_a_row));
    if (size < 0) {
      ASSERT_EQ(errno, EAGAIN);
      ends.watcher.told.clear();
      got += ends.heard();
      EXPECT_NE(ends.watcher.all() & EPOLLOUT, 0u) << "it says that it takes bytes again";
      continue;
    }
    written += static_cast<std::size_t>(size);
  }
  got += ends.heard();
  EXPECT_TRUE(got == all);
}

TEST_P(ChannelContract, TellsOfAPeerThatIsGoneByAnErrorAndNoSignal) {
  ends.open();
  ends.closes();
  EXPECT_EQ(ends.write("ab"), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(ends.write("ab"), -1);
  EXPECT_NE(channel().ended(), Channel::Ended::no);
}

TEST_P(ChannelContract, EndsWritingAndStillReads) {
  ends.open();
  channel().end_writing();
  EXPECT_TRUE(ends.heard_end());
  ends.says("x");
  EXPECT_EQ(ends.read_text(10), "x");
}

TEST_P(ChannelContract, ReportsOnceMoreWhatItIsAskedTo) {
  ends.open();
  channel().rearm(EPOLLIN);
  EXPECT_TRUE(ends.watcher.told.empty()) << "others have their turn first";
  ends.poll();
  EXPECT_EQ(ends.watcher.all(), static_cast<std::uint32_t>(EPOLLIN));
  EXPECT_TRUE(channel().may_read());
}

TEST_P(ChannelContract, TellsNobodyAfterDetach) {
  ends.open();
  channel().watch(nullptr);
  ends.says("x");
  EXPECT_TRUE(ends.watcher.told.empty());
  EXPECT_TRUE(channel().may_read()) << "what came meanwhile is not lost";
}

TEST_P(ChannelContract, ClosesByAnEnd) {
  ends.open();
  EXPECT_EQ(channel().connect_error(), 0);
  ends.channel.reset();
  EXPECT_TRUE(ends.heard_end());
}

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  const char* const names[]{"Plain", "TlsToClient", "TlsToReplica"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, ChannelContract,
                         testing::Values(Kind::plain, Kind::tls_to_client, Kind::tls_to_replica), name_of);

}  // namespace
}  // namespace weir::proxy::net
