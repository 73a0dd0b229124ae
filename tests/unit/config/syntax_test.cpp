// People make these mistakes of syntax. Each gets advice, and the advice helps.
#include "config/syntax.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct Told {
  std::string toml;
  std::string place;   ///< It is LINE:COLUMN.
  std::string advice;  ///< It stands behind toml++'s words; "" means nothing.
};

void expect_told(const std::vector<Told>& table) {
  for (const auto& [toml, place, advice] : table) {
    const auto errors = errors_in(toml);
    ASSERT_EQ(errors.size(), 1u) << toml;
    EXPECT_TRUE(errors[0].starts_with("weir.toml:" + place + ": syntax error")) << errors[0];
    if (advice.empty()) {
      EXPECT_THAT(errors[0], Not(HasSubstr(";"))) << toml;
    } else {
      EXPECT_THAT(errors[0], EndsWith("; " + advice)) << toml;
    }
  }
}

TEST(SettingsSyntax, MistakesThatPeopleMakeMost) {
  const std::string quotes =
      "text stands in quotes, and so do addresses and numbers with a unit; true and false do not";
  const std::string closing = "a text ends in the line in which it begins, with the same quote";
  const std::string list = "put a comma between the values of a list, and ] behind the last";
  const std::string behind = "nothing but a comment behind # may follow a value";
  const std::string once = "a table stands in the file once; each of several has two brackets, such as [[pool]]";
  const std::string header = "the header of a table stands alone in its line: [server], [[pool]]";
  const std::string line = "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #";
  const std::string twice = "it is there already; remove one, or write the header of the next table between them";
  const std::string escape = "in double quotes \\ begins an escape; write a path in single quotes or with /";
  expect_told({
      {"[[pool]]\nname = chat\n", "2:8", quotes},
      {"url = http://127.0.0.1:8001\n", "1:7", quotes},
      {"listen = 127.0.0.1:8080\n", "1:12", quotes},
      {"drain = 5m\n", "1:10", quotes},
      {"x = True\n", "1:5", quotes},
      {"name = \u201cchat\u201d\n", "1:8", quotes},
      {"name = \"chat\nurl = \"x\"\n", "1:13", closing},
      {"name = 'chat\n", "1:13", closing},
      {"models = [\"a\" \"b\"]\n", "1:15", list},
      {"name = 'chat',\n", "1:14", behind},
      {"[pool]\nname='a'\n[pool]\n", "3:1", once},
      {"[[pool]]\n[pool.replica]\nname='r'\n[[pool.replica]]\n", "4:1", once},
      {"[[pool]\nname='a'\n", "1:8", header},
      {"[server] threads = 1\n", "1:10", header},
      {"name: \"chat\"\n", "1:5", "a line is KEY = VALUE"},
      {"name = \n", "1:8", "a value is missing behind the =; an empty text is \"\""},
      {"// comment\n", "1:1", line},
      {"{\"pool\": 1}\n", "1:1", line},
      {"[server]\nthreads = 1\nthreads = 2\n", "3:11", twice},
      {"requests = \"C:\\weir\\log.jsonl\"\n", "1:16", escape},
  });
  EXPECT_EQ(settings_in("log.requests = 'C:\\weir\\log.jsonl'\n" + one_pool).log.requests, "C:\\weir\\log.jsonl");
}

/// An error tells to write a list exactly where the table is one.
TEST(SettingsSyntax, KnowsWhichTablesAreLists) {
  EXPECT_THAT(errors_in("[pool]\n"), ElementsAre(HasSubstr("write [[pool]] on a line of its own")));
  EXPECT_THAT(errors_in("[[pool]]\n[pool.replica]\n"),
              testing::Contains(HasSubstr("write [[pool.replica]] on a line")));
  EXPECT_THAT(errors_in(one_pool + "[slo]\n"), ElementsAre(HasSubstr("write [[slo]] on a line of its own")));
  for (const auto* table : {"server", "metrics", "admin", "log", "limits", "measure"}) {
    const auto head = "[" + std::string(table) + "]\n";
    EXPECT_THAT(errors_in(head + head),
                ElementsAre(EndsWith("; a table stands in the file once; each of several has two brackets, such as "
                                     "[[pool]]")));
    EXPECT_THAT(errors_in("[" + head.substr(0, head.size() - 1) + "]\n" + one_pool),
                ElementsAre(HasSubstr("must be a table; write [" + std::string(table) + "]")));
  }
}

/// Otherwise a key or a password that is half quoted would go to a terminal or a log.
TEST(SettingsSyntax, NoValueIsShown) {
  const std::string secret = "zq7";
  for (const auto& line : {"key = " + secret, "key = \"" + secret, "key = \"" + secret + "\\q\"", "key : " + secret,
                           "key \"" + secret + "\"", "key = [" + secret + "]", "key = 1 " + secret,
                           "url = http://u:" + secret + "@h", "key == \"" + secret + "\"", "- " + secret + ": x"}) {
    const auto errors = errors_in(line + "\n");
    ASSERT_EQ(errors.size(), 1u) << line;
    EXPECT_THAT(errors[0], Not(HasSubstr(secret))) << line;
  }
}

}  // namespace
}  // namespace weir::config
