// A context names the files that it cannot use, and is made anew only where the settings or their files change.
#include "proxy/net/tls/context.hpp"

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
    end = std::min(end, std::chrono::system_clock::time_point(std::chrono::hours(24 * days)) +
                            std::chrono::seconds(seconds));
  }
  EXPECT_EQ(context.ends(), end);
}

}  // namespace
}  // namespace weir::proxy::net::tls
