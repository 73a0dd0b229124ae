// A context names the files that it cannot use, and is made anew only where the settings or their files change.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "proxy/net/tls/context.hpp"
#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

config::Settings settings_of(const config::ReplicaTls& tls) {
  config::Settings settings;
  config::Pool pool;
  config::Replica replica;
  replica.name = "gpu0";
  replica.url.tls = true;
  replica.tls = tls;
  pool.replicas.push_back(replica);
  settings.pools.push_back(pool);
  return settings;
}

template <class Make>
std::string error_of(const Make& make) {
  try {
    make();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Contexts, NameTheKeyAndTheFileThatCannotBeUsed) {
  config::Settings settings;
  settings.server.tls =
      config::ServerTls{{test_certificate("local"), {test_file("local.pem"), test_file("exact.key")}}};
  EXPECT_EQ(error_of([&] { Contexts(settings, {}); }),
            "[[server.tls.more]] key = \"" + test_file("exact.key") +
                "\": does not belong to the first certificate of cert; give the key with which that was made");
  config::ReplicaTls tls;
  tls.ca = test_file("local.key");
  EXPECT_EQ(error_of([&] { Contexts(settings_of(tls), {}); }),
            "replica \"gpu0\" tls ca = \"" + test_file("local.key") +
                "\": the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)");
}

TEST(Contexts, StayWhatTheyWereWhileTheirFilesDo) {
  config::ReplicaTls tls;
  tls.ca = test_file("ca.pem");
  const auto settings = settings_of(tls);
  const Contexts first(settings, {}), second(settings, first);
  EXPECT_NE(first.client(tls), nullptr);
  EXPECT_EQ(first.client(tls), second.client(tls));
  auto other = tls;
  other.verify = false;
  EXPECT_EQ(second.client(other), nullptr);
  const Contexts third(settings_of(other), second);
  EXPECT_NE(third.client(other), second.client(tls));
  EXPECT_EQ(third.server(), nullptr);
}

TEST(Contexts, AreMadeAnewWhereTheSameFileHoldsAnotherAuthority) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("weir_ca_" + std::to_string(::getpid()));
  config::ReplicaTls tls;
  tls.ca = path.string();
  const auto holds = [&](const std::string& file) {
    std::filesystem::copy_file(test_file(file), path, std::filesystem::copy_options::overwrite_existing);
  };
  holds("ca.pem");
  const Contexts first(settings_of(tls), {}), second(settings_of(tls), first);
  holds("stranger.pem");
  const Contexts third(settings_of(tls), second);
  holds("ca.pem");
  const Contexts fourth(settings_of(tls), third);
  std::filesystem::remove(path);
  EXPECT_EQ(first.client(tls), second.client(tls));
  EXPECT_NE(second.client(tls), third.client(tls));
  EXPECT_NE(third.client(tls), fourth.client(tls));
}

TEST(Target, BeginsNothingWithoutANameThatCanBeChecked) {
  const auto context = std::make_shared<const ClientContext>(config::ReplicaTls{});
  EXPECT_NE(Target(context, "localhost").begin(), nullptr);
  EXPECT_NE(Target(context, "::1").begin(), nullptr);
  EXPECT_EQ(Target(context, "").begin(), nullptr) << "OpenSSL takes an empty name for none to check";
  EXPECT_EQ(Target(context, std::string("local\0host", 10)).begin(), nullptr);
  config::ReplicaTls off;
  off.verify = false;
  EXPECT_NE(Target(std::make_shared<const ClientContext>(off), "").begin(), nullptr) << "there is nothing to check";
}

TEST(Target, TakesAWildcardForAWholeLabelAlone) {
  const Target target(std::make_shared<const ClientContext>(config::ReplicaTls{}), "localhost");
  const auto ssl = target.begin();
  const auto flags = X509_VERIFY_PARAM_get_hostflags(SSL_get0_param(ssl.get()));
  EXPECT_NE(flags & X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, 0u) << "a*.example.test is for no host";
}

TEST(Contexts, AreNotMadeForReplicasThatSpeakPlainly) {
  auto settings = settings_of({});
  settings.pools[0].replicas[0].url.tls = false;
  EXPECT_EQ(Contexts(settings, {}).client({}), nullptr);
}

TEST(ServerContext, ChoosesAnExactNameBeforeAWildcardAndElseTheFirst) {
  const ServerContext context(
      config::ServerTls{{test_certificate("local"), test_certificate("example"), test_certificate("exact")}});
  EXPECT_EQ(context.certificate_for("exact.example.test"), 2u);
  EXPECT_EQ(context.certificate_for("EXACT.example.test"), 2u);
  EXPECT_EQ(context.certificate_for("other.example.test"), 1u);
  EXPECT_EQ(context.certificate_for("Other.Example.Test"), 1u);
  EXPECT_EQ(context.certificate_for("example.test"), 1u);
  EXPECT_EQ(context.certificate_for("a.b.example.test"), 0u) << "a wildcard stands for one label";
  EXPECT_EQ(context.certificate_for(".example.test"), 0u);
  EXPECT_EQ(context.certificate_for("*.example.test"), 1u);
  EXPECT_EQ(context.certificate_for("localhost"), 0u);
  EXPECT_EQ(context.certificate_for(""), 0u);
}

TEST(ServerContext, TellsWhenTheFirstCertificateEnds) {
  const ServerContext context(config::ServerTls{{test_certificate("local"), test_certificate("exact")}});
  EXPECT_GT(context.ends(), std::chrono::system_clock::now());
  auto end = std::chrono::system_clock::time_point::max();
  for (const auto* name : {"local", "exact"}) {
    std::ifstream file(test_file(std::string(name) + ".pem"));
    const std::string pem{std::istreambuf_iterator<char>(file), {}};
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                        &BIO_free);
    const std::unique_ptr<X509, decltype(&X509_free)> one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr),
                                                          &X509_free);
    ASSERT_NE(one, nullptr);
    // OpenSSL's own difference of times, in days and seconds.
    int days = 0, seconds = 0;
    const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> epoch(ASN1_TIME_set(nullptr, 0), &ASN1_TIME_free);
    ASSERT_EQ(ASN1_TIME_diff(&days, &seconds, epoch.get(), X509_get0_notAfter(one.get())), 1);
    end = std::min(
        end, std::chrono::system_clock::time_point(std::chrono::hours(24 * days)) + std::chrono::seconds(seconds));
  }
  EXPECT_EQ(context.ends(), end);
}

}  // namespace

// How long a session ticket opens, by a clock that the test moves.

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
