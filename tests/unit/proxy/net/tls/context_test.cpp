// What a context says of files that it cannot use; and of what it is, while the settings say it is what it was.
#include "proxy/net/tls/context.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/proxy/net/tls/tls_peer.hpp"

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
  EXPECT_EQ(context.certificate_for("example.test"), 1u);
  EXPECT_EQ(context.certificate_for(".example.test"), 0u);
  EXPECT_EQ(context.certificate_for("*.example.test"), 1u);
  EXPECT_EQ(context.certificate_for("localhost"), 0u);
  EXPECT_EQ(context.certificate_for(""), 0u);
}

}  // namespace
}  // namespace weir::proxy::net::tls
