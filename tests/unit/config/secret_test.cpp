// ${NAME} in settings. What comes from the environment may be a secret, so no error shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "config/secret.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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
