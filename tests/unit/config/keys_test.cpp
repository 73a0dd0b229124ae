// The file of clients' keys: what is taken, and what each error says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "config/keys.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::string hash_of(char digit) { return std::string(64, digit); }
std::string key(const std::string& name, char digit, const std::string& more = "") {
  return "[[key]]\nname = '" + name + "'\nsha256 = '" + hash_of(digit) + "'\n" + more;
}
std::vector<std::string> wrong(const std::string& toml) { return texts_of(load_keys(toml, "keys.toml")); }
std::vector<ClientKey> keys_in(const std::string& toml) {
  EXPECT_THAT(wrong(toml), SizeIs(0));
  auto result = load_keys(toml, "keys.toml");
  auto* const keys = std::get_if<std::vector<ClientKey>>(&result);
  return keys != nullptr ? std::move(*keys) : std::vector<ClientKey>();
}

TEST(Keys, AreReadWithAllThatTheyMayHave) {
  const auto keys =
      keys_in(key("alice", 'a') + key("batch", 'B', "models = ['m', 'org/n']\nmax_in_flight = 3\nshare = 0.5\n"));
  ASSERT_THAT(keys, SizeIs(2));
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[0].sha256[0], 0xaa);
  EXPECT_EQ(keys[0].sha256[31], 0xaa);
  EXPECT_TRUE(keys[0].models.empty());
  EXPECT_FALSE(keys[0].max_in_flight);
  EXPECT_EQ(keys[0].share, 1);
  EXPECT_EQ(keys[1].sha256[7], 0xbb) << "digits of either case";
  EXPECT_THAT(keys[1].models, ElementsAre("m", "org/n"));
  EXPECT_EQ(keys[1].max_in_flight, 3u);
  EXPECT_EQ(keys[1].share, 0.5);
}

TEST(Keys, HashIsReadDigitByDigit) {
  const auto keys = keys_in("[[key]]\nname = 'a'\nsha256 = '0123456789abcdef" + std::string(48, '0') + "'\n");
  ASSERT_THAT(keys, SizeIs(1));
  const std::array<std::uint8_t, 9> begin{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0};
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), keys[0].sha256.begin()));
}

TEST(Keys, ErrorsComeAllAtOnceWithTheirPlaceAndNoHash) {
  const auto errors = wrong(
      "[[key]]\nname = 'a b'\nsha256 = 's3cret'\nshare = 0\nmax_in_flight = 0\n"
      "[[key]]\nmodels = []\nmodel = 's3cret'\n" +
      key("x", 'a') + key("x", 'a', "models = ['m', 'm', '']\n") + "keys = 1\n[limits]\n");
  EXPECT_THAT(
      errors,
      ElementsAre(StartsWith("keys.toml:2:8: [[key]] name = \"a b\": "),
                  "keys.toml:3:10: [[key]] sha256: must be the SHA-256 of the key in 64 hex digits, as weir key "
                  "new and weir key hash print it, and not the key",
                  StartsWith("keys.toml:4:9: [[key]] share = 0: must be a number from 0.1 to 10"),
                  StartsWith("keys.toml:5:17: [[key]] max_in_flight = 0: must be a whole number from 1"),
                  StartsWith("keys.toml:6:1: [[key]]: name is missing; "),
                  StartsWith("keys.toml:6:1: [[key]]: sha256 is missing; weir key new NAME makes"),
                  StartsWith("keys.toml:7:10: [[key]] models = []: names no model; "),
                  "keys.toml:8:1: [[key]] model: unknown key; did you mean models?",
                  StartsWith("keys.toml:13:8: [[key]] name = \"x\": is taken in line 10; names are unique"),
                  StartsWith("keys.toml:14:10: [[key]] sha256: is that of the key in line 11 as well"),
                  StartsWith("keys.toml:15:16: [[key]] models = \"m\": is in this list twice"),
                  StartsWith("keys.toml:15:21: [[key]] models = \"\": "),
                  StartsWith("keys.toml:16:1: [[key]] keys: unknown key"),
                  StartsWith("keys.toml:17:2: limits: unknown key")));
  EXPECT_THAT(errors, testing::Each(AllOf(Not(HasSubstr("s3cret")), Not(HasSubstr("aaaa")))));
}

TEST(Keys, NoHashIsThatOfNothingOrOfAWrongLength) {
  for (const auto& hash :
       {std::string("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), std::string(63, 'a'),
        std::string(65, 'a'), std::string(64, 'g'), std::string(), std::string(63, 'a') + ' '}) {
    EXPECT_THAT(wrong("[[key]]\nname = 'a'\nsha256 = '" + hash + "'\n"),
                ElementsAre(StartsWith("keys.toml:3:10: [[key]] sha256: ")))
        << hash;
  }
}

// Somebody writes the key or its hash where something else belongs.
TEST(Keys, NeitherAKeyNorAHashIsShownWhereverItStands) {
  const std::string hash = "0123456789abcdefABCDEF9876543210fedcba0123456789abcdef0123456789";
  const std::string secret = "weir-0123456789_abcdefghijklmnopq-ABCDEFGHIJKLMN";
  ASSERT_EQ(hash.size(), 64u);
  ASSERT_EQ(secret.size(), 48u);
  const struct {
    std::string toml, begin;
  } rows[]{
      {hash + " = 'alice'\n", "keys.toml:4:1: [[key]] 01234567...: unknown key"},
      {"'" + secret + "' = 'alice'\n", "keys.toml:4:1: [[key]] weir-...: unknown key"},
      {key("b", 'b') + "SHA_" + hash + " = 1\n", "keys.toml:7:1: [[key]] SHA_01234567...: unknown key"},
      {key("b", 'b') + "models = ['" + hash + "', '" + hash + "']\n",
       "keys.toml:7:79: [[key]] models = \"01234567...\": is in this list twice"},
      {key(hash, 'b'), "keys.toml:5:8: [[key]] name = \"01234567...\": looks like a key or its hash"},
      {key(secret, 'b'), "keys.toml:5:8: [[key]] name = \"weir-...\": looks like a key or its hash"},
      {key(hash + hash, 'b'), "keys.toml:5:8: [[key]] name = \"01234567...\": must be a name"},
      {key(secret + " ", 'b'), "keys.toml:5:8: [[key]] name = \"weir-... \": must be a name"},
      {"[" + hash + "]\n[" + hash + "]\n", "keys.toml:5:"},
      {hash + "\n", "keys.toml:4:"},
      {hash + " = " + secret + "\n", "keys.toml:4:"},
  };
  for (const auto& [toml, begin] : rows) {
    const auto errors = wrong(key("a", 'a') + toml);
    EXPECT_THAT(errors, ElementsAre(StartsWith(begin))) << toml;
    EXPECT_THAT(errors, testing::Each(AllOf(Not(HasSubstr("89abcdef")), Not(HasSubstr("abcdefg"))))) << toml;
  }
}

TEST(Keys, AModelIsShorterThanWhatARequestsModelIsCutTo) {
  EXPECT_THAT(keys_in(key("a", 'a', "models = ['" + std::string(127, 'm') + "']\n")), SizeIs(1));
  EXPECT_THAT(wrong(key("a", 'a', "models = ['" + std::string(128, 'm') + "']\n")), SizeIs(1));
}

TEST(Keys, AFileWithoutOneLetsNobodyInAndIsAnError) {
  for (const std::string toml : {"", "# nothing\n", "key = []\n"})
    EXPECT_THAT(wrong(toml),
                ElementsAre(AllOf(StartsWith("keys.toml: no [[key]] in the file"), HasSubstr("weir key new"))))
        << toml;
  EXPECT_THAT(wrong("key = 1\n"), ElementsAre(HasSubstr("must be a list of tables; write [[key]]")));
  EXPECT_THAT(wrong("[[key]\n"), ElementsAre(StartsWith("keys.toml:1:")));
}

class KeysOfSettings : public testing::Test {
 protected:
  std::string file(const std::string& content) const { return folder.file("keys.toml", content); }
  const Folder folder;
};

TEST_F(KeysOfSettings, AreThoseOfTheFileThatIsNamed) {
  const auto path = file(key("alice", 'a'));
  const auto settings = settings_in("server.api_keys = '" + path + "'\n" + one_pool);
  EXPECT_EQ(settings.server.api_keys, path);
  ASSERT_THAT(settings.server.keys, SizeIs(1));
  EXPECT_EQ(settings.server.keys[0].name, "alice");
  EXPECT_TRUE(settings_in(one_pool).server.keys.empty());
}

TEST_F(KeysOfSettings, KeepPrefixesApart) {
  const auto isolation = [](const std::string& toml) { return settings_in(toml).pools.at(0).prefix_isolation; };
  EXPECT_EQ(isolation("server.api_keys = '" + file(key("alice", 'a')) + "'\n" + one_pool), PrefixIsolation::key);
  EXPECT_EQ(isolation(one_pool), PrefixIsolation::none);
}

TEST_F(KeysOfSettings, ErrorsOfBothFilesComeTogether) {
  const auto path = file(key("alice", 'a', "share = 0\n"));
  EXPECT_THAT(
      errors_in("server.api_keys = '" + path + "'\nserver.threads = -1\n" + one_pool),
      ElementsAre(StartsWith("weir.toml:2:18: [server] threads = -1"), StartsWith(path + ":4:9: [[key]] share = 0")));
}

TEST_F(KeysOfSettings, WhyTheFileCannotBeReadIsSaid) {
  const struct {
    std::string path, why;
  } rows[]{{"/nowhere/keys.toml", "cannot read this file: No such file or directory; "},
           {folder.path.string(), "cannot read this file: it is a directory; name the file in it, such as \"" +
                                      folder / "keys.toml" + "\"; "},
           {"/dev/zero", "cannot read this file: it is a device; write the keys to a file and name that; "},
           {"-", "cannot read this file: standard input is not read; "}};
  for (const auto& [path, why] : rows)
    EXPECT_THAT(errors_in("server.api_keys = '" + path + "'\n" + one_pool),
                ElementsAre(AllOf(HasSubstr("[server] api_keys = "), HasSubstr(why), HasSubstr("weir key new NAME"))));
  EXPECT_THAT(errors_in("server.api_keys = ''\n" + one_pool), SizeIs(1));
}

TEST_F(KeysOfSettings, DoNotGoWithAnOpenDoor) {
  const auto path = file(key("alice", 'a'));
  EXPECT_THAT(errors_in("server.open = true\nserver.api_keys = '" + path + "'\n" + one_pool),
              ElementsAre(StartsWith("weir.toml:1:15: [server] open = true: says that everyone may use the replicas")));
  EXPECT_THAT(errors_in("server.open = false\nserver.api_keys = '" + path + "'\n" + one_pool), SizeIs(0));
}

}  // namespace

// The shape of a key or a hash, and what is left of it in a text.

namespace {

const std::string hash = "0123456789abcdefABCDEF9876543210fedcba0123456789abcdef0123456789";
const std::string whole_key = "weir-0123456789_abcdefghijklmnopq-ABCDEFGHIJKLMN";

TEST(KeyShape, IsThatOfAWholeKeyOrHash) {
  EXPECT_TRUE(looks_like_key_or_hash(hash));
  EXPECT_TRUE(looks_like_key_or_hash(whole_key));
  for (const auto& other : {hash + "0", hash.substr(1), hash.substr(1) + "g", whole_key + "0", whole_key.substr(1),
                            whole_key.substr(0, 47), "Weir-" + whole_key.substr(5), "weir-" + whole_key.substr(6) + "=",
                            std::string("alice"), std::string("weir-frontend"), std::string()})
    EXPECT_FALSE(looks_like_key_or_hash(other)) << other;
}

TEST(KeyShape, IsCutWhereverItStands) {
  const struct {
    std::string text, shown;
  } rows[]{
      {"", ""},
      {"a name", "a name"},
      {hash, "01234567..."},
      {whole_key, "weir-..."},
      {"x = \"" + hash + "\": " + whole_key + ".", "x = \"01234567...\": weir-...."},
      {hash + hash, "01234567..."},
      {hash + "...\"", "01234567...\""},
      {"z" + hash + "z", "z01234567...z"},
      {"z" + whole_key + " " + whole_key, "zweir-... weir-..."},
      {"weir-" + hash, "weir-..."},
      {hash.substr(0, 32), "01234567..."},
      {hash.substr(0, 31), hash.substr(0, 31)},
      {whole_key.substr(0, 5 + 32), "weir-..."},
      {whole_key.substr(0, 5 + 31), whole_key.substr(0, 5 + 31)},
      {"ab" + whole_key, "abweir-..."},
  };
  for (const auto& [text, shown] : rows) EXPECT_EQ(without_keys_and_hashes(text), shown);
}

}  // namespace

// ${NAME} in settings. What comes from the environment may be a secret, so no error shows it.

namespace {

class Environment : public testing::Test {
 protected:
  Environment() {
    ::setenv("WEIR_TEST_A", "one", 1);
    ::setenv("WEIR_TEST_EMPTY", "", 1);
    ::setenv("WEIR_TEST_DOLLAR", "a$", 1);
    ::setenv("WEIR_TEST_NESTED", "${WEIR_TEST_A}", 1);
    ::setenv("WEIR_TEST_SECRET", "s3cret value", 1);
    ::unsetenv("WEIR_TEST_NONE");
  }
  ~Environment() override {
    for (const char* const name :
         {"WEIR_TEST_A", "WEIR_TEST_EMPTY", "WEIR_TEST_DOLLAR", "WEIR_TEST_NESTED", "WEIR_TEST_SECRET"})
      ::unsetenv(name);
  }
  /// Returns what becomes of this text, which the name of the request log has here.
  static std::string read(const std::string& text) {
    return settings_in("log.requests = '" + text + "'\n" + one_pool).log.requests;
  }
};

TEST_F(Environment, StandsForAValueOrAPartOfIt) {
  EXPECT_EQ(read("${WEIR_TEST_A}"), "one");
  EXPECT_EQ(read("x-${WEIR_TEST_A}-${WEIR_TEST_A}.log"), "x-one-one.log");
  EXPECT_EQ(read("a${WEIR_TEST_EMPTY}b"), "ab");
  EXPECT_EQ(read("${WEIR_TEST_EMPTY}"), "") << "a variable without a value is set all the same";
}

TEST_F(Environment, OnlyADollarBeforeABraceIsSpecial) {
  for (const std::string text : {"", "$", "$$", "a$b", "$WEIR_TEST_A", "$ {WEIR_TEST_A}", "{WEIR_TEST_A}", "$(x)", "}"})
    EXPECT_EQ(read(text), text);
  EXPECT_EQ(read("$${WEIR_TEST_A}"), "${WEIR_TEST_A}");
  EXPECT_EQ(read("$$${WEIR_TEST_A}"), "$${WEIR_TEST_A}");
  EXPECT_EQ(read("$${"), "${");
  EXPECT_EQ(read("${WEIR_TEST_A}$${x}"), "one${x}");
}

TEST_F(Environment, WhatComesInIsTakenAsItIs) {
  EXPECT_EQ(read("${WEIR_TEST_NESTED}"), "${WEIR_TEST_A}");
  EXPECT_EQ(read("${WEIR_TEST_DOLLAR}${WEIR_TEST_A}"), "a$one") << "its dollar makes no escape of what follows";
}

TEST_F(Environment, StandsInEveryStringThereIs) {
  const auto settings = settings_in(
      "server.paths = ['/a', '/${WEIR_TEST_A}']\n[[pool]]\nname = 'p-${WEIR_TEST_A}'\nmodels = '${WEIR_TEST_A}'\n"
      "[pool.health]\npath = '/${WEIR_TEST_A}'\n[[pool.replica]]\nname = 'r'\nurl = 'http://${WEIR_TEST_A}:1'\n"
      "api_key = 'k-${WEIR_TEST_A}'\n");
  EXPECT_THAT(settings.server.paths, ElementsAre("/a", "/one"));
  ASSERT_EQ(settings.pools.size(), 1u);
  EXPECT_EQ(settings.pools[0].name, "p-one");
  EXPECT_THAT(settings.pools[0].models, ElementsAre("one"));
  EXPECT_EQ(settings.pools[0].health.path, "/one");
  EXPECT_EQ(settings.pools[0].replicas[0].url.host, "one");
  EXPECT_EQ(settings.pools[0].replicas[0].api_key, "k-one");
}

TEST_F(Environment, AVariableThatIsNotSetIsTheOnlyErrorOfItsValue) {
  EXPECT_THAT(errors_in("[server]\nlisten = ['${WEIR_TEST_NONE}', 'x']\n[[pool]]\nname = 'p'\n[[pool.replica]]\nname = "
                        "'r'\nurl = 'http://${WEIR_TEST_NONE}:${WEIR_TEST_A}/'\n"),
              ElementsAre("weir.toml:2:11: [server] listen: the environment has no variable WEIR_TEST_NONE; set it "
                          "where weir is started, or write the value here",
                          StartsWith("weir.toml:2:32: [server] listen = \"x\": "),
                          StartsWith("weir.toml:7:7: [[pool.replica]] url: the environment has no variable "
                                     "WEIR_TEST_NONE; ")));
}

TEST_F(Environment, ABraceThatNamesNoVariableIsAnErrorWithoutTheValue) {
  for (const std::string text : {"s3cret${", "s3cret${}", "s3cret${A B}", "s3cret${1A}", "s3cret${A-B}", "${s3cret"})
    EXPECT_THAT(errors_in(one_pool + "api_key = '" + text + "'\n"),
                ElementsAre(AllOf(StartsWith("weir.toml:7:11: [[pool.replica]] api_key: holds a \"${\" that names no"),
                                  Not(HasSubstr("s3cret")))))
        << text;
}

TEST_F(Environment, AnErrorShowsWhatStandsInTheFileAndNotWhatCameIn) {
  EXPECT_THAT(errors_in("log.level = '${WEIR_TEST_SECRET}'\n" + one_pool),
              ElementsAre(AllOf(StartsWith("weir.toml:1:13: [log] level = \"${WEIR_TEST_SECRET}\": "),
                                Not(HasSubstr("s3cret")))));
  EXPECT_THAT(errors_in(one_pool + "api_key = '${WEIR_TEST_SECRET}'\n"),
              ElementsAre(AllOf(StartsWith("weir.toml:7:11: [[pool.replica]] api_key: must be the replica's key"),
                                Not(HasSubstr("s3cret")))));
  EXPECT_THAT(errors_in("[[pool]]\nname = 'p'\n[[pool.replica]]\nname = 'r'\nurl = 'http://u:${WEIR_TEST_SECRET}@h'\n"),
              ElementsAre(AllOf(HasSubstr("url = \"http://***@h\": "), Not(HasSubstr("s3cret")))));
}

TEST_F(Environment, DoesNotReachTheKeysOfTables) {
  EXPECT_THAT(errors_in("'${WEIR_TEST_SECRET}' = 1\n" + one_pool),
              ElementsAre(AllOf(HasSubstr("\"${WEIR_TEST_SECRET}\": unknown key"), Not(HasSubstr("s3cret")))));
}

}  // namespace

// How large a file of settings or of keys may be, and who may read what commands write.

namespace {

TEST(TextFile, HasAtMostItsKindsMebibytes) {
  const Folder folder;
  for (const auto& [kind, mib] : {std::pair{file_of_settings, 1u}, std::pair{file_of_keys, 16u}}) {
    const std::string most(std::size_t{mib} * 1024 * 1024, '#');
    EXPECT_TRUE(std::get<std::string>(read_text_file(folder.file("text", most), kind)) == most);
    EXPECT_EQ(std::get<Problem>(read_text_file(folder.file("text", most + '#'), kind)).text,
              "it is larger than " + std::to_string(mib) + " MiB");
  }
}

TEST(PrivateFile, IsItsOwnersAloneUnlessItIsThereAndNeverWaitedFor) {
  const Folder folder;
  const auto mode_of = [](const std::string& path) {
    struct stat found{};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return found.st_mode & 0777u;
  };
  const auto before = ::umask(0);
  const auto open = folder.file("open", "text"), made = open + "-made", pipe = open + "-pipe", link = open + "-link";
  ASSERT_EQ(::chmod(open.c_str(), 0644), 0);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::symlink((open + "-linked").c_str(), link.c_str()), 0);
  for (const auto& path : {made, open, pipe, link, open + "/nowhere"}) begin_private(path);
  ::umask(before);
  EXPECT_EQ(mode_of(made), 0600u);
  EXPECT_EQ(mode_of(link), 0600u);
  EXPECT_EQ(mode_of(open), 0644u);
  EXPECT_EQ(std::get<std::string>(read_text_file(open, file_of_keys)), "text");
}

}  // namespace
}  // namespace weir::config
