#include "proxy/fleet/served_models.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

std::shared_ptr<const ModelEntries> list(const std::string& entries) {
  return std::make_shared<const ModelEntries>(entries_of(R"({"object":"list","data":[)" + entries + "]}"));
}
std::string text_of(const std::vector<std::string>& named,
                    const std::vector<std::shared_ptr<const ModelEntries>>& replicas) {
  ServedModels served;
  served.add_pool(named, replicas);
  return served.text();
}

TEST(ServedModels, KeepsEntriesWholeAndEachIdOnce) {
  EXPECT_EQ(text_of({}, {}), "{\"object\":\"list\",\"data\":[]}\n");
  EXPECT_EQ(
      text_of({}, {list(R"({"id":"b","object":"model","created":7,"max_model_len":8192,"permission":[{"x":null}]})"),
                   list(R"({"id":"a","created":8},{"id":"b","created":9})")}),
      R"({"object":"list","data":[{"id":"b","object":"model","created":7,"max_model_len":8192,)"
      R"("permission":[{"x":null}]},{"id":"a","created":8}]})"
      "\n");
}

TEST(ServedModels, OfAPoolThatNamesThemAreThoseNamed) {
  EXPECT_EQ(text_of({"m", "n"}, {list(R"({"id":"other","created":1})"), list(R"({"id":"m","created":2})"),
                                 list(R"({"id":"m","created":3})")}),
            R"({"object":"list","data":[{"id":"m","created":2},{"id":"n","object":"model","owned_by":"weir"}]})"
            "\n");
}

TEST(ServedModels, StayWithTheFirstPoolThatHasThem) {
  ServedModels served;
  EXPECT_TRUE(served.empty());
  served.add_pool({"m"}, std::vector{list(R"({"id":"m","created":1})")});
  served.add_pool({}, std::vector{list(R"({"id":"m","created":2},{"id":"org/n","created":3})")});
  EXPECT_FALSE(served.empty());
  ASSERT_NE(served.find("m"), nullptr);
  EXPECT_EQ(*served.find("m"), R"({"id":"m","created":1})");
  ASSERT_NE(served.find("org/n"), nullptr);
  EXPECT_EQ(*served.find("org/n"), R"({"id":"org/n","created":3})");
  EXPECT_EQ(served.find("org"), nullptr);
  EXPECT_EQ(served.find(""), nullptr);
}

TEST(ServedModels, OfAKeyAreThoseThatItMayUseAndThatAreThere) {
  ServedModels served;
  served.add_pool({}, std::vector{list(R"({"id":"m","created":1},{"id":"org/n","created":3},{"id":"o"})")});
  const auto some = served.only({"o", "not-there", "m"});
  EXPECT_EQ(some.text(), R"({"object":"list","data":[{"id":"m","created":1},{"id":"o"}]})"
                         "\n");
  EXPECT_NE(some.find("m"), nullptr);
  EXPECT_EQ(some.find("org/n"), nullptr);
  EXPECT_TRUE(served.only({}).empty());
}

TEST(ServedModels, TakeNoEntryFromWhatIsNoList) {
  for (const auto* body : {"", "{", "[]", "null", R"({"data":{}})", R"({"data":[1,null,{},{"id":7},{"id":""}]})",
                           R"({"models":[{"id":"m"}]})", "{\"data\":[{\"id\":\"\xff\"}]}"})
    EXPECT_TRUE(entries_of(body).empty()) << body;
  EXPECT_EQ(entries_of(R"({"models":[],"data":[{},{"id":"m"}]})").size(), 1u);
  const auto named_twice = entries_of(R"({"data":[{"id":"a","id":"b"},{"id":"c","id":1}]})");
  ASSERT_EQ(named_twice.size(), 1u);
  EXPECT_EQ(named_twice[0].id, "b") << "clients read the last, too";
  std::string deep = R"({"data":[{"id":"m","x":)";
  for (int i = 0; i < 1000; ++i) deep += '[';
  EXPECT_TRUE(entries_of(deep).empty()) << "bounded in depth";
}

}  // namespace
}  // namespace weir::proxy::fleet
