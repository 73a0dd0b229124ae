#include <gtest/gtest.h>

#include "metrics/moment.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/serve/client_connection.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"
#include "tests/unit/proxy/net/tls/tls_peer.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;

class HandshakesTest : public testing::Test {
 protected:
  /// A client connects; its handshake begins.
  net::UniqueFd connect() {
    auto far = connect_unpolled();
    poll();
    return far;
  }
  net::UniqueFd connect_unpolled() {
    const net::LoopbackListener listener;
    auto far = net::begin_connect(listener.endpoint);
    net::UniqueFd near(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ++begun;
    handshakes.begin({.socket = std::move(near), .address = address, .count = ConnectionCount(proxy.loop)}, context,
                     settings);
    return far;
  }
  void poll() {
    while (proxy.loop.context.poll() > 0) {
    }
  }
  void exchange(net::UniqueFd& far, net::tls::TlsPeer& peer) {
    for (int turns = 0; turns < 20 && !peer.is_open(); ++turns) {
      const auto out = peer.take_ciphertext();
      ::send(far.get(), out.data(), out.size(), MSG_NOSIGNAL);
      poll();
      peer.accept(heard(far));
    }
    const auto out = peer.take_ciphertext();
    ::send(far.get(), out.data(), out.size(), MSG_NOSIGNAL);
    poll();
  }
  static std::string heard(net::UniqueFd& far) {
    std::array<char, 10'000> bytes;
    const auto size = ::recv(far.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN ? "" : "reset";
    return size == 0 ? "end" : std::string(bytes.data(), static_cast<std::size_t>(size));
  }

  ScriptedProxy proxy{1};
  config::Settings settings;
  config::Limits& limits = settings.limits;
  net::PeerAddress address{};  ///< Of the clients that connect.
  std::shared_ptr<const net::tls::ServerContext> context =
      std::make_shared<net::tls::ServerContext>(config::ServerTls{{net::tls::test_certificate("local")}});
  std::size_t lost() const { return begun - proxy.loop.connections; }

  std::size_t begun = 0;
  std::vector<std::pair<std::unique_ptr<net::Channel>, NewClient>> started;
  Handshakes handshakes{proxy.loop, [this](std::unique_ptr<net::Channel> channel, NewClient client) {
                          started.emplace_back(std::move(channel), std::move(client));
                        }};
};

TEST_F(HandshakesTest, MakeASessionOfAClientWhoseHandshakeEndsWell) {
  auto far = connect();
  EXPECT_EQ(handshakes.under_way(), 1u);
  auto peer = net::tls::TlsPeer::client();
  exchange(far, peer);
  EXPECT_TRUE(peer.is_open()) << peer.error;
  EXPECT_EQ(started.size(), 1u);
  EXPECT_EQ(handshakes.under_way(), 0u);
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(proxy.loop.shard.tls_handshakes[0][0].value(), 1u);
  proxy.tick_in(1000);
  EXPECT_EQ(proxy.limit_hits(Limit::handshake_time), 0u);
}

TEST_F(HandshakesTest, EndAfterTheirTime) {
  auto far = connect();
  ::send(far.get(), "\x16\x03\x01", 3, 0);
  poll();
  proxy.tick_in(9.9);
  EXPECT_EQ(heard(far), "");
  proxy.tick_in(10);
  EXPECT_NE(heard(far), "");
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(handshakes.under_way(), 0u);
  EXPECT_EQ(proxy.limit_hits(Limit::handshake_time), 1u);
  EXPECT_EQ(proxy.loop.shard.tls_handshakes[0][2].value(), 1u);
}

TEST_F(HandshakesTest, AreSoManyAtATime) {
  limits.handshakes = 2;
  auto first = connect();
  auto second = connect();
  auto third = connect();
  EXPECT_EQ(handshakes.under_way(), 2u);
  EXPECT_EQ(heard(first), "end") << "it is the first that weir waits for";
  EXPECT_EQ(heard(third), "");
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(proxy.limit_hits(Limit::handshakes), 1u);
  third.reset();
  poll();
  EXPECT_EQ(lost(), 2u);
  const auto fourth = connect();
  EXPECT_EQ(heard(second), "") << "one that has ended leaves its place";
  EXPECT_EQ(handshakes.under_way(), 2u);
}

TEST_F(HandshakesTest, ThatWeirIsBehindWithKeepTheirPlaces) {
  limits.handshakes = 2;
  std::array far = {connect(), connect()};
  std::array peer = {net::tls::TlsPeer::client(), net::tls::TlsPeer::client()};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto hello = peer[i].take_ciphertext();
    ::send(far[i].get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  }
  proxy.loop.context.poll_one();  // Weir sees the bytes, and has not yet taken a step.
  auto third = connect_unpolled();
  EXPECT_EQ(heard(third), "end");
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(proxy.limit_hits(Limit::handshakes), 1u);
  for (std::size_t i = 0; i < 2; ++i) exchange(far[i], peer[i]);
  EXPECT_EQ(started.size(), 2u);
}

// The poller tells few of those that carry no tokens at a time, and a flood would stand before the requests of others.
TEST_F(HandshakesTest, DoNotStandBeforeRequests) {
  std::vector<net::UniqueFd> flood;
  for (int i = 0; i < 40; ++i) {
    flood.push_back(connect_unpolled());
    ::send(flood.back().get(), "\x16\x03\x01", 3, 0);
  }
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
  const net::UniqueFd near(pair[0]), far(pair[1]);
  net::NotingWatcher watcher;
  net::Poller::Registration request(proxy.loop.poller, near.get());
  request.attach(watcher, 0);
  proxy.loop.context.poll_one();
  EXPECT_EQ(watcher.told.size(), 1u) << "in the poller's first turn";
}

TEST_F(HandshakesTest, TellAClientThatSpeaksPlainHttp) {
  auto far = connect();
  const std::string_view request = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
  ::send(far.get(), request.data(), request.size(), 0);
  poll();
  const auto answer = heard(far);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  const auto body = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_NE(answer.find("Content-Length: " + std::to_string(body.size()) + "\r\n"), std::string::npos) << answer;
  EXPECT_EQ(heard(far), "end");
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HandshakesTest, EndAtOnceWhereClientsAreClosed) {
  auto far = connect();
  proxy.shared.closing = true;
  proxy.tick_in(0);
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(proxy.limit_hits(Limit::handshake_time), 0u);
}

constexpr net::PeerAddress far_away{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1},
    loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

TEST_F(HandshakesTest, ChargeTheirCpuToTheAddressOfTheClient) {
  const auto owed = [this](const net::PeerAddress& of) {
    return proxy.shared.addresses.handshake_cpu.owed(of, 0, std::chrono::steady_clock::now());
  };
  for (const auto& [of, limit, charged] :
       {std::tuple{far_away, 0.25, true}, {far_away, 0.0, false}, {loopback, 0.25, false}, {{}, 0.25, false}}) {
    const auto before = owed(of);
    address = of;
    limits.handshake_cpu = limit;
    auto far = connect();
    auto peer = net::tls::TlsPeer::client();
    exchange(far, peer);
    EXPECT_TRUE(peer.is_open());
    // A signature alone costs 20 us.
    EXPECT_EQ(owed(of) > before + 20e-6, charged) << limit;
    EXPECT_LT(owed(of), before + 0.1);
  }
  settings.server.trusted_proxies = {config::Network{far_away}};
  const auto before = owed(far_away);
  address = far_away;
  auto far = connect();
  auto peer = net::tls::TlsPeer::client();
  exchange(far, peer);
  EXPECT_EQ(owed(far_away), before) << "a proxy speaks for many clients";
}

TEST_F(HandshakesTest, OfAnAddressThatOwesTooMuchCpuEndAndThoseOfOthersGoOn) {
  address = far_away;
  limits.handshake_cpu = 1e-6;  // What is owed stays owed for the time of the test.
  auto begun_before = connect();
  proxy.shared.addresses.handshake_cpu.charge(far_away, 1, limits.handshake_cpu, std::chrono::steady_clock::now());
  auto peer = net::tls::TlsPeer::client();
  exchange(begun_before, peer);
  EXPECT_FALSE(peer.is_open()) << "its hello had not been read";
  EXPECT_EQ(proxy.limit_hits(Limit::handshake_cpu), 1u);
  auto next = connect();
  EXPECT_EQ(heard(next), "end");
  EXPECT_EQ(proxy.limit_hits(Limit::handshake_cpu), 2u);
  EXPECT_EQ(handshakes.under_way(), 0u);
  EXPECT_EQ(lost(), 2u);
  address[15] = 2;
  auto other = connect();
  auto others_peer = net::tls::TlsPeer::client();
  exchange(other, others_peer);
  EXPECT_TRUE(others_peer.is_open()) << others_peer.error;
}

}  // namespace
}  // namespace weir::proxy::serve
