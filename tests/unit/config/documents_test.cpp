// docs/settings.md and config/examples/ say what the code does: every key with its default and range, nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "config/keys.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::filesystem::path repository = std::filesystem::path(WEIR_TEST_DATA).parent_path().parent_path();

std::string whole(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the file with which the reference ends. (A file of keys stands before it.)
std::string whole_example() {
  const auto text = whole(repository / "docs/settings.md");
  const std::string fence = "```toml\n";
  const auto begin = text.find(fence, text.find("## All of it")) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

/// The tables of a file, in the order of the reference.
const std::vector<std::string> all_tables = {
    "[server.tls]",  "[[server.tls.more]]", "[pool.replica.tls]", "[server]", "[metrics]", "[admin]",        "[log]",
    "[limits]",      "[measure]",           "[discovery]",        "[health]", "[engine]",  "[engine.names]", "[[pool]]",
    "[pool.health]", "[pool.engine]",       "[[pool.replica]]",   "[[slo]]",  "[[shadow]]",  "[[rollout]]"};

/// A row of the reference.
struct Key {
  std::string name, default_value, range;
};

std::string without_backticks(std::string text) {
  std::erase(text, '`');
  return text;
}

/// Returns the rows under each heading such as "## `[server]`".
std::map<std::string, std::vector<Key>> reference() {
  std::map<std::string, std::vector<Key>> tables;
  std::istringstream lines(whole(repository / "docs/settings.md"));
  std::string table;
  const std::regex row(R"(\| `([a-z0-9_]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (line.starts_with("## ")) table = without_backticks(line.substr(3));
    if (!std::regex_match(line, cells, row)) continue;
    const auto trimmed = [](std::string cell) {
      cell.erase(0, cell.find_first_not_of(' '));
      cell.erase(cell.find_last_not_of(' ') + 1);
      return cell;
    };
    EXPECT_THAT(trimmed(cells[5]), Not(IsEmpty())) << line;
    tables[table].push_back({cells[1], trimmed(cells[3]), without_backticks(trimmed(cells[4]))});
  }
  return tables;
}

/// Returns a file that is complete except for one line in one table. Pools get the keys that they must have, unless it
/// is that line.
std::string file_with(const std::string& table, const std::string& key, const std::string& value) {
  const auto line = key + " = " + value + "\n";
  const auto required = [&](const char* name, const char* text) {
    return key == name ? std::string() : std::string(name) + " = " + text + "\n";
  };
  const auto file = [](const char* file_name) { return '\'' + std::string(WEIR_TEST_DATA "/tls/") + file_name + '\''; };
  const auto cert = file("local.pem"), private_key = file("local.key");
  if (table == "[server.tls]")
    return table + "\n" + required("cert", cert.c_str()) + required("key", private_key.c_str()) + line + one_pool;
  if (table == "[[server.tls.more]]")
    return "[server.tls]\ncert = " + cert + "\nkey = " + private_key + "\n" + table + "\n" +
           required("cert", cert.c_str()) + required("key", private_key.c_str()) + line + one_pool;
  if (table == "[pool.replica.tls]")
    return "[[pool]]\nname = 'chat'\n[[pool.replica]]\nname = 'gpu0'\nurl = 'https://127.0.0.1:8001'\n" + table + "\n" +
           line;
  if (table == "[[pool.replica]]") {
    return "[[pool]]\nname = 'chat'\n[[pool.replica]]\n" + required("name", "'gpu0'") +
           required("url", "'http://127.0.0.1:8001'") + line;
  }
  if (table.starts_with("[pool.")) {
    return "[[pool]]\nname = 'chat'\n" + table + "\n" + line +
           "[[pool.replica]]\nname = 'gpu0'\nurl = 'http://127.0.0.1:8001'\n";
  }
  if (table == "[[slo]]") {
    return one_pool + "[[slo]]\n" + required("name", "'interactive'") + required("pool", "'chat'") +
           required("e2e", "60") + line;
  }
  if (table == "[[shadow]]") {
    const bool drawn = key == "key" || key == "sample";
    return one_pool + "[[shadow]]\n" + required("name", "'fp8'") + required("of", "'chat'") +
           (drawn ? required("sample", "0.1") : required("twin", "'gpu0'")) +
           required("replica", "[{name = 'cand0', url = 'http://127.0.0.1:8011'}]") + line;
  }
  if (table == "[[rollout]]") {
    return "[admin]\nstate = '/var/lib/weir'\n[[pool]]\nname = 'chat'\nreplica = [{name = 'gpu0', url = "
           "'http://127.0.0.1:8001'}, {name = 'gpu1', url = 'http://127.0.0.1:8002'}]\n[[rollout]]\n" +
           required("name", "'fp8'") + required("pool", "'chat'") + required("candidate", "'gpu1'") + line;
  }
  if (table == "[[pool]]") {
    return "[[pool]]\n" + required("name", "'chat'") +
           required("replica", "[{name = 'gpu0', url = 'http://127.0.0.1:8001'}]") + line;
  }
  return table + "\n" + line + one_pool;
}

/// Returns the keys that the code knows, as the error for an unknown key lists them.
std::vector<std::string> known_keys(const std::string& table) {
  const auto errors = errors_in(file_with(table, "qqqqqqqqqqqq", "1"));
  EXPECT_EQ(errors.size(), 1u) << table;
  const std::string marker = "known here are ";
  std::string list = errors.empty() ? std::string() : errors.front();
  list.erase(0, std::min(list.size(), list.find(marker) + marker.size()));
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(SettingsReference, NamesEveryTableAndNoOther) {
  const auto documented = reference();
  EXPECT_EQ(documented.size(), all_tables.size());
  for (const auto& table : all_tables) EXPECT_TRUE(documented.contains(table)) << table;
  EXPECT_THAT(
      errors_in("qqqqqqqqqqqq = 1\n" + one_pool),
      testing::ElementsAre("weir.toml:1:1: qqqqqqqqqqqq: unknown key; known here are server, metrics, admin, log, "
                           "limits, measure, discovery, health, engine, pool, slo, shadow, rollout"));
}

TEST(SettingsReference, NamesEveryKeyAndNoOther) {
  for (const auto& [table, keys] : reference()) {
    std::vector<std::string> names;
    for (const auto& key : keys) names.push_back(key.name);
    EXPECT_EQ(names, known_keys(table)) << table;
  }
}

TEST(SettingsReference, GivesTheDefaultsThatTheCodeHas) {
  // A shadow's defaults are those of a file that has one.
  const auto defaults = [](const std::string& table, const std::string& key) {
    if (table == "[pool.replica.tls]") return settings_in(file_with(table, "# no key", "0"));
    if (table == "[[rollout]]") return settings_in(file_with(table, "# no key", "0"));
    if (table != "[[shadow]]") return settings_in(one_pool);
    return settings_in(key == "key" ? file_with(table, "sample", "0.1") : file_with(table, "# no key", "0"));
  };
  int checked = 0;
  for (const auto& [table, keys] : reference()) {
    for (const auto& key : keys) {
      if (!key.default_value.starts_with('`')) {
        // A key has no default that could be written if it is required, or off unless it is there.
        EXPECT_THAT(key.default_value, testing::AnyOf("required", "none", "the name")) << table << ' ' << key.name;
        continue;
      }
      const auto value = without_backticks(key.default_value);
      EXPECT_TRUE(settings_in(file_with(table, key.name, value)) == defaults(table, key.name))
          << table << ' ' << key.name << " = " << value;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(SettingsReference, GivesTheRangesThatTheCodeHas) {
  for (const auto& [table, keys] : reference()) {
    for (const auto& key : keys) {
      const auto errors = errors_in(file_with(table, key.name, "1979-05-27"));  // A date suits no key.
      ASSERT_FALSE(errors.empty()) << table << ' ' << key.name;
      if (key.range.starts_with('"')) {
        EXPECT_TRUE(errors.front().ends_with("must be one of " + key.range)) << errors.front();
      } else if (!key.range.empty()) {
        EXPECT_THAT(errors.front(), testing::ContainsRegex(" from " + key.range + "($|:)"));
      } else {
        EXPECT_THAT(errors.front(), testing::AllOf(Not(HasSubstr(" from ")), Not(HasSubstr("one of"))));
      }
    }
  }
}

TEST(SettingsReference, ShowsAWholeFileWithEveryKey) {
  const auto example = whole_example();
  auto settings = settings_in(example);
  for (const auto& table : all_tables) {
    const auto from = example.find(table + "\n");
    ASSERT_NE(from, std::string::npos) << table;
    const auto section = example.substr(from, example.find("\n\n", from) - from);
    for (const auto& key : known_keys(table)) {
      if (key == "replica" || key == "health" || key == "engine" || key == "names" || key == "tls" || key == "more")
        continue;  // It is a heading, not a line.
      // Keys that exclude each other are shown as comments.
      EXPECT_THAT(section, testing::AnyOf(HasSubstr("\n" + key + " = "), HasSubstr("\n# " + key + " = "))) << table;
    }
  }
  settings.pools = settings_in(one_pool).pools;
  settings.slos.clear();
  settings.shadows.clear();
  settings.rollouts.clear();
  settings.admin.state.clear();
  EXPECT_EQ(settings, settings_in(one_pool)) << "all but the pool, what belongs to it and the state of rollouts are defaults";
}

TEST(SettingsReference, ShowsAFileOfKeysThatIsRight) {
  const auto text = whole(repository / "docs/settings.md");
  const std::string fence = "```toml\n";
  const auto begin = text.find(fence, text.find("### Clients' keys")) + fence.size();
  const auto keys = load_keys(text.substr(begin, text.find("```", begin) - begin), "keys.toml");
  ASSERT_TRUE(std::holds_alternative<std::vector<ClientKey>>(keys));
  EXPECT_EQ(std::get<std::vector<ClientKey>>(keys).at(0).max_in_flight, 32u);
}

/// People write settings by hand, and check them half written. Wherever the text stops, or has one wrong character, it
/// loads or the errors are within it.
TEST(SettingsReference, DamagedFilesLoadOrSayWhere) {
  const auto example = whole_example();
  const auto check = [](const std::string& text) {
    const auto result = load_text(text, "weir.toml");
    const auto* errors = std::get_if<std::vector<SettingsError>>(&result);
    if (!errors) return;
    const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
    ASSERT_FALSE(errors->empty());
    for (const auto& error : *errors) {
      ASSERT_LE(error.line, lines) << error.text();
      ASSERT_EQ(error.message.find('\n'), std::string::npos) << error.text();
    }
  };
  for (std::size_t i = 0; i < example.size(); ++i) {
    check(example.substr(0, i));
    for (const char wrong : {'"', '\n', '\0'}) {
      auto text = example;
      text[i] = wrong;
      check(text);
    }
  }
}

TEST(SettingsReference, ShowsErrorsAsTheyAre) {
  const auto text = whole(repository / "docs/settings.md");
  const auto errors = errors_in(
      "\n\n\n\n\n[limits]\nfirst_tokn = 1\n[[pool]]\nname = 'p'\n[[pool.replica]]\n"
      "name = 'r'\nweight = 0\nurl = 'http://h'\n");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(text, HasSubstr("```\n" + errors[0] + "\n" + errors[1] + "\n```"));
}

TEST(SettingsExamples, AllLoad) {
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(repository / "config/examples")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_THAT(texts_of(load_file(entry.path().string())), IsEmpty());
    ++loaded;
  }
  EXPECT_GE(loaded, 2);
}

TEST(SettingsExamples, MinimalIsDefaultsAndTwoReplicas) {
  auto settings = settings_in(whole(repository / "config/examples/minimal.toml"));
  ASSERT_EQ(settings.pools.size(), 1u);
  EXPECT_EQ(settings.pools[0].replicas.size(), 2u);
  settings.pools.clear();
  EXPECT_EQ(settings, Settings{});
}

}  // namespace
}  // namespace weir::config
