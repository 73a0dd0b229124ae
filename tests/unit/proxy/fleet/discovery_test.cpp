// What answers of a nameserver mean for replicas.
#include "proxy/fleet/discovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace weir::proxy::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Address at(const std::string& text) { return boost::asio::ip::make_address(text); }

std::vector<Address> answer(std::initializer_list<const char*> texts) {
  std::vector<Address> all;
  for (const auto* text : texts) all.push_back(at(text));
  return all;
}

/// Returns "1=10.0.0.1 2=10.0.0.2".
std::string text_of(const Members& members) {
  std::string text;
  for (const auto& one : members.list())
    text += (text.empty() ? "" : " ") + std::to_string(one.number) + "=" + one.address.to_string();
  return text;
}

TEST(AddressToUse, StaysWhileTheAnswerHoldsIt) {
  const struct {
    const char* in_use;
    std::vector<Address> answered;
    const char* wanted;
  } cases[]{
      {"", answer({"10.0.0.1", "10.0.0.2"}), "10.0.0.1"},
      {"10.0.0.2", answer({"10.0.0.1", "10.0.0.2"}), "10.0.0.2"},
      {"10.0.0.3", answer({"10.0.0.1", "10.0.0.2"}), "10.0.0.1"},
      {"10.0.0.3", {}, "10.0.0.3"},
      {"", {}, ""},
      {"::1", answer({"127.0.0.1", "::1"}), "::1"},
  };
  for (const auto& [in_use, answered, wanted] : cases) {
    const auto use = address_to_use(*in_use ? std::optional(at(in_use)) : std::nullopt, answered);
    EXPECT_EQ(use ? use->to_string() : "", wanted) << in_use;
  }
}

struct Step {
  std::vector<Address> answered;
  const char* members;
  bool changed;
};

TEST(Members, FollowTheAnswers) {
  const struct {
    const char* what;
    std::vector<Step> steps;
  } stories[]{
      {"numbers go by the address at the start, whatever the answer's order",
       {{answer({"10.0.0.2", "10.0.0.1"}), "1=10.0.0.1 2=10.0.0.2", true},
        {answer({"10.0.0.1", "10.0.0.2"}), "1=10.0.0.1 2=10.0.0.2", false}}},
      {"an address that is named twice is one", {{answer({"10.0.0.1", "10.0.0.1"}), "1=10.0.0.1", true}}},
      {"one that is missing once stays",
       {{answer({"10.0.0.1", "10.0.0.2"}), "1=10.0.0.1 2=10.0.0.2", true},
        {answer({"10.0.0.1"}), "1=10.0.0.1 2=10.0.0.2", false},
        {answer({"10.0.0.1", "10.0.0.2"}), "1=10.0.0.1 2=10.0.0.2", false},
        {answer({"10.0.0.1"}), "1=10.0.0.1 2=10.0.0.2", false},
        {answer({"10.0.0.1"}), "1=10.0.0.1", true}}},
      {"an empty answer is none, and does not count as one without the address",
       {{answer({"10.0.0.1", "10.0.0.2"}), "1=10.0.0.1 2=10.0.0.2", true},
        {answer({"10.0.0.1"}), "1=10.0.0.1 2=10.0.0.2", false},
        {{}, "1=10.0.0.1 2=10.0.0.2", false},
        {{}, "1=10.0.0.1 2=10.0.0.2", false},
        {answer({"10.0.0.1"}), "1=10.0.0.1", true}}},
      {"the lowest free number is used again",
       {{answer({"10.0.0.1", "10.0.0.2", "10.0.0.3"}), "1=10.0.0.1 2=10.0.0.2 3=10.0.0.3", true},
        {answer({"10.0.0.3"}), "1=10.0.0.1 2=10.0.0.2 3=10.0.0.3", false},
        {answer({"10.0.0.3"}), "3=10.0.0.3", true},
        {answer({"10.0.0.3", "10.0.0.9", "10.0.0.8"}), "1=10.0.0.8 2=10.0.0.9 3=10.0.0.3", true}}},
      {"a number is free only once its address has left",
       {{answer({"10.0.0.1"}), "1=10.0.0.1", true},
        {answer({"10.0.0.2"}), "1=10.0.0.1 2=10.0.0.2", true},
        {answer({"10.0.0.2"}), "2=10.0.0.2", true},
        {answer({"10.0.0.2", "10.0.0.3"}), "1=10.0.0.3 2=10.0.0.2", true}}},
      {"of both families the IPv4 addresses count", {{answer({"fd00::1", "10.0.0.1", "fd00::2"}), "1=10.0.0.1", true}}},
      {"IPv6 alone is fine", {{answer({"fd00::2", "fd00::1"}), "1=fd00::1 2=fd00::2", true}}},
  };
  for (const auto& [what, steps] : stories) {
    Members members;
    for (const auto& [answered, wanted, changed] : steps) {
      EXPECT_EQ(members.answered(answered), changed) << what << ": " << wanted;
      EXPECT_EQ(text_of(members), wanted) << what;
    }
  }
}

TEST(Members, AreNeverMoreThanABound) {
  std::vector<Address> many;
  for (unsigned i = 0; i < 3000; ++i) many.push_back(boost::asio::ip::address_v4(0x0a000000 + i));
  Members members;
  EXPECT_TRUE(members.answered(many));
  EXPECT_EQ(members.list().size(), Members::most);
  EXPECT_FALSE(members.answered(many));
}

/// Any answers: numbers and addresses are unique, what two answers lacked is gone, what the last one had is there.
TEST(Members, KeepTheirPromisesOverAnyAnswers) {
  std::mt19937_64 random(1);
  for (int story = 0; story < 200; ++story) {
    Members members;
    std::vector<std::set<Address>> good;
    for (int step = 0; step < 30; ++step) {
      std::vector<Address> answered;
      for (unsigned i = 0; i < 6; ++i)
        if (random() % 2 == 0) answered.push_back(boost::asio::ip::address_v4(0x0a000000 + i));
      const auto before = members.list();
      const bool changed = members.answered(answered);
      const auto after = members.list();
      EXPECT_EQ(changed, before != after);
      if (answered.empty()) continue;
      good.emplace_back(answered.begin(), answered.end());
      std::set<Address> seen;
      std::set<unsigned> numbers;
      for (const auto& one : after) {
        EXPECT_TRUE(seen.insert(one.address).second);
        EXPECT_TRUE(numbers.insert(one.number).second);
        const bool in_last_two =
            good.back().contains(one.address) || (good.size() > 1 && good[good.size() - 2].contains(one.address));
        EXPECT_TRUE(in_last_two);
        EXPECT_LE(one.number, 6u) << "a low number is free";
      }
      for (const auto& address : good.back()) EXPECT_TRUE(seen.contains(address));
    }
  }
}

config::Pool pool_of(std::initializer_list<config::Replica> replicas) {
  config::Pool pool;
  pool.name = "chat";
  pool.replicas = replicas;
  return pool;
}

config::Replica expanding(const std::string& name) {
  config::Replica one;
  one.name = one.config = name;
  one.expand = true;
  one.weight = 3;
  one.url = {.host = "engines.example", .port = 8000, .prefix = "/p", .authority = "engines.example:8000"};
  return one;
}

TEST(Expanded, AMemberHasItsAddressAndAllElseOfTheSettings) {
  auto fixed = expanding("fixed");
  fixed.expand = false;
  const auto pool = pool_of({fixed, expanding("gpu")});
  const Discovered discovered{{{"gpu", "engines.example"}, {{1, at("10.0.0.7")}, {3, at("fd00::1")}}}};
  const auto places = expanded(pool, discovered);
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].settings, fixed);
  auto first = expanding("gpu");
  first.name = "gpu-1";
  first.url.host = "10.0.0.7";
  EXPECT_EQ(places[1].settings, first) << "its config and its Host field are as set";
  EXPECT_EQ(places[1].host, "engines.example");
  EXPECT_EQ(places[2].settings.name, "gpu-3");
  EXPECT_EQ(places[2].settings.url.host, "fd00::1");
}

TEST(Expanded, WithoutAnAnswerThereAreNoMembersAndThoseOfAnotherHostDoNotCount) {
  EXPECT_THAT(expanded(pool_of({expanding("gpu")}), {}), IsEmpty());
  const Discovered other{{{"gpu", "old.example"}, {{1, at("10.0.0.7")}}}};
  EXPECT_THAT(expanded(pool_of({expanding("gpu")}), other), IsEmpty());
}

}  // namespace
}  // namespace weir::proxy::fleet
