#include "proxy/serve/rejected_clients.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/proxy/net/tls/tls_peer.hpp"

namespace weir::proxy::serve {
namespace {

using Speaks = RejectedClients::Speaks;

class TurningAway : public testing::Test {
 protected:
  /// Turns a client away that has sent `request` already, and returns its end of the connection.
  net::UniqueFd turn_away(Speaks speaks = Speaks::http, const std::string& request = "") {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    EXPECT_EQ(::send(ends[0], request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    rejected.add(net::UniqueFd(ends[1]), speaks);
    return net::UniqueFd(ends[0]);
  }
  /// Reads what there is; `ended` says whether the end is behind it. A reset shows as no text.
  static std::string read(const net::UniqueFd& client, bool& ended) {
    std::string text(4096, '\0');
    const auto size = ::recv(client.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    ended = size > 0 && ::recv(client.get(), &ended, 1, MSG_PEEK) == 0;
    return text;
  }

  boost::asio::io_context context{1};
  RejectedClients rejected{context};
};

TEST_F(TurningAway, TellsTheClientAndWaitsUntilItCloses) {
  auto client = turn_away();
  context.poll();
  bool ended = false;
  EXPECT_THAT(read(client, ended),
              testing::AllOf(testing::StartsWith("HTTP/1.1 503 "), testing::HasSubstr("Retry-After: 5\r\n"),
                             testing::EndsWith("\r\n\r\n")));
  EXPECT_TRUE(ended);
  const std::string request(50'000, 'x');
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL), 50'000) << "somebody reads it";
    context.poll();
  }
  EXPECT_EQ(rejected.count(), 1u);
  client.reset();
  context.poll();
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, ReadsNotMoreThanItsShare) {
  const auto client = turn_away();
  const std::string much(64 * 1024, 'x');
  std::size_t sent = 0;
  for (; sent <= 2 * RejectedClients::most_dropped; context.poll()) {
    const auto size = ::send(client.get(), much.data(), much.size(), MSG_NOSIGNAL);
    if (size < 0) break;
    sent += static_cast<std::size_t>(size);
  }
  EXPECT_GE(sent, RejectedClients::most_dropped);
  EXPECT_LE(sent, RejectedClients::most_dropped + 1024 * 1024);
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, HoldsNotMoreThanItsShareAndTheLatestLongest) {
  std::vector<net::UniqueFd> clients;
  for (std::size_t i = 0; i < RejectedClients::most + 5; ++i) clients.push_back(turn_away(Speaks::http, "GET / HTTP/1.1"));
  EXPECT_EQ(rejected.count(), RejectedClients::most);
  for (auto& client : clients) {
    bool ended = false;
    EXPECT_THAT(read(client, ended), testing::StartsWith("HTTP/1.1 503 ")) << "no reset has taken it away";
    EXPECT_TRUE(ended);
  }
  context.poll();
  EXPECT_EQ(rejected.count(), RejectedClients::most);
  EXPECT_LT(::send(clients.front().get(), "x", 1, MSG_NOSIGNAL), 0) << "the first ones had to make room";
  EXPECT_EQ(::send(clients[5].get(), "x", 1, MSG_NOSIGNAL), 1);
  clients.clear();
  context.poll();
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, GivesAnAlertToAClientThatSpeaksTls) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    auto peer = net::tls::TlsPeer::client();
    SSL_CTX_set_max_proto_version(&peer.context(), version);
    const auto client = turn_away(Speaks::tls, peer.take_ciphertext());
    context.poll();
    bool ended = false;
    const auto told = read(client, ended);
    EXPECT_TRUE(ended);
    peer.accept(told);
    EXPECT_EQ(peer.error, "tlsv1 alert internal error") << "no plain text, which no client of TLS could read";
  }
}

}  // namespace
}  // namespace weir::proxy::serve
