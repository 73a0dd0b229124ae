// A bad file gets exact messages, at exact places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "config/address.hpp"
#include "config/load.hpp"
#include "load_text.hpp"
#include "tests/golden.hpp"

namespace weir::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(SettingsErrors, ReadAsTheirGoldenFile) {
  tests::expect_golden_answers("settings_errors.txt", {{"POOL", one_pool}, {"ROLLOUT", old_and_new}},
                               [](const std::string& toml) {
                                 auto errors = errors_in(toml);
                                 if (errors.empty()) errors = {"loads"};
                                 return errors;
                               });
}

TEST(SettingsErrors, OfATextThatIsNoUtf8SayHowToSaveIt) {
  EXPECT_THAT(errors_in("a = \"\xff\""),
              ElementsAre("weir.toml:1:5: syntax error: Encountered invalid utf-8 sequence; save the file as UTF-8"));
}

TEST(SettingsErrors, OnlyAFileHoldsSettings) {
  const std::string instead = "write the settings to a file and name that";
  EXPECT_THAT(texts_of(load_file("-")),
              ElementsAre("-: cannot read settings file: standard input is not read; " + instead));
  EXPECT_THAT(texts_of(load_file("/dev/zero")),
              ElementsAre("/dev/zero: cannot read settings file: it is a device; " + instead));
  EXPECT_THAT(texts_of(load_file("/dev/null")),
              ElementsAre("/dev/null: cannot read settings file: it is a device; " + instead));
}

TEST(SettingsErrors, KeysOfEarlierVersionsSayWhatHoldsNow) {
  const auto file_with = [](std::string_view table, const std::string& line) {
    if (table == "replica") return one_pool + line;
    if (table == "pool") return "[[pool]]\nname = 'p'\n" + line + "replica = [{name = 'r', url = 'http://h'}]\n";
    if (table == "shadow" || table == "rollout") return one_pool + "[[" + std::string(table) + "]]\n" + line;
    return std::string(table) + '.' + line + one_pool;
  };
  for (const auto& [table, key, now] : gone_keys) {
    const auto errors = errors_in(file_with(table, std::string(key) + " = 1\n"));
    EXPECT_THAT(errors, testing::Contains(
                            HasSubstr("] " + std::string(key) + ": is no setting any more; " + std::string(now))));
    EXPECT_THAT(errors, Not(testing::Contains(HasSubstr("unknown key"))));
  }
  EXPECT_THAT(errors_in("[engine.names]\nrunning = 'x'\n" + one_pool),
              ElementsAre("weir.toml:1:9: [engine] names: is no setting any more; weir knows the names of the figures "
                          "of all engines"));
  EXPECT_THAT(errors_in("[[pool]]\nname = 'p'\nhealth.up_after = 2\nreplica = [{name = 'r', url = 'http://h'}]\n"),
              ElementsAre(HasSubstr("[pool.health] up_after: is no setting any more; one passed probe")));
}

TEST(SettingsErrors, ShowNoSecrets) {
  for (const auto& text :
       {one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://me:s3cret@gpu1'\n",
        one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://me:s3c/s3cret@gpu1:x'\n",
        "admin.token = 's3cret s3cret'\n" + one_pool, "server.listen = 'http://me:s3cret@h'\n" + one_pool,
        "'http://me:s3cret@h' = 1\n" + one_pool,
        one_pool + "[[shadow]]\nname = 's'\nof = 'chat'\ntwin = 'gpu0'\nexclude_keys = ['sk-s3cret']\n"
                   "replica = [{ name = 'c', url = 'http://a' }]\n"}) {
    const auto errors = errors_in(text);
    EXPECT_EQ(errors.size(), 1u) << text;
    for (const auto& error : errors) EXPECT_THAT(error, Not(HasSubstr("s3cret")));
  }
}

TEST(SettingsErrors, ShowNeitherAClientsKeyNorItsHashWhereverItStands) {
  const std::string key = "weir-s3cret6789_abcdefghijklmnopq-ABCDEFGHIJKLMN";
  const std::string hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  for (const auto& [secret, shown] : {std::pair(key, "weir-..."), {hash, "01234567..."}}) {
    for (const auto& text : {"log.level = '" + secret + "'\n" + one_pool, secret + " = 1\n" + one_pool,
                             one_pool + "[[slo]]\nname = 'fast'\npool = '" + secret + "'\nttft = 1\n"}) {
      const auto errors = errors_in(text);
      EXPECT_EQ(errors.size(), 1u) << text;
      for (const auto& error : errors)
        EXPECT_THAT(error, AllOf(HasSubstr(shown), Not(HasSubstr(secret.substr(0, 20)))));
    }
    EXPECT_THAT(errors_in("[[pool]]\nname = 'chat'\n" + secret + "\n"),
                ElementsAre(Not(HasSubstr(secret.substr(0, 20)))));
  }
}

TEST(SettingsErrors, StayShortAndOnOneLine) {
  const auto quoted = [](const std::string& text) {
    const auto errors = errors_in("log.level = \"" + text + "\"\n" + one_pool);
    return errors.empty() ? "" : errors[0].substr(std::string("weir.toml:1:13: [log] level = ").size());
  };
  EXPECT_TRUE(quoted(std::string(100, 'x')).starts_with('"' + std::string(80, 'x') + "...\": must"));
  // The 80th byte is in the middle of a character of two.
  std::string umlauts = "x";
  for (int i = 0; i < 60; ++i) umlauts += "\xc3\xa4";
  EXPECT_TRUE(quoted(umlauts).starts_with('"' + umlauts.substr(0, 79) + "...\": must"));
  EXPECT_TRUE(quoted("\\u001b[31m\\u007f").starts_with("\"\\u001B[31m\\u007F\": must"));
}

TEST(SettingsErrors, FilesThatCannotBeReadSayWhy) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  folder.file("large.toml", std::string(1024 * 1024 + 1, '\n'));
  const std::pair<std::string, std::string> rows[] = {
      {"none.toml", "No such file or directory"},
      {".", "it is a directory; name the file in it, such as \"" + folder / "." + "/weir.toml\""},
      {"pipe", "it is a pipe; write the settings to a file and name that"},
      {"large.toml", "it is larger than 1 MiB"}};
  for (const auto& [name, why] : rows)
    EXPECT_THAT(texts_of(load_file(folder / name)), ElementsAre(folder / name + ": cannot read settings file: " + why));
  const auto wrong = folder.file("wrong.toml", "\nx = 1\n" + one_pool), good = folder.file("good.toml", one_pool);
  EXPECT_THAT(texts_of(load_file(wrong)), ElementsAre(testing::StartsWith(wrong + ":2:1: x: unknown key")));
  std::filesystem::create_symlink(good, folder / "link.toml");
  EXPECT_THAT(texts_of(load_file(good)), IsEmpty());
  EXPECT_THAT(texts_of(load_file(folder / "link.toml")), IsEmpty());
}

}  // namespace
}  // namespace weir::config
