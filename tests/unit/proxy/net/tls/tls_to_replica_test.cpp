// TLS towards a replica: whose certificate weir trusts, what it shows and asks for, and which sessions it resumes.
#include <gtest/gtest.h>

#include "proxy/net/connect.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

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

TEST(TlsToReplica, SaysWhichCheckACertificateFailsUnlessVerifyIsOff) {
  const std::string failed = "TLS: certificate verify failed: ", names = failed + "the certificate is for other names",
                    expired = failed + "certificate has expired",
                    issuer = failed + "unable to get local issuer certificate";
  const auto trusting = ChannelEnds::trusting();
  config::ReplicaTls off, system;  // The system's authorities have signed none of these.
  off.verify = false;
  const struct {
    const char* certificate;
    config::ReplicaTls settings;
    std::string name, failure;
  } rows[]{
      {"local", trusting, "localhost", ""},        {"local", trusting, "LOCALHOST", ""},
      {"local", trusting, "127.0.0.1", ""},        {"example", trusting, "a.example.test", ""},
      {"local", trusting, "other.test", names},    {"local", trusting, "127.0.0.2", names},
      {"expired", trusting, "localhost", expired}, {"stranger", trusting, "localhost", issuer},
      {"local", system, "localhost", issuer},      {"local", off, "other.test", ""},
      {"expired", off, "other.test", ""},          {"stranger", off, "other.test", ""},
  };
  for (const auto& row : rows)
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
      EXPECT_EQ(failure_with(row.certificate, row.settings, row.name, version), row.failure)
          << row.certificate << " as " << row.name << ", verify " << row.settings.verify;
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
  EXPECT_NE(ends.channel->ended(), Channel::Ended::no);
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

/// A replica that lets in only whom tests/data/tls/ca.pem has signed.
TlsPeer demanding(int version) {
  auto peer = TlsPeer::server("local");
  SSL_CTX_set_max_proto_version(&peer.context(), version);
  SSL_CTX_load_verify_file(&peer.context(), test_file("ca.pem").c_str());
  SSL_CTX_set_verify(&peer.context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return peer;
}

TEST(TlsToReplica, ShowsItsOwnCertificateWhereOneIsDemanded) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ChannelEnds ends(Kind::tls_to_replica);
    ends.peer.emplace(demanding(version));
    auto settings = ChannelEnds::trusting();
    settings.own = test_certificate("client");
    ends.begin(settings);
    ends.run();
    EXPECT_TRUE(ends.peer->is_open()) << ends.peer->error;
    EXPECT_EQ(ends.read(10).size, -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(ends.channel->refusal(), 0);
  }
}

TEST(TlsToReplica, SaysThatTheReplicaRefusedItsCertificate) {
  const struct {
    const char* own;
    int version;
    const char* why;
  } rows[]{{"", TLS1_3_VERSION, "TLS: the replica refused weir's certificate: certificate required"},
           {"stranger", TLS1_3_VERSION, "TLS: the replica refused weir's certificate: unknown ca"},
           {"stranger", TLS1_2_VERSION, "TLS: the replica refused weir's certificate: unknown ca"},
           {"expired", TLS1_3_VERSION, "TLS: the replica refused weir's certificate: certificate expired"},
           {"expired", TLS1_2_VERSION, "TLS: the replica refused weir's certificate: certificate expired"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.own) + ' ' + std::to_string(row.version));
    ChannelEnds ends(Kind::tls_to_replica);
    ends.peer.emplace(demanding(row.version));
    auto settings = ChannelEnds::trusting();
    if (*row.own != '\0') settings.own = test_certificate(row.own);
    ends.begin(settings);
    ends.run();
    EXPECT_FALSE(ends.peer->is_open());
    EXPECT_EQ(ends.read(10).size, -1);
    EXPECT_NE(errno, EAGAIN);
    // With TLS 1.3 weir's part of the handshake is done before the replica looks at the certificate.
    const bool after = row.version == TLS1_3_VERSION;
    EXPECT_EQ(ends.channel->connect_error() == 0, after);
    EXPECT_EQ(connect_error_text(after ? ends.channel->refusal() : ends.channel->connect_error()), row.why);
  }
}

TEST(TlsToReplica, TakesARefusalBehindAnAnswerForABreak) {
  ChannelEnds ends(Kind::tls_to_replica);
  ends.peer.emplace(demanding(TLS1_3_VERSION));
  auto settings = ChannelEnds::trusting();
  settings.own = test_certificate("stranger");
  ends.begin(settings);
  ends.poll();
  // With TLS 1.3 a server may answer before it has looked at who asks (RFC 8446, 4.4.4).
  auto& ssl = ends.peer->ssl();
  std::array<char, 4096> hello;
  const auto size = ::recv(ends.far.get(), hello.data(), hello.size(), 0);
  ASSERT_GT(size, 0);
  BIO_write(SSL_get_rbio(&ssl), hello.data(), static_cast<int>(size));
  std::size_t count = 0;
  ASSERT_EQ(SSL_read_early_data(&ssl, hello.data(), hello.size(), &count), SSL_READ_EARLY_DATA_FINISH);
  ASSERT_EQ(SSL_write_early_data(&ssl, "HTTP/1.1 200 OK", 15, &count), 1);
  ends.run();
  EXPECT_NE(ends.peer->error, "") << "it has refused";
  EXPECT_EQ(ends.read_text(100), "HTTP/1.1 200 OK");
  EXPECT_EQ(ends.read(100).size, -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(ends.channel->refusal(), 0);
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

TEST(TlsToReplica, ResumesTheLastSessionThoughItsConnectionBrokeOff) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
    for (const bool breaks : {false, true}) {
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
      if (breaks) ends.channel->reset_on_close();
      ends.channel.reset();
      ends.run();
      EXPECT_EQ(ends.peer->heard_end, !breaks);
      ends.peer.emplace(TlsPeer::server(kept.get()));
      ends.open();
      EXPECT_EQ(SSL_session_reused(&ends.peer->ssl()), 1) << version;
      const std::vector<std::pair<Side, Result>> expected{{Side::replica, Result::full},
                                                          {Side::replica, Result::resumed}};
      EXPECT_EQ(ends.handshakes, expected);
    }
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

}  // namespace
}  // namespace weir::proxy::net::tls
