// TLS towards a client: the handshake, the choice of a certificate, versions and protocols, tickets.
#include <gtest/gtest.h>

#include "proxy/net/connect.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

TEST(TlsToClient, TellsTheWatcherAfterTheHandshake) {
  for (const std::size_t piece : {1u, 7u, 100u, 100'000u}) {
    ChannelEnds ends(Kind::tls_to_client);
    ends.begin();
    ends.run(piece);
    ASSERT_TRUE(ends.peer->is_open());
    ASSERT_FALSE(ends.watcher.told.empty());
    EXPECT_EQ(ends.watcher.told.front(), static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT));
    EXPECT_EQ(ends.handshakes.size(), 1u);
  }
}

TEST(TlsToClient, SaysNothingAndTakesNothingBeforeTheHandshakeIsDone) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.begin();
  ends.poll();
  EXPECT_FALSE(ends.channel->may_read());
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ends.write("x"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(ends.watcher.told.empty());
}

TEST(TlsToClient, TakesItsStepInATurnOfItsOwn) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.begin();
  ends.poll();
  const auto hello = ends.peer->take_ciphertext();
  ASSERT_EQ(::send(ends.far.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  std::array<char, 10'000> bytes;
  const auto answered = [&] { return ::recv(ends.far.get(), bytes.data(), bytes.size(), 0); };
  ASSERT_EQ(ends.context.poll_one(), 1u);
  EXPECT_EQ(answered(), -1) << "this was the poller's turn, in which tokens of others may wait";
  EXPECT_FALSE(static_cast<TlsChannel&>(*ends.channel).handshake_waits_for_peer()) << "it has seen the hello";
  ASSERT_EQ(ends.context.poll_one(), 1u);
  EXPECT_GT(answered(), 0) << "the server's hello";
}

TEST(TlsToClient, ReadsARequestThatCameWithTheHandshakesEnd) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.begin();
  // The client's last flight and its request arrive as one.
  std::string flight = ends.peer->take_ciphertext();
  for (int turns = 0; turns < 10 && !ends.peer->is_open(); ++turns) {
    ::send(ends.far.get(), flight.data(), flight.size(), 0);
    ends.poll();
    std::array<char, 10'000> bytes;
    const auto size = ::recv(ends.far.get(), bytes.data(), bytes.size(), 0);
    ASSERT_GT(size, 0);
    ends.peer->accept({bytes.data(), static_cast<std::size_t>(size)});
    flight.clear();
  }
  ends.peer->write("GET /");
  flight = ends.peer->take_ciphertext();
  ::send(ends.far.get(), flight.data(), flight.size(), 0);
  ends.poll();
  ASSERT_EQ(ends.watcher.told.size(), 1u);
  EXPECT_NE(ends.watcher.told.front() & EPOLLIN, 0u);
  EXPECT_TRUE(ends.channel->may_read());
  EXPECT_EQ(ends.read_text(100), "GET /");
}

TEST(TlsToClient, ChoosesTheCertificateByTheServerName) {
  const auto server = std::make_shared<ServerContext>(
      config::ServerTls{{test_certificate("local"), test_certificate("example"), test_certificate("exact")}});
  const auto shown_to = [&](const std::string& name) {
    ChannelEnds ends(Kind::tls_to_client);
    ends.server = server;
    ends.peer.emplace(TlsPeer::client(name));
    SSL_CTX_set_verify(&ends.peer->context(), SSL_VERIFY_NONE, nullptr);
    ends.begin();
    ends.run();
    const auto* const certificate = SSL_get0_peer_certificate(&ends.peer->ssl());
    if (certificate == nullptr) return ends.peer->error;
    std::array<char, 100> subject{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, subject.data(), subject.size());
    return std::string(subject.data());
  };
  EXPECT_EQ(shown_to("exact.example.test"), "weir test exact");
  EXPECT_EQ(shown_to("unknown.test"), "weir test local");
}

TEST(TlsToClient, SpeaksNoVersionBefore12) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.peer.emplace(TlsPeer::client());
  SSL_CTX_set_security_level(&ends.peer->context(), 0);
  SSL_CTX_set_min_proto_version(&ends.peer->context(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(&ends.peer->context(), TLS1_1_VERSION);
  ends.begin();
  ends.run();
  EXPECT_EQ(ends.watcher.all() & failed, failed);
  EXPECT_EQ(connect_error_text(ends.channel->connect_error()), "TLS: the handshake failed: unsupported protocol");
}

TEST(TlsToClient, RefusesAClientThatOffersOtherProtocolsOnly) {
  for (const auto& [offered, open] : {std::pair<std::string, bool>{"\x02h2", false}, {"\x02h2\x08http/1.1", true}}) {
    ChannelEnds ends(Kind::tls_to_client);
    ends.peer.emplace(TlsPeer::client());
    SSL_CTX_set_alpn_protos(&ends.peer->context(), reinterpret_cast<const unsigned char*>(offered.data()),
                            static_cast<unsigned>(offered.size()));
    ends.begin();
    ends.run();
    EXPECT_EQ(ends.peer->is_open(), open);
    if (!open) {
      EXPECT_EQ(ends.peer->error, "tlsv1 alert no application protocol");
    }
  }
}

TEST(TlsToClient, ResumesByTicketsWhoseKeysSurviveAReloadOfTheSameFiles) {
  config::Settings settings;
  settings.server.tls = config::ServerTls{{test_certificate("local")}};
  const Contexts first(settings, {});
  const Contexts second(settings, first);
  EXPECT_EQ(first.server(), second.server());
  settings.server.tls->certificates.front() = test_certificate("renewed");
  const Contexts third(settings, second);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SessionPtr session;
    for (const auto& [contexts, resumes] : {std::pair{&first, false}, {&second, true}, {&third, false}}) {
      ChannelEnds ends(Kind::tls_to_client);
      ends.server = contexts->server();
      ends.peer.emplace(TlsPeer::client());
      SSL_CTX_set_max_proto_version(&ends.peer->context(), version);
      if (session) SSL_set_session(&ends.peer->ssl(), session.get());
      ends.open();
      EXPECT_EQ(SSL_session_reused(&ends.peer->ssl()) == 1, resumes) << version;
      EXPECT_EQ(ends.handshakes.front().second, resumes ? Result::resumed : Result::full);
      session.reset(SSL_get1_session(&ends.peer->ssl()));
      ends.peer->say_end();  // OpenSSL lets a client resume no session that broke off.
    }
  }
}

TEST(TlsToClient, KnowsPlainHttpAndAnswersIt) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.begin();
  const std::string_view request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ::send(ends.far.get(), request.data(), request.size(), 0);
  ends.poll();
  EXPECT_EQ(connect_error_text(ends.channel->connect_error()), "TLS: the handshake failed: http request");
  static_cast<TlsChannel&>(*ends.channel).answer_plainly("no");
  ends.channel.reset();
  std::array<char, 10> bytes;
  EXPECT_EQ(::recv(ends.far.get(), bytes.data(), bytes.size(), 0), 2);
  EXPECT_EQ(::recv(ends.far.get(), bytes.data(), bytes.size(), 0), 0) << "the end, and no reset";
}

}  // namespace
}  // namespace weir::proxy::net::tls
