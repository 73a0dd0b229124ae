#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "config/table_reader.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

TEST(Blame, NamesFileLineKeyAndValue) {
  const auto file = std::filesystem::temp_directory_path() / ("weir-blame-" + std::to_string(::getpid()));
  std::ofstream(file) << "[log]\nlevel = 'info'\n[admin]\nlisten = ''\nstate = '/nowhere'\n";
  const auto error = blame(file, "admin", "state", "is full; make room");
  EXPECT_EQ(error.text(), file.string() + ":5:9: [admin] state = \"/nowhere\": is full; make room");
  EXPECT_EQ(blame(file, "admin", "reports", "is full").text(), file.string() + ": [admin] reports: is full");
  EXPECT_EQ(blame(file, "limits", "connect", "is odd").text(), file.string() + ": [limits] connect: is odd");
  std::ofstream(file) << "[admin\n";
  EXPECT_EQ(blame(file, "admin", "state", "is full").text(), file.string() + ": [admin] state: is full");
  std::filesystem::remove(file);
  EXPECT_EQ(blame(file, "admin", "state", "is full").text(), file.string() + ": [admin] state: is full");
}

}  // namespace

// The reference of the settings and config/examples/ say what the code does: every key with its default and range.

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

/// Returns the example that has every key.
std::string whole_example() { return whole(repository / "config/examples/every-key.toml") + "\n"; }

/// The tables of a file.
const std::vector<std::string> all_tables = {"[server.tls]",
                                             "[[server.tls.more]]",
                                             "[pool.replica.tls]",
                                             "[server]",
                                             "[metrics]",
                                             "[admin]",
                                             "[log]",
                                             "[limits]",
                                             "[measure]",
                                             "[discovery]",
                                             "[health]",
                                             "[engine]",
                                             "[[pool]]",
                                             "[pool.health]",
                                             "[pool.engine]",
                                             "[[pool.replica]]",
                                             "[[slo]]",
                                             "[[shadow]]",
                                             "[[rollout]]"};

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
    const bool drawn = key == "sample";
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

TEST(SettingsReference, HasEveryTableAndNoOther) {
  std::vector<std::string> titles;
  for (const auto& table : settings_reference()) {
    EXPECT_THAT(table.text, Not(IsEmpty())) << table.title;
    titles.push_back(table.title);
  }
  // The tables of a shadow's replicas have the keys of a pool's.
  auto expected = all_tables;
  expected.insert(expected.end(), {"[[shadow.replica]]", "[shadow.replica.tls]"});
  EXPECT_THAT(titles, testing::UnorderedElementsAreArray(expected));
  EXPECT_THAT(keys_reference(), testing::ElementsAre(testing::Field(&ReferenceTable::title, "[[key]]")));
  EXPECT_THAT(
      errors_in("qqqqqqqqqqqq = 1\n" + one_pool),
      testing::ElementsAre("weir.toml:1:1: qqqqqqqqqqqq: unknown key; known here are server, metrics, admin, log, "
                           "limits, measure, discovery, health, engine, pool, slo, shadow, rollout"));
}

/// Calls `check(title, key)` for each key but those of a shadow's replicas, and but tables.
template <class Check>
void for_each_key(const Check& check) {
  for (const auto& table : settings_reference())
    for (const auto& key : table.keys)
      if (table.title.find("shadow.replica") == std::string::npos && !key.value.starts_with("table"))
        check(table.title, key);
}

TEST(SettingsReference, WritesInitialValuesAsAFileHasThem) {
  // A shadow's defaults are those of a file that has one.
  const auto defaults = [](const std::string& table) {
    if (table == "[pool.replica.tls]") return settings_in(file_with(table, "# no key", "0"));
    if (table == "[[rollout]]") return settings_in(file_with(table, "# no key", "0"));
    return settings_in(table != "[[shadow]]" ? one_pool : file_with(table, "# no key", "0"));
  };
  int checked = 0;
  for_each_key([&](const std::string& table, const ReferenceKey& key) {
    if (key.initial_value.empty() || (table == "[admin]" && key.name == "state")) return;
    EXPECT_TRUE(settings_in(file_with(table, key.name, key.initial_value)) == defaults(table))
        << table << ' ' << key.name << " = " << key.initial_value;
    ++checked;
  });
  EXPECT_GT(checked, 45);
}

TEST(SettingsReference, GivesTheRangesOfTheErrors) {
  int checked = 0;
  const std::regex range(", (\\S+ to \\S+)$");
  for_each_key([&](const std::string& table, const ReferenceKey& key) {
    const auto errors = errors_in(file_with(table, key.name, "1979-05-27"));  // A date suits no key.
    ASSERT_FALSE(errors.empty()) << table << ' ' << key.name;
    std::smatch found;
    const bool has_range = std::regex_search(key.value, found, range);
    EXPECT_EQ(errors.front().find(" from ") != std::string::npos, has_range) << errors.front();
    if (has_range) EXPECT_THAT(errors.front(), HasSubstr(" from " + found[1].str()));
    checked += has_range ? 1 : 0;
  });
  EXPECT_GT(checked, 25);
}

TEST(SettingsExamples, OneHasEveryKey) {
  const auto example = whole_example();
  auto settings = settings_in(example);
  for (const auto& table : all_tables) {
    const auto from = example.find(table + "\n");
    ASSERT_NE(from, std::string::npos) << table;
    const auto section = example.substr(from, example.find("\n\n", from) - from);
    const auto keys = settings_reference();
    const auto found = std::ranges::find(keys, table, &ReferenceTable::title);
    ASSERT_NE(found, keys.end()) << table;
    for (const auto& [key, kind, initial, is_required, text] : found->keys) {
      if (kind.starts_with("table") && key != "set") continue;  // It is a heading, not a line.
      // Keys that exclude each other are shown as comments.
      EXPECT_THAT(section, testing::AnyOf(HasSubstr("\n" + key + " = "), HasSubstr("\n# " + key + " = "))) << table;
    }
  }
  settings.pools = settings_in(one_pool).pools;
  settings.slos.clear();
  settings.shadows.clear();
  settings.rollouts.clear();
  settings.admin.state.clear();
  EXPECT_EQ(settings, settings_in(one_pool)) << "all but the pool, what belongs to it and the state of rollouts are "
                                                "defaults";
}

/// People write settings by hand, and check them half written. Wherever the text stops, or has one wrong character, it
/// loads or the errors are within it.
TEST(SettingsExamples, DamagedFilesLoadOrSayWhere) {
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

TEST(SettingsExamples, AllLoad) {
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(repository / "config/examples")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_THAT(texts_of(load_file(entry.path().string())), IsEmpty());
    ++loaded;
  }
  EXPECT_GE(loaded, 3);
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
