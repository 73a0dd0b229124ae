#include "proxy/fleet/idle_connections.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proxy/net/scripted_channel.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::seconds;

class Idle : public testing::Test {
 protected:
  static metrics::Moment at(int second) { return metrics::Moment(seconds(1000 + second)); }
  std::shared_ptr<net::Peer> put(const SharedReplica& replica, int second) {
    auto peer = std::make_shared<net::Peer>(calls);
    idle.put(replica, here, std::make_unique<net::ScriptedChannel>(peer), at(second));
    return peer;
  }
  /// Returns which of these was given out; -1 means none.
  int taken(const SharedReplica& replica, int second, std::vector<std::shared_ptr<net::Peer>> peers) {
    const auto channel = idle.take(replica, here, at(second));
    if (!channel) return -1;
    const std::string_view mark = "!";
    EXPECT_EQ(channel->write({&mark, 1}, 0), 1);
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (peers[i]->got == "!") return static_cast<int>(i);
    return -2;
  }
  net::Calls calls;
  const net::Destination here{net::Address(boost::asio::ip::make_address("10.0.0.1"), 80)},
      there{net::Address(boost::asio::ip::make_address("10.0.0.2"), 80)};
  /// Returns a snapshot of both replicas, where a connection may idle for 4 s.
  std::shared_ptr<const Snapshot> snapshot_of(std::size_t most) const {
    return Snapshot::changed(nullptr, [&](Snapshot& next) {
      next.settings.limits.idle_upstream_connections = most;
      next.settings.limits.upstream_idle = config::Seconds(4);
      auto pool = std::make_shared<PoolRuntime>();
      for (const auto& state : states) {
        pool->replicas.push_back(std::make_shared<Replica>());
        pool->replicas.back()->state = state;
      }
      next.pools.push_back(std::move(pool));
    });
  }
  Idle() { idle.adopt(*snapshot_of(3)); }
  std::vector<std::shared_ptr<SharedReplica>> states{std::shared_ptr<SharedReplica>(new SharedReplica{.id = 1}),
                                                    std::shared_ptr<SharedReplica>(new SharedReplica{.id = 2})};
  const std::shared_ptr<SharedReplica> owned[2]{states[0], states[1]};
  const SharedReplica &one = *owned[0], &other = *owned[1];
  IdleConnections idle;
};

TEST_F(Idle, GivesTheYoungestOfItsReplicaOut) {
  const auto old = put(one, 0), young = put(one, 1), apart = put(other, 1);
  EXPECT_EQ(taken(one, 2, {old, young}), 1);
  EXPECT_EQ(taken(one, 2, {old}), 0);
  EXPECT_EQ(idle.take(one, here, at(2)), nullptr);
  EXPECT_FALSE(apart->closed());
}

TEST_F(Idle, GivesNonePastItsAgeOut) {
  const auto peer = put(one, 0);
  EXPECT_EQ(idle.take(one, here, at(4)), nullptr);
  EXPECT_TRUE(peer->closed());
  put(one, 0);
  EXPECT_NE(idle.take(one, here, at(3)), nullptr);
}

TEST_F(Idle, GivesNoneOutThatIsNotQuiet) {
  const auto quiet = put(one, 0), stray = put(one, 0), closed = put(one, 0);
  stray->says("HTTP/1.1 408 Request Timeout\r\n\r\n");
  closed->ends();
  stray->report();
  closed->report();
  EXPECT_EQ(taken(one, 1, {quiet, stray, closed}), 0) << "two in a row are stale";
  EXPECT_TRUE(stray->closed() && closed->closed());
}

TEST_F(Idle, KeepsSoManyOfEachAndClosesTheOldest) {
  const auto oldest = put(one, 0);
  const auto apart = put(other, 0);
  std::vector<std::shared_ptr<net::Peer>> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(put(one, 1));
  EXPECT_TRUE(oldest->closed());
  EXPECT_FALSE(apart->closed());
  for (const auto& peer : kept) EXPECT_FALSE(peer->closed());
}

TEST_F(Idle, SaysThatOneWasTooManyButNotWhereNoneIsKept) {
  const auto peer = std::make_shared<net::Peer>(calls);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(idle.put(one, here, std::make_unique<net::ScriptedChannel>(std::make_shared<net::Peer>(calls)), at(0)),
              i < 3);
  IdleConnections none;
  none.adopt(*snapshot_of(0));
  EXPECT_TRUE(none.put(one, here, std::make_unique<net::ScriptedChannel>(peer), at(0))) << "that is no shortage";
  EXPECT_TRUE(peer->closed());
  EXPECT_EQ(none.take(one, here, at(0)), nullptr);
}

TEST_F(Idle, ClosesThoseThatLeadToWhereTheReplicaWas) {
  const auto before = put(one, 0);
  EXPECT_EQ(idle.take(one, there, at(1)), nullptr);
  EXPECT_TRUE(before->closed());
  const auto after = std::make_shared<net::Peer>(calls);
  idle.put(one, there, std::make_unique<net::ScriptedChannel>(after), at(1));
  EXPECT_NE(idle.take(one, there, at(1)), nullptr);
}

TEST_F(Idle, DropsTheOld) {
  const auto old = put(one, 0), young = put(one, 1), apart = put(other, 0);
  idle.drop_old(at(3));
  EXPECT_FALSE(old->closed());
  idle.drop_old(at(4));
  EXPECT_TRUE(old->closed() && apart->closed());
  EXPECT_FALSE(young->closed());
}

TEST_F(Idle, DropsWhatTheReplicaHasClosedWhateverItsAge) {
  const auto before = put(one, 0), closed = put(one, 1), after = put(one, 2);
  closed->ends();
  idle.drop_old(at(2));
  EXPECT_FALSE(closed->closed()) << "nobody has reported it yet";
  closed->report();
  idle.drop_old(at(2));
  EXPECT_TRUE(closed->closed()) << "its descriptor is not kept until its age";
  EXPECT_FALSE(before->closed() || after->closed());
}

TEST_F(Idle, ClosesTheOldestWhereFewerMayBeKeptFromNowOn) {
  const auto oldest = put(one, 0), older = put(one, 1), young = put(one, 2);
  idle.adopt(*snapshot_of(1));
  EXPECT_TRUE(oldest->closed() && older->closed());
  EXPECT_FALSE(young->closed());
}

TEST_F(Idle, ClosesThoseOfReplicasThatAreGone) {
  const auto stays = put(one, 0), goes = put(other, 0);
  states.pop_back();
  idle.adopt(*snapshot_of(3));
  EXPECT_FALSE(stays->closed());
  EXPECT_TRUE(goes->closed());
}

}  // namespace
}  // namespace weir::proxy::fleet
