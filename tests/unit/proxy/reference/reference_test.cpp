// The pages are compared with docs/reference by scripts/reference; what stands here is what they must not lack.
#include "proxy/reference/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "metrics/series/shard.hpp"
#include "proxy/events/events.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/members.hpp"

namespace weir::proxy::reference {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Reference, LooksUpWithoutRegardToCase) {
  EXPECT_THAT(look_up("TTFT"), HasSubstr("ttft_s in the request log\n"));
  EXPECT_THAT(look_up("/name/undrain"), HasSubstr("POST /api/replicas/NAME/undrain\n"));
}

TEST(Reference, LookedUpTextsAreForATerminal) {
  for (const auto* const word : {"path", "shadow", "limit", "_"}) EXPECT_THAT(look_up(word), Not(HasSubstr("](")));
  EXPECT_THAT(look_up("api_keys"), HasSubstr("File of clients' keys. With it every client needs a key."));
}

TEST(Reference, TablesOfTheSameKeysAreWrittenOnce) {
  const auto page = settings_page();
  for (const auto* const line : {"## `[pool.health]`\n", "The keys are those of [`[health]`](#health).\n",
                                 "The keys are those of [`[[pool.replica]]`](#poolreplica).\n"})
    EXPECT_THAT(page, HasSubstr(line));
  EXPECT_EQ(page.find("| `eject` |"), page.rfind("| `eject` |"));
}

TEST(Reference, EachWordOfAClosedSetIsOnItsPage) {
  const auto metrics = metrics_page(), api = api_page();
  for (const auto what : events::what_names) EXPECT_THAT(api, HasSubstr("| `" + std::string(what) + "` |"));
  for (const auto limit : {"descriptors", "sockets"}) EXPECT_THAT(metrics, HasSubstr('`' + std::string(limit) + '`'));
  for (const auto outcome : metrics::outcome_names)
    EXPECT_THAT(metrics, HasSubstr("| `" + std::string(outcome) + "` |"));
}

TEST(Reference, EachFindingHasASectionOfTheGuide) {
  std::ifstream file(std::filesystem::path(WEIR_TEST_DATA).parent_path().parent_path() / "docs/guides/alerts.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  for (const auto& rule : live::rules()) EXPECT_THAT(guide, HasSubstr("\n### " + std::string(rule.what) + "\n"));
}

TEST(Reference, SchemasAreJsonAndHaveEachMember) {
  const auto log = json::parse(log_schema()).as_object(), live = json::parse(live_schema()).as_object();
  EXPECT_EQ(log.at("properties").at("outcome").at("enum").as_array().size(), metrics::outcome_names.size());
  EXPECT_EQ(log.at("properties").at("ttft_s").at("type"), (json::array{"number", "null"}));
  for (const auto& member : live::members()) {
    const json::value whole = live;
    const json::value* at = &whole;
    std::string_view path = member.path;
    while (!path.empty()) {
      const auto end = std::min(path.find_first_of(".["), path.size());
      const auto name = path.substr(0, end);
      at = name == "*" ? &at->at("additionalProperties") : &at->at("properties").at(name);
      path.remove_prefix(end);
      if (path.starts_with("[]")) {
        at = &at->at("items");
        path.remove_prefix(2);
      }
      if (path.starts_with('.')) path.remove_prefix(1);
    }
    EXPECT_EQ(at->at("description"), json::value(member.about.text())) << member.path;
  }
}

}  // namespace
}  // namespace weir::proxy::reference
