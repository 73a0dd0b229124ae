// What TLS alone has: the handshake, records, ends that may be forged, tickets. proxy/net/channel.hpp's promises are
// tested in channel_contract_test.cpp.
#include "proxy/net/tls/tls_channel.hpp"

#include <gtest/gtest.h>

#include "proxy/net/connect.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

constexpr std::uint32_t failed = EPOLLERR | EPOLLHUP;

/// Says how weir's handshake with a replica of this certificate fails; "" if it does not.
std::string failure_with(const std::string& certificate, const config::ReplicaTls& settings,
                         const std::string& name = "localhost", int version = TLS1_3_VERSION) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.peer.emplace(TlsPeer::server(certificate));
  SSL_CTX_set_max_proto_version(&ends.peer->context(), version);
  ends.begin(settings, name);
  ends.run();
  const int error = ends.channel->connect_error();
  EXPECT_EQ(ends.watcher.told.empty() ? 0 : ends.watcher.all() & failed, error != 0 ? failed : 0);
  EXPECT_EQ(ends.handshakes.size(), 1u);
  return error == 0 ? "" : connect_error_text(error);
}

TEST(TlsToReplica, TrustsWhatTheAuthorityHasSignedForThatName) {
  EXPECT_EQ(failure_with("local", ChannelEnds::trusting()), "");
  EXPECT_EQ(failure_with("local", ChannelEnds::trusting(), "LOCALHOST"), "");
  EXPECT_EQ(failure_with("local", ChannelEnds::trusting(), "127.0.0.1"), "") << "an address, too";
  EXPECT_EQ(failure_with("example", ChannelEnds::trusting(), "a.example.test"), "");
}

TEST(TlsToReplica, SaysWhichCheckACertificateFails) {
  const auto trusting = ChannelEnds::trusting();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_EQ(failure_with("local", trusting, "other.test", version),
              "TLS: certificate verify failed: the certificate is for other names");
    EXPECT_EQ(failure_with("local", trusting, "127.0.0.2", version),
              "TLS: certificate verify failed: the certificate is for other names");
    EXPECT_EQ(failure_with("expired", trusting, "localhost", version),
              "TLS: certificate verify failed: certificate has expired");
    EXPECT_EQ(failure_with("stranger", trusting, "localhost", version),
              "TLS: certificate verify failed: unable to get local issuer certificate");
  }
  config::ReplicaTls system;  // The system's authorities have signed none of these.
  EXPECT_EQ(failure_with("local", system), "TLS: certificate verify failed: unable to get local issuer certificate");
}

TEST(TlsToReplica, ChecksNothingWhereVerifyIsOff) {
  config::ReplicaTls settings;
  settings.verify = false;
  for (const auto* const certificate : {"local", "expired", "stranger"})
    EXPECT_EQ(failure_with(certificate, settings, "other.test"), "") << certificate;
}

TEST(TlsToReplica, SpeaksNoVersionBefore12) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.peer.emplace(TlsPeer::server("local"));
  SSL_CTX_set_security_level(&ends.peer->context(), 0);
  SSL_CTX_set_min_proto_version(&ends.peer->context(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(&ends.peer->context(), TLS1_1_VERSION);
  ends.begin();
  ends.run();
  EXPECT_NE(ends.channel->connect_error(), 0);
  EXPECT_FALSE(ends.peer->is_open());
}

TEST(TlsToReplica, FailsWhereThePeerDoesNotSpeakTls) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.begin();
  ends.poll();
  const std::string_view answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(::send(ends.far.get(), answer.data(), answer.size(), 0), static_cast<ssize_t>(answer.size()));
  ends.poll();
  EXPECT_EQ(connect_error_text(ends.channel->connect_error()), "TLS: the peer does not speak TLS");
  EXPECT_EQ(ends.read(10).size, -1);
  EXPECT_NE(errno, EAGAIN);
  EXPECT_EQ(ends.write("x"), -1);
  EXPECT_NE(errno, EAGAIN);
  EXPECT_TRUE(ends.channel->hung_up());
}

TEST(TlsToReplica, FailsWhereThePeerLeavesWithinTheHandshake) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.begin();
  ends.poll();
  ends.closes();
  EXPECT_EQ(ends.watcher.all() & failed, failed);
  const auto text = connect_error_text(ends.channel->connect_error());
  EXPECT_TRUE(text == "TLS: the connection was closed within the handshake" || text == "Connection reset by peer")
      << text;
}

TEST(TlsToReplica, ShowsItsOwnCertificateWhereOneIsDemanded) {
  for (const bool has_one : {true, false}) {
    ChannelEnds ends(Kind::tls_to_replica);
    ends.peer.emplace(TlsPeer::server("local"));
    SSL_CTX_load_verify_file(&ends.peer->context(), test_file("ca.pem").c_str());
    SSL_CTX_set_verify(&ends.peer->context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    auto settings = ChannelEnds::trusting();
    if (has_one) settings.own = test_certificate("client");
    ends.begin(settings);
    ends.run();
    EXPECT_EQ(ends.peer->is_open(), has_one) << ends.peer->error;
    // With TLS 1.3 the refusal comes after weir's own part is done.
    EXPECT_EQ(ends.read(10).size, -1);
    EXPECT_EQ(errno == EAGAIN, has_one);
  }
}

TEST(TlsToReplica, NamesTheServerAndAsksForHttp11) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.peer.emplace(TlsPeer::server("local"));
  std::string offered;
  SSL_CTX_set_alpn_select_cb(
      &ends.peer->context(),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in, unsigned int in_size,
         void* to) {
        static_cast<std::string*>(to)->assign(reinterpret_cast<const char*>(in), in_size);
        *out = in + 1;
        *size = in[0];
        return SSL_TLSEXT_ERR_OK;
      },
      &offered);
  ends.open();
  EXPECT_EQ(offered, "\x08http/1.1");
  EXPECT_STREQ(SSL_get_servername(&ends.peer->ssl(), TLSEXT_NAMETYPE_host_name), "localhost");
}

TEST(TlsToReplica, ResumesTheLastSession) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ChannelEnds ends(Kind::tls_to_replica);
    auto replica = TlsPeer::server("local");
    auto& context = replica.context();
    SSL_CTX_set_max_proto_version(&context, version);
    SSL_CTX_up_ref(&context);
    const ContextPtr kept(&context);
    ends.peer.emplace(std::move(replica));
    ends.open();
    ends.says("x");  // Tickets come before it, and are read with it.
    EXPECT_EQ(ends.read_text(10), "x");
    ends.channel.reset();
    ends.run();
    EXPECT_TRUE(ends.peer->heard_end);
    ends.peer.emplace(TlsPeer::server(kept.get()));
    ends.open();
    EXPECT_EQ(SSL_session_reused(&ends.peer->ssl()), 1) << version;
    const std::vector<std::pair<Side, Result>> expected{{Side::replica, Result::full},
                                                        {Side::replica, Result::resumed}};
    EXPECT_EQ(ends.handshakes, expected);
  }
}

TEST(TlsToReplica, ResumesASessionWhoseConnectionBrokeOff) {
  ChannelEnds ends(Kind::tls_to_replica);
  auto replica = TlsPeer::server("local");
  SSL_CTX_up_ref(&replica.context());
  const ContextPtr kept(&replica.context());
  ends.peer.emplace(std::move(replica));
  ends.open();
  ends.says("x");
  ends.read(10);
  ends.channel->reset_on_close();
  ends.channel.reset();
  ends.peer.emplace(TlsPeer::server(kept.get()));
  ends.open();
  EXPECT_EQ(SSL_session_reused(&ends.peer->ssl()), 1);
}

TEST(TlsToReplica, IsQuietThoughTicketsHaveCome) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.open();  // The replica's tickets are there, unread.
  ends.read(10);
  ends.watcher.told.clear();
  SSL_new_session_ticket(&ends.peer->ssl());
  ends.says("");
  EXPECT_TRUE(ends.channel->may_read()) << "something has come";
  EXPECT_TRUE(ends.channel->is_quiet()) << "but nothing that its user would read";
  EXPECT_FALSE(ends.channel->may_read());
}

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
  EXPECT_EQ(shown_to("localhost"), "weir test local");
  EXPECT_EQ(shown_to("example.test"), "weir test example");
  EXPECT_EQ(shown_to("Other.Example.Test"), "weir test example");
  EXPECT_EQ(shown_to("exact.example.test"), "weir test exact");
  EXPECT_EQ(shown_to("a.b.example.test"), "weir test local") << "a wildcard stands for one label";
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
  EXPECT_TRUE(ends.channel->hung_up());
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
  ends.peer->say_end();
  ends.run();
  EXPECT_EQ(ends.read(10).size, 0);
  ends.poll();
  EXPECT_TRUE(ends.channel->hung_up());
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

TEST_P(BothTlsSides, HaveNoEndSaidForThemOnceTheyAreToReset) {
  ends.open();
  ends.channel->reset_on_close();
  ends.channel.reset();
  ends.run();
  EXPECT_FALSE(ends.peer->heard_end);
}

TEST_P(BothTlsSides, FollowAKeyUpdate) {
  ends.open();
  SSL_key_update(&ends.peer->ssl(), SSL_KEY_UPDATE_REQUESTED);
  ends.says("after");
  EXPECT_EQ(ends.read_text(10), "after");
  EXPECT_EQ(ends.write("too"), 3);
  EXPECT_EQ(ends.heard(), "too");
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

}  // namespace
}  // namespace weir::proxy::net::tls
