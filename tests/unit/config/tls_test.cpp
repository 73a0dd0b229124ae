// TLS in the settings: what is read, and that a file which cannot be used is an error at its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/config/load_text.hpp"

namespace weir::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string file(const std::string& name) { return std::string(WEIR_TEST_DATA) + "/tls/" + name; }

std::string pair_of(const std::string& cert, const std::string& key) {
  return "cert = \"" + file(cert) + "\"\nkey = \"" + file(key) + "\"\n";
}

/// A pool whose replica speaks TLS, in five lines, and what follows in its table.
std::string secure_pool(const std::string& more) {
  return "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"https://gpu0:8443\"\n" + more;
}

TEST(ServerTls, IsReadWithAllItsCertificates) {
  const auto settings = settings_in(one_pool + "[server.tls]\n" + pair_of("local.pem", "local.key") +
                                    "[[server.tls.more]]\n" + pair_of("exact.pem", "exact.key"));
  const std::vector<Certificate> expected{{file("local.pem"), file("local.key")},
                                          {file("exact.pem"), file("exact.key")}};
  ASSERT_TRUE(settings.server.tls);
  EXPECT_EQ(settings.server.tls->certificates, expected);
  EXPECT_FALSE(settings_in(one_pool).server.tls);
}

struct Refused {
  std::string cert, key, error;
};

class RefusedFiles : public testing::TestWithParam<Refused> {};

TEST_P(RefusedFiles, AreAnErrorAtTheirLine) {
  const auto& [cert, key, error] = GetParam();
  const bool of_key = error.starts_with("key");
  const auto value = file(of_key ? key : cert);
  const std::string said = error.substr(error.find(' ') + 1);
  EXPECT_THAT(errors_in(one_pool + "[server.tls]\n" + pair_of(cert, key)),
              ElementsAre("weir.toml:" + std::string(of_key ? "9:7" : "8:8") + ": [server.tls] " +
                          (of_key ? "key" : "cert") + " = \"" + value + "\": " + said));
  // The same files as weir's own certificate for a replica.
  EXPECT_THAT(errors_in(secure_pool("[pool.replica.tls]\n" + pair_of(cert, key))),
              ElementsAre("weir.toml:" + std::string(of_key ? "8:7" : "7:8") + ": [[pool.replica]] tls " +
                          (of_key ? "key" : "cert") + " = \"" + value + "\": " + said));
}

const std::string give = "; give the path of a file that weir may read, from the root or from where weir is started";

INSTANTIATE_TEST_SUITE_P(
    Tls, RefusedFiles,
    testing::Values(
        Refused{"none.pem", "local.key", "cert cannot read this file: No such file or directory" + give},
        Refused{"local.pem", "none.key", "key cannot read this file: No such file or directory" + give},
        Refused{".", "local.key", "cert cannot read this file: it is no regular file" + give},
        Refused{"local.key", "local.key", "cert the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"},
        Refused{"local.pem", "local.pem", "key the file holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"},
        Refused{"local.pem", "encrypted.key",
                "key the key is encrypted, and nobody is asked for a pass phrase; write it without one (`openssl pkey "
                "-in FILE -out NEW`) where only weir can read it"},
        Refused{"local.pem", "exact.key",
                "key does not belong to the first certificate of cert; give the key with which that was made"},
        Refused{"short.pem", "short.key", "cert OpenSSL refuses the certificate: ee key too small"}));

TEST(ServerTls, NeedsACertificateAndItsKey) {
  EXPECT_THAT(errors_in(one_pool + "[server.tls]\n"),
              ElementsAre("weir.toml:7:1: [server.tls]: cert and key are missing; name the files of a certificate and "
                          "its key in PEM, such as cert = \"weir.pem\", key = \"weir.key\""));
  EXPECT_THAT(
      errors_in(one_pool + "[server.tls]\ncert = \"" + file("local.pem") + "\"\n"),
      ElementsAre("weir.toml:7:1: [server.tls]: key is missing; a certificate and its key are two files in PEM, "
                  "such as cert = \"weir.pem\", key = \"weir.key\""));
  EXPECT_THAT(errors_in(one_pool + "[server]\ntls = true\n"),
              ElementsAre("weir.toml:8:7: [server] tls = true: must be a table; write [server.tls] on a line of its "
                          "own"));
  EXPECT_THAT(errors_in(one_pool + "[server.tls]\n" + pair_of("local.pem", "local.key") + "[[server.tls.more]]\n" +
                        pair_of("exact.pem", "local.key") + "kee = 1\n"),
              ElementsAre(StartsWith("weir.toml:12:7: [[server.tls.more]] key = "),
                          "weir.toml:13:1: [[server.tls.more]] kee: unknown key; did you mean key?"));
}

TEST(ReplicaTls, IsRead) {
  const auto settings =
      settings_in(secure_pool("tls = { ca = \"" + file("ca.pem") + "\", server_name = \"gpu\", cert = \"" +
                              file("client.pem") + "\", key = \"" + file("client.key") + "\" }\n"));
  const auto& replica = settings.pools.at(0).replicas.at(0);
  EXPECT_TRUE(replica.url.tls);
  EXPECT_EQ(replica.tls.ca, file("ca.pem"));
  EXPECT_EQ(replica.tls.server_name, "gpu");
  EXPECT_TRUE(replica.tls.verify);
  EXPECT_EQ(replica.tls.own, (Certificate{file("client.pem"), file("client.key")}));
  EXPECT_FALSE(settings_in(secure_pool("tls = { verify = false }\n")).pools.at(0).replicas.at(0).tls.verify);
}

TEST(ReplicaTls, IsRefusedWhereItHasNoUse) {
  EXPECT_THAT(errors_in("[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"http://gpu0\"\n"
                        "tls = { verify = true }\n"),
              ElementsAre("weir.toml:6:7: [[pool.replica]] tls: the url of this replica does not say https, so that "
                          "nothing would be encrypted; write https:// there, or leave tls out"));
  EXPECT_THAT(errors_in(secure_pool("tls = { ca = \"" + file("ca.pem") + "\", verify = false }\n")),
              ElementsAre(testing::EndsWith("tls verify = false: means that no certificate is checked, so that ca has "
                                            "no use; leave one of them out")));
}

TEST(ReplicaTls, SaysWhatIsWrongWithAnAuthoritysFile) {
  EXPECT_THAT(errors_in(secure_pool("tls = { ca = \"" + file("local.key") + "\" }\n")),
              ElementsAre("weir.toml:6:14: [[pool.replica]] tls ca = \"" + file("local.key") +
                          "\": the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"));
}

TEST(UnixReplica, IsReadAndTakesNoExpansion) {
  const std::string pool = "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"unix:/run/a.sock\"\n";
  EXPECT_EQ(settings_in(pool).pools.at(0).replicas.at(0).url.unix_path, "/run/a.sock");
  EXPECT_THAT(
      errors_in(pool + "expand = true\n"),
      ElementsAre("weir.toml:6:10: [[pool.replica]] expand = true: makes a replica of each address of the url's "
                  "host, and the url names a socket; leave this out"));
  EXPECT_THAT(errors_in(pool + "[[pool.replica]]\nname = \"gpu1\"\nurl = \"unix:/run/a.sock\"\n").size(), 1u);
  EXPECT_EQ(
      settings_in(pool + "[[pool.replica]]\nname = \"gpu1\"\nurl = \"unix:/run/b.sock\"\n").pools.at(0).replicas.size(),
      2u);
}

TEST(Tls, TheGroupsOfTheKeyExchangeAreAListThatOpensslTakes) {
  const auto server = one_pool + "[server.tls]\n" + pair_of("local.pem", "local.key");
  EXPECT_EQ(settings_in(server).server.tls->groups, "") << "weir's own list";
  EXPECT_EQ(settings_in(server + "groups = \"P-256:X448\"\n").server.tls->groups, "P-256:X448");
  EXPECT_EQ(settings_in(secure_pool("tls = { groups = \"P-256\" }\n")).pools.at(0).replicas.at(0).tls.groups, "P-256");
  const auto refused = AllOf(HasSubstr("groups = \"P-256:nonsense\": this OpenSSL ("),
                             HasSubstr("does not take the list"), HasSubstr("\"X25519:P-256:P-384\""));
  EXPECT_THAT(errors_in(server + "groups = \"P-256:nonsense\"\n"), ElementsAre(refused));
  EXPECT_THAT(errors_in(secure_pool("tls = { groups = \"P-256:nonsense\" }\n")), ElementsAre(refused));
}

}  // namespace
}  // namespace weir::config
