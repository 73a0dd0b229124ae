// Replicas have keys. The tests show which are taken, and that no error of any kind shows one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "config/keys.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string keyed(const std::string& line) { return one_pool + line + "\n"; }
std::string key_of(const std::string& line) {
  const auto settings = settings_in(keyed(line));
  return settings.pools.empty() ? "no settings" : settings.pools[0].replicas[0].api_key;
}

TEST(ApiKey, IsTakenAsItStands) {
  EXPECT_EQ(key_of(""), "");
  EXPECT_EQ(key_of("api_key = 'sk-abc_123~!'"), "sk-abc_123~!");
  EXPECT_EQ(key_of("api_key = '" + std::string(4096, 'k') + "'"), std::string(4096, 'k'));
}

TEST(ApiKey, ComesFromAFileWithoutTheNewlineAtItsEnd) {
  Folder folder;
  for (const std::string content : {"sk-abc", "sk-abc\n", "sk-abc\r\n"})
    EXPECT_EQ(key_of("api_key_file = '" + folder.file(content) + "'"), "sk-abc") << content;
  EXPECT_EQ(key_of("api_key_file = '" + folder.file(std::string(4096, 'k') + "\r\n") + "'"), std::string(4096, 'k'));
}

TEST(ApiKey, IsNeverSaidByAnError) {
  Folder folder;
  const std::string long_key(5000, 's');
  for (const auto& line : std::vector<std::string>{
           "api_key = ''", "api_key = 's3cret s3cret'", "api_key = 'Bearer s3cret'", "api_key = \"s3cret\\u0007\"",
           "api_key = \"s3cret\\n\"", "api_key = 's3cr\xc3\xa4t-s3cret'", "api_key = 53", "api_key = ['s3cret']",
           "api_key = { value = 's3cret' }", "api_key = '" + long_key + "'"}) {
    EXPECT_THAT(
        errors_in(keyed(line)),
        ElementsAre("weir.toml:7:11: [[pool.replica]] api_key: must be the replica's key in quotes: 1 to 4096 "
                    "printable ASCII characters without blanks, and without the word \"Bearer\", which is added "
                    "where it is sent"))
        << line;
  }
  for (const auto& content :
       std::vector<std::string>{"", "\n", "s3cret\ns3cret", "s3cret\n\n", "s3cr\xc3\xa4t", "Bearer s3cret",
                                "s3cret\x01", std::string("s3cret\0", 7), long_key, std::string(4096, 's') + "\r\ns"}) {
    const auto errors = errors_in(keyed("api_key_file = '" + folder.file(content) + "'"));
    const bool empty = content.size() < 2;
    EXPECT_THAT(errors, ElementsAre(AllOf(StartsWith("weir.toml:7:16: [[pool.replica]] api_key_file: the file " +
                                                     std::string(empty ? "is empty; " : "holds something else; ")),
                                          HasSubstr("put the replica's key into it"), Not(HasSubstr("s3cr")),
                                          Not(HasSubstr("sss")))))
        << content;
  }
}

TEST(ApiKey, OfAFileThatCannotBeReadSaysWhyAndNotWhatStandsThere) {
  Folder folder;
  EXPECT_EQ(::mkfifo((folder / "s3cret-fifo").c_str(), 0600), 0);
  const struct {
    std::string written, why;
  } rows[]{{"'s3cret'", "cannot read this file: No such file or directory; give the path"},
           {"'" + (folder / ".") + "'", "cannot read this file: Is a directory; give the path"},
           {"'" + (folder / "s3cret-fifo") + "'", "cannot read this file: it is no regular file; give the path"},
           {"''", "must be the path of a file in quotes"},
           {"\"s3cret\\u0000\"", "must be the path of a file in quotes"},
           {"53", "must be the path of a file in quotes"}};
  for (const auto& row : rows)
    EXPECT_THAT(errors_in(keyed("api_key_file = " + row.written)),
                ElementsAre(AllOf(StartsWith("weir.toml:7:16: [[pool.replica]] api_key_file: " + row.why),
                                  Not(HasSubstr("s3cret")))));
}

TEST(ApiKey, IsOne) {
  Folder folder;
  const auto file = "api_key_file = '" + folder.file("s3cret") + "'";
  const auto blamed = StartsWith("weir.toml:8:16: [[pool.replica]] api_key_file: api_key is set as well");
  EXPECT_THAT(errors_in(keyed("api_key = 's3cret'\n" + file)), ElementsAre(AllOf(blamed, Not(HasSubstr("s3cret")))));
}

TEST(ApiKey, IsNotLentToStrangersUnawares) {
  Folder folder;
  const auto from_file = "api_key_file = '" + folder.file("s3cret") + "'";
  const std::string why =
      "would be used for everyone who reaches \"0.0.0.0:8080\", which is [server] listen in line 1; give clients keys "
      "of "
      "their own with api_keys in [server], listen on a loopback address such as \"127.0.0.1:8080\", or write open = "
      "true in [server] if everyone may use this replica";
  const std::string wide = "server.listen = ['127.0.0.1:80', '0.0.0.0:8080', '10.0.0.1:8080']\n";
  EXPECT_THAT(errors_in("server.listen = '0.0.0.0:8080'\n" + keyed("api_key = 's3cret'")),
              ElementsAre("weir.toml:8:11: [[pool.replica]] api_key: " + why));
  EXPECT_THAT(errors_in("server.listen = '0.0.0.0:8080'\n" + keyed(from_file)),
              ElementsAre("weir.toml:8:16: [[pool.replica]] api_key_file: " + why));
  EXPECT_THAT(errors_in(wide + keyed("api_key = 's3cret'")), testing::SizeIs(2))
      << "10.0.0.1 and 0.0.0.0 cannot both be listened on, and the key is lent: once";
  EXPECT_THAT(errors_in("server.open = true\nserver.listen = '0.0.0.0:8080'\n" + keyed("api_key = 's3cret'")),
              IsEmpty());
  EXPECT_THAT(errors_in("server.listen = '0.0.0.0:8080'\n" + one_pool), IsEmpty())
      << "without a key there is none to lend";
  EXPECT_THAT(errors_in("server.listen = ['127.0.0.9:1', '[::1]:1']\nmetrics.listen = '0.0.0.0:9090'\n" +
                        keyed("api_key = 's3cret'")),
              IsEmpty())
      << "no key is behind the metrics";
}

TEST(ApiKey, IsLentToClientsThatHaveKeysOfTheirOwn) {
  Folder folder;
  const auto keys = folder.file("[[key]]\nname = 'alice'\nsha256 = '" + std::string(64, 'a') + "'\n");
  EXPECT_THAT(
      errors_in("server.listen = '0.0.0.0:8080'\nserver.api_keys = '" + keys + "'\n" + keyed("api_key = 's3cret'")),
      IsEmpty());
  EXPECT_THAT(errors_in("server.listen = '0.0.0.0:8080'\nserver.api_keys = '/nowhere'\n" + keyed("api_key = 's3cret'")),
              ElementsAre(HasSubstr("[server] api_keys = \"/nowhere\": cannot read this file")))
      << "one error is enough";
}

TEST(AdminToken, IsReadAsAKeyIsAndNeverSaidByAnError) {
  Folder folder;
  EXPECT_EQ(settings_in(one_pool + "[admin]\ntoken = 't0ken'\n").admin.token, "t0ken");
  EXPECT_EQ(settings_in(one_pool + "[admin]\ntoken_file = '" + folder.file("t0ken\n") + "'\n").admin.token, "t0ken");
  EXPECT_EQ(settings_in(one_pool).admin.token, "");
  EXPECT_THAT(errors_in(one_pool + "[admin]\ntoken = 't0ken t0ken'\n"),
              ElementsAre(AllOf(StartsWith("weir.toml:8:9: [admin] token: must be the token of the admin listener in "
                                           "quotes: 1 to 4096"),
                                Not(HasSubstr("t0ken t0ken")))));
  EXPECT_THAT(errors_in(one_pool + "[admin]\ntoken = 't0ken'\ntoken_file = '" + folder.file("t0ken") + "'\n"),
              ElementsAre(AllOf(StartsWith("weir.toml:9:14: [admin] token_file: the secret is set beside it"),
                                Not(HasSubstr("t0ken")))));
}

TEST(ApiKey, IsNotSaidByErrorsOfSyntax) {
  for (const auto* line : {"api_key = 3-s3cret", "api_key = s3cret", "api_key = 's3cret", "api_key = \"s3cret",
                           "api_key = 's3cret' s3cret", "api_key = \"\\s3cret\"", "api_key s3cret",
                           "api_key = true3cret", "api_key = 0xs3cret", "api_key = 1979-05-27s3cret",
                           "api_key = ''s3cret''", "api_key = 's3cret'\napi_key = 's3cret'"})
    EXPECT_THAT(errors_in(keyed(line)), ElementsAre(Not(HasSubstr("s3cret")))) << line;
}

TEST(SecretFiles, AreThoseThatTheSettingsNameAndTheirOwnWhereASecretStandsThere) {
  Folder folder;
  const auto file = folder.file("sk-abc");
  EXPECT_THAT(settings_in(one_pool).secret_files, IsEmpty());
  EXPECT_THAT(settings_in(keyed("api_key_file = '" + file + "'")).secret_files, ElementsAre(file));
  EXPECT_THAT(settings_in(keyed("api_key = 'sk-abc'")).secret_files, ElementsAre("weir.toml"));
  EXPECT_THAT(settings_in(one_pool + "[admin]\ntoken = 'abc'\n").secret_files, ElementsAre("weir.toml"));
  ASSERT_EQ(::setenv("WEIR_TEST_SECRET", "sk-abc", 1), 0);
  EXPECT_THAT(settings_in(keyed("api_key = '${WEIR_TEST_SECRET}'")).secret_files, IsEmpty());
  ::unsetenv("WEIR_TEST_SECRET");
}

TEST(SecretFiles, ThatAnyUserMayReadOrAlterAreTold) {
  Folder folder;
  const auto file = folder.file("sk-abc");
  const auto directory = std::filesystem::path(file).parent_path();
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  const auto told = [&](mode_t mode) {
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return exposed_secrets({file, file + ".none"});
  };
  EXPECT_THAT(told(0600), IsEmpty());
  EXPECT_THAT(told(0640), IsEmpty()) << "the group may be weir's own";
  EXPECT_THAT(told(0644), ElementsAre(AllOf(StartsWith(file), HasSubstr("every user of this machine may read it"))));
  EXPECT_THAT(told(0666), ElementsAre(HasSubstr("may read and alter it")));
  ASSERT_EQ(::chmod(directory.c_str(), 0700), 0);
  EXPECT_THAT(told(0666), IsEmpty()) << "nobody else gets there";
}

}  // namespace
}  // namespace weir::config
