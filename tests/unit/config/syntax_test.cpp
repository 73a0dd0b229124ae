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

TEST(SettingsSyntax, TextWithoutQuotes) {
  const auto text = [](const std::string& key) {
    return "text stands in quotes, and so do addresses and numbers with a unit: " + key + " = \"...\"";
  };
  const std::string list =
      "text stands in quotes, and so do addresses and numbers with a unit: listen = [\"...\", \"...\"]";
  const std::string flag = "write x = true or x = false, in small letters and without quotes";
  const std::string straight = "these quotes are typographic ones; write straight ones: name = \"...\"";
  expect_told({
      {"[[pool]]\nname = chat\n", "2:8", text("name")},
      {"url = http://127.0.0.1:8001\n", "1:7", text("url")},
      {"  url=http://h/?a=b # why\n", "1:7", text("url")},
      {"listen = 127.0.0.1:8080\n", "1:12", text("listen")},
      {"listen = 0.0.0.0:8080\n", "1:13", text("listen")},
      {"drain = 5m\n", "1:10", text("drain")},
      {"connect = 250ms\n", "1:14", text("connect")},
      {"request_body = 16MiB\n", "1:18", text("request_body")},
      {"policy = random\n", "1:10", text("policy")},
      {"name = inject\n", "1:10", text("name")},
      {"name = chat\"\n", "1:8", text("name")},
      {"limits.drain = 5m\n", "1:17", text("limits.drain")},
      {"pool = [{name = chat}]\n", "1:17", text("name")},
      {"\xc3\xa9t\xc3\xa9 = 1\n", "1:1",
       "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #"},
      {"x = '\xc3\xa9' # \xc3\xa9\nname = \xc3\xa9t\xc3\xa9\n", "2:8", text("name")},
      {"listen = [127.0.0.1:8080]\n", "1:13", list},
      {"listen = [ localhost:80 ]\n", "1:12", list},
      {"x = True\n", "1:5", flag},
      {"x = yes\n", "1:5", flag},
      {"x = OFF # not\n", "1:5", flag},
      {"x = null\n", "1:6", "TOML has no such value; leave the line out"},
      {"name = \u201cchat\u201d\n", "1:8", straight},
      {"name = \u2018chat\u2019\n", "1:8", straight},
      {"threads = 04\n", "1:13", "write the number without them"},
  });
}

TEST(SettingsSyntax, AQuoteThatIsMissing) {
  expect_told({
      {"name = \"chat\nurl = \"x\"\n", "1:13", "the closing quote is missing: name = \"...\""},
      {"name = \"chat\r\nurl = \"x\"\r\n", "1:13", "the closing quote is missing: name = \"...\""},
      {"name = 'chat\n", "1:13", "the closing quote is missing: name = '...'"},
      {"name = \"chat", "1:13", "the closing quote is missing: name = \"...\""},
      {"name = \"chat'\n", "1:14", "the closing quote is missing: name = \"...\""},
      {"models = ['a', 'b]\n", "1:19", "the closing quote is missing: models = '...'"},
      {"models = [\"a, \"b\"]\n", "1:16",
       "put a comma between the values of a list, a quote on both sides of each text, and ] behind the last"},
      {"models = [\"a\" \"b\"]\n", "1:15",
       "put a comma between the values of a list, a quote on both sides of each text, and ] behind the last"},
      {"models = [\"a\"", "1:14", "a list that begins with [ ends with ]"},
      {"models = [\n\"a\"\n[server]\n", "3:1",
       "put a comma between the values of a list, a quote on both sides of each text, and ] behind the last"},
      {"name = 'chat''\n", "1:14", "nothing but a comment behind # may follow a value"},
      {"name = 'chat',\n", "1:14", "nothing but a comment behind # may follow a value"},
      {"name = 'chat' // no\n", "1:15", "nothing but a comment behind # may follow a value"},
      {"name = \"a\001b\"\n", "1:10", "remove the control character, or write it as an escape such as \\t"},
  });
}

TEST(SettingsSyntax, TablesOfWhichThereAreSeveral) {
  const std::string pools =
      "each of several begins with two brackets: write [[pool]] every time, and above its [[pool.replica]]";
  const std::string replicas = "each of several begins with two brackets: write [[pool.replica]] every time";
  const std::string brackets = "a header has as many brackets behind its name as before it: [server], [[pool]]";
  expect_told({
      {"[pool]\nname='a'\n[pool]\n", "3:1", pools},
      {"[pool]\nname='a'\n[[pool]]\n", "3:1", pools},
      {"[[pool]]\nname='a'\n[pool]\n", "3:1", pools},
      {"[[pool.replica]]\nname='r'\n[[pool]]\nname='a'\n", "3:1", pools},
      {"[[pool]]\n[pool.replica]\nname='r'\n[pool.replica]\n", "4:1", replicas},
      {"[[pool]]\n[pool.replica]\nname='r'\n[[pool.replica]]\n", "4:1", replicas},
      {"[slo]\nname='a'\n[slo]\n", "3:1", "each of several begins with two brackets: write [[slo]] every time"},
      {"[server]\nthreads=1\n[server]\n", "3:1", "put its keys together under one [server]"},
      {"[[pool]\nname='a'\n", "1:8", brackets},
      {"[pool]]\nname='a'\n", "1:7", brackets},
      {"[server\n", "1:8", brackets},
      {"[server] threads = 1\n", "1:10", "the header of a table stands alone in its line"},
      {"pool = [{name='a'\nreplica=[]}]\n", "1:18",
       "what begins with { ends with } in the same line; write a longer table below a header"},
  });
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
                ElementsAre(EndsWith("; put its keys together under one [" + std::string(table) + "]")));
    EXPECT_THAT(errors_in("[" + head.substr(0, head.size() - 1) + "]\n" + one_pool),
                ElementsAre(HasSubstr("must be a table; write [" + std::string(table) + "]")));
  }
}

TEST(SettingsSyntax, NoEqualsSign) {
  const std::string colon = "a key and its value are parted by = instead of a colon: ";
  const std::string missing = "a = is missing between key and value: ";
  expect_told({
      {"name: \"chat\"\n", "1:5", colon + "name = ..."},
      {"name : 'chat'\n", "1:6", colon + "name = ..."},
      {"name := 'chat'\n", "1:6", colon + "name = ..."},
      {"server:\n  threads: 4\n", "1:7", colon + "server = ..."},
      {"\"name\": \"chat\",\n", "1:7", colon + "name = ..."},
      {"name \"chat\"\n", "1:6", missing + "name = ..."},
      {"name\n", "1:5", missing + "name = ..."},
      {"name = \n", "1:8", "a value is missing behind the =; an empty text is \"\""},
      {"name == 'x'\n", "1:7", "one = is enough: name = ..."},
      {"- name: x\n", "1:3", "this is YAML; in TOML a list of tables is written [[pool]], with KEY = VALUE below"},
      {"{\"pool\": 1}\n", "1:1", "this is JSON; in TOML each line is KEY = VALUE, below the header of its table"},
      {"// comment\n", "1:1", "a comment begins with #"},
      {"; comment\n", "1:1", "a comment begins with #"},
      {"= 1\n", "1:1", "a line is KEY = VALUE, the header of a table such as [server], or a comment behind #"},
  });
}

TEST(SettingsSyntax, AKeyThatStandsTwice) {
  const auto twice = [](int line) {
    return "it stands in line " + std::to_string(line) +
           " already; remove one, or write the header of the next table, such as [[pool.replica]], between them";
  };
  expect_told({
      {"[server]\nthreads = 1\nthreads = 2\n", "3:11", twice(2)},
      {"[[pool]]\nname='p'\n[[pool.replica]]\nname='a'\nnames='x'\n\nurl='u'\nname='b'\n", "8:6", twice(4)},
      {"[server]\nlisten.x=1\nlisten='x'\n", "3:8", "it is there already; remove one"},
      {"[server]\nlisten='x'\n[metrics]\nlisten.x=1\nlisten='x'\n", "5:8", "it is there already; remove one"},
      {"server.threads = 1\n[server.threads]\n", "2:1", "put its keys together under one [server.threads]"},
      {"x = {a=1,a=2}\n", "1:12", "it is there already; remove one"},
  });
}

TEST(SettingsSyntax, BackslashesOfWindows) {
  const std::string escape =
      "in double quotes \\ begins an escape; write a path in single quotes or with /, or each \\ twice";
  expect_told({
      {"requests = \"C:\\weir\\log.jsonl\"\n", "1:16", escape},
      {"requests = \"C:\\Users\\x\"\n", "1:17", escape},
      {"requests = \"\\x41\"\n", "1:14", escape},
      {"requests = \"C:\\logs\\\"\n", "1:16", escape},
      {"requests = \"D:\\\"\n", "1:17",
       "the \\ before the last quote makes it a part of the text; write a path in single quotes or with /, or end it "
       "with "
       "\\\\"},
  });
  EXPECT_EQ(settings_in("log.requests = 'C:\\weir\\log.jsonl'\n" + one_pool).log.requests, "C:\\weir\\log.jsonl");
  EXPECT_EQ(settings_in("log.requests = \"C:\\\\weir\"\n" + one_pool).log.requests, "C:\\weir");
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
