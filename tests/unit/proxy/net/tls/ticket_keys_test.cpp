// How long a session ticket opens, by a clock that the test moves.
#include "proxy/net/tls/ticket_keys.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class TicketKeysTest : public testing::TestWithParam<int> {
 protected:
  /// Makes a connection with the session that the client has; keeps the one that it gets. Returns whether it resumed.
  bool resumes() {
    ChannelEnds ends(Kind::tls_to_client);
    ends.server = server;
    ends.peer.emplace(TlsPeer::client());
    SSL_CTX_set_max_proto_version(&ends.peer->context(), GetParam());
    if (session) SSL_set_session(&ends.peer->ssl(), session.get());
    ends.open();
    session.reset(SSL_get1_session(&ends.peer->ssl()));
    ends.peer->say_end();  // OpenSSL lets a client resume no session that broke off.
    return SSL_session_reused(&ends.peer->ssl()) == 1;
  }
  /// Returns the name of the key that has sealed the client's ticket.
  std::string key_name() const {
    const unsigned char* ticket = nullptr;
    std::size_t size = 0;
    SSL_SESSION_get0_ticket(session.get(), &ticket, &size);
    return size < 16 ? "none" : std::string(reinterpret_cast<const char*>(ticket), 16);
  }
  void look_after(metrics::Nanoseconds time) { server->look_after_keys(begun + time); }

  const std::shared_ptr<ServerContext> server =
      std::make_shared<ServerContext>(config::ServerTls{{test_certificate("local"), test_certificate("example")}});
  const metrics::Moment begun = std::chrono::steady_clock::now();
  SessionPtr session;
};

TEST_P(TicketKeysTest, SealForHalfADayAndOpenForTheOther) {
  EXPECT_FALSE(resumes());
  const auto first = key_name();
  ASSERT_NE(first, "none");
  const auto ticket_of_first = std::shared_ptr<SSL_SESSION>(SSL_SESSION_dup(session.get()), FreeSsl());
  const auto with_first = [&] {
    session.reset(SSL_SESSION_dup(ticket_of_first.get()));
    return resumes();
  };
  look_after(hours(11) + minutes(59));
  EXPECT_TRUE(resumes());
  EXPECT_EQ(key_name(), first);
  look_after(hours(12) + seconds(1));
  EXPECT_TRUE(with_first());
  const auto second = key_name();
  EXPECT_NE(second, first) << "a ticket of the key before is replaced";
  look_after(hours(23) + minutes(59));
  EXPECT_TRUE(with_first());
  EXPECT_EQ(key_name(), second);
  look_after(hours(24) + seconds(2));
  EXPECT_FALSE(with_first()) << "that key is forgotten";
  EXPECT_NE(key_name(), second);
}

TEST_P(TicketKeysTest, AreBothForgottenWhereNobodyLookedForADay) {
  EXPECT_FALSE(resumes());
  EXPECT_TRUE(resumes());
  look_after(hours(24));
  EXPECT_FALSE(resumes());
}

TEST_P(TicketKeysTest, OpenNoTicketThatWasAltered) {
  EXPECT_FALSE(resumes());
  const unsigned char* ticket = nullptr;
  std::size_t size = 0;
  SSL_SESSION_get0_ticket(session.get(), &ticket, &size);
  // Behind the key's name and the IV lies what is sealed, and its MAC behind that.
  ASSERT_GT(size, 16u + 16 + 32);
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, size / 2, size - 1}) {
    std::string altered(reinterpret_cast<const char*>(ticket), size);
    altered[at] = static_cast<char>(altered[at] ^ 1);
    ChannelEnds ends(Kind::tls_to_client);
    ends.server = server;
    ends.peer.emplace(TlsPeer::client());
    SSL_CTX_set_max_proto_version(&ends.peer->context(), GetParam());
    // OpenSSL has no way to change a session's ticket but by its form in ASN.1.
    unsigned char* form = nullptr;
    const int form_size = i2d_SSL_SESSION(session.get(), &form);
    std::string bytes(reinterpret_cast<char*>(form), static_cast<std::size_t>(form_size));
    OPENSSL_free(form);
    const auto place = bytes.find(std::string(reinterpret_cast<const char*>(ticket), size));
    ASSERT_NE(place, bytes.npos);
    bytes.replace(place, size, altered);
    const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
    const SessionPtr forged(d2i_SSL_SESSION(nullptr, &in, static_cast<long>(bytes.size())));
    ASSERT_NE(forged, nullptr);
    SSL_set_session(&ends.peer->ssl(), forged.get());
    ends.begin();
    ends.run();
    EXPECT_TRUE(ends.peer->is_open()) << "a full handshake follows: " << ends.peer->error;
    EXPECT_EQ(SSL_session_reused(&ends.peer->ssl()), 0) << at;
  }
}

std::string version_name(const testing::TestParamInfo<int>& info) {
  return info.param == TLS1_2_VERSION ? "Tls12" : "Tls13";
}
INSTANTIATE_TEST_SUITE_P(Versions, TicketKeysTest, testing::Values(TLS1_2_VERSION, TLS1_3_VERSION), version_name);

}  // namespace
}  // namespace weir::proxy::net::tls
