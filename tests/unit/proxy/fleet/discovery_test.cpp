// Answers of a nameserver become replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "proxy/fleet/discovery.hpp"

namespace weir::proxy::fleet {
namespace {

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

TEST(AddressesToUse, BeginWithTheOneInUseAndTakeTheFamiliesByTurns) {
  const struct {
    const char* in_use;
    std::vector<Address> answered, wanted;
  } cases[]{
      {"", answer({"10.0.0.1", "10.0.0.2"}), answer({"10.0.0.1", "10.0.0.2"})},
      {"10.0.0.2", answer({"10.0.0.1", "10.0.0.2"}), answer({"10.0.0.2", "10.0.0.1"})},
      {"10.0.0.3", answer({"10.0.0.1", "10.0.0.2"}), answer({"10.0.0.1", "10.0.0.2"})},
      {"10.0.0.3", {}, answer({"10.0.0.3"})},
      {"", {}, {}},
      {"", answer({"::1", "127.0.0.1"}), answer({"::1", "127.0.0.1"})},
      {"127.0.0.1", answer({"::1", "127.0.0.1"}), answer({"127.0.0.1", "::1"})},
      {"", answer({"::1", "::2", "::3", "10.0.0.1", "10.0.0.2"}),
       answer({"::1", "10.0.0.1", "::2", "10.0.0.2", "::3"})},
      {"::3", answer({"::1", "::2", "::3", "10.0.0.1", "10.0.0.2"}),
       answer({"::3", "10.0.0.1", "::1", "10.0.0.2", "::2"})},
      {"10.0.0.2", answer({"::1", "::2", "10.0.0.1", "10.0.0.2"}), answer({"10.0.0.2", "::1", "10.0.0.1", "::2"})},
  };
  for (const auto& [in_use, answered, wanted] : cases) {
    std::vector<Address> before;
    if (*in_use) before.push_back(at(in_use));
    EXPECT_EQ(addresses_to_use(before, answered), wanted) << in_use;
  }
}

constexpr std::chrono::seconds interval{30};

/// Members, and what their pools know of them. An answer comes every `interval`.
struct Story {
  bool answered(std::vector<Address> list) {
    now += interval;
    return members.answered(std::move(list), known(), now, interval);
  }
  Members::Known known() const {
    return {[this](const Address& address) { return gone.contains(address); }, taken, complete};
  }
  Members members;
  std::set<Address> gone;
  std::set<unsigned> taken;
  bool complete = false;
  metrics::Moment now = metrics::Moment() + std::chrono::hours(1);
};

struct Step {
  std::vector<Address> answered, gone;  ///< Gone by then.
  const char* members;
};

TEST(Members, FollowTheAnswers) {
  const auto both = answer({"10.0.0.1", "10.0.0.2"}), one = answer({"10.0.0.1"}), two = answer({"10.0.0.2"});
  const struct {
    const char* what;
    std::vector<Step> steps;
  } stories[]{
      {"numbers go by the address at the start, whatever the answer's order",
       {{answer({"10.0.0.2", "10.0.0.1"}), {}, "1=10.0.0.1 2=10.0.0.2"}, {both, {}, "1=10.0.0.1 2=10.0.0.2"}}},
      {"an address that is named twice is one", {{answer({"10.0.0.1", "10.0.0.1"}), {}, "1=10.0.0.1"}}},
      {"one that takes connections stays, however long answers lack it",
       {{both, {}, "1=10.0.0.1 2=10.0.0.2"},
        {one, {}, "1=10.0.0.1 2=10.0.0.2"},
        {one, {}, "1=10.0.0.1 2=10.0.0.2"},
        {one, {}, "1=10.0.0.1 2=10.0.0.2"},
        {one, {}, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1"}}},
      {"one that takes none stays while answers have it, and for three intervals",
       {{both, two, "1=10.0.0.1 2=10.0.0.2"},
        {both, two, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1 2=10.0.0.2"},
        {both, two, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1 2=10.0.0.2"},
        {one, two, "1=10.0.0.1"}}},
      {"an empty answer is none",
       {{both, {}, "1=10.0.0.1 2=10.0.0.2"},
        {{}, both, "1=10.0.0.1 2=10.0.0.2"},
        {{}, both, "1=10.0.0.1 2=10.0.0.2"},
        {{}, both, "1=10.0.0.1 2=10.0.0.2"},
        {{}, both, "1=10.0.0.1 2=10.0.0.2"},
        {one, both, "1=10.0.0.1 2=10.0.0.2"}}},
      {"a number is not given to another machine in the answer with which the first one leaves",
       {{both, {}, "1=10.0.0.1 2=10.0.0.2"},
        {two, one, "1=10.0.0.1 2=10.0.0.2"},
        {two, one, "1=10.0.0.1 2=10.0.0.2"},
        {answer({"10.0.0.2", "10.0.0.7"}), one, "2=10.0.0.2 3=10.0.0.7"},
        {answer({"10.0.0.2", "10.0.0.7", "10.0.0.8"}), one, "1=10.0.0.8 2=10.0.0.2 3=10.0.0.7"}}},
      {"of both families the IPv4 addresses count", {{answer({"fd00::1", "10.0.0.1", "fd00::2"}), {}, "1=10.0.0.1"}}},
      {"IPv6 alone is fine", {{answer({"fd00::2", "fd00::1"}), {}, "1=fd00::1 2=fd00::2"}}},
      {"answers without IPv4 do not replace IPv4 members",
       {{one, {}, "1=10.0.0.1"},
        {answer({"fd00::1"}), {}, "1=10.0.0.1"},
        {answer({"fd00::1"}), {}, "1=10.0.0.1"},
        {answer({"fd00::1"}), {}, "1=10.0.0.1"},
        {answer({"fd00::1"}), {}, "1=10.0.0.1"}}},
      {"nor does IPv4 join the same machines that are there by IPv6",
       {{answer({"fd00::1"}), {}, "1=fd00::1"}, {answer({"fd00::1", "10.0.0.1"}), {}, "1=fd00::1"}}},
      {"a service that has moved to IPv6 is followed",
       {{one, {}, "1=10.0.0.1"},
        {answer({"fd00::1"}), one, "1=10.0.0.1 2=fd00::1"},
        {answer({"fd00::1"}), one, "1=10.0.0.1 2=fd00::1"},
        {answer({"fd00::1"}), one, "2=fd00::1"}}},
  };
  for (const auto& [what, steps] : stories) {
    Story story;
    for (const auto& [answered, gone, wanted] : steps) {
      const auto before = text_of(story.members);
      story.gone = {gone.begin(), gone.end()};
      EXPECT_EQ(story.answered(answered), before != wanted) << what << ": " << wanted;
      EXPECT_EQ(text_of(story.members), wanted) << what;
    }
  }
}

TEST(Members, LeaveWithTheFirstAnswerThatLacksThemWhereAnswersAreComplete) {
  Story story;
  story.complete = true;
  EXPECT_TRUE(story.answered(answer({"10.0.0.1", "10.0.0.2", "10.0.0.3"})));
  EXPECT_FALSE(story.answered({})) << "an empty answer is none";
  EXPECT_FALSE(story.answered(answer({"fd00::1"}))) << "nor is one of the other family";
  EXPECT_TRUE(story.answered(answer({"10.0.0.1", "10.0.0.3", "10.0.0.4"})));
  EXPECT_EQ(text_of(story.members), "1=10.0.0.1 3=10.0.0.3 4=10.0.0.4");
  story.taken = {2};  // Its requests are not over.
  EXPECT_TRUE(story.answered(answer({"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"})));
  EXPECT_EQ(text_of(story.members), "1=10.0.0.1 3=10.0.0.3 4=10.0.0.4 5=10.0.0.2");
}

TEST(Members, GetNoNumberOfAReplicaThatStillLeaves) {
  Story story;
  story.taken = {1, 3};
  EXPECT_TRUE(story.answered(answer({"10.0.0.1", "10.0.0.2"})));
  EXPECT_EQ(text_of(story.members), "2=10.0.0.1 4=10.0.0.2");
}

TEST(Members, AreNeverMoreThanABound) {
  std::vector<Address> many;
  for (unsigned i = 0; i < 3000; ++i) many.push_back(boost::asio::ip::address_v4(0x0a000000 + i));
  Story story;
  EXPECT_TRUE(story.answered(many));
  EXPECT_EQ(story.members.list().size(), Members::most);
  EXPECT_FALSE(story.answered(many));
}

/// Answers are random subsets of the machines that run. Members in it keep their numbers; one that is gone leaves three
/// intervals later, and no number passes to another machine at once.
TEST(Members, KeepTheirPromisesOverAnswersThatAreRandomSubsets) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 300; ++run) {
    Story story;
    std::vector<Address> running;
    unsigned next = 0;
    const auto begin = [&] { running.push_back(boost::asio::ip::address_v4(0x0a000000 + next++)); };
    for (int i = 0; i < 6; ++i) begin();
    std::map<Address, int> last_named;
    for (int step = 0; step < 60; ++step) {
      if (random() % 8 == 0 && running.size() > 1) {
        const auto ends = running.begin() + static_cast<std::ptrdiff_t>(random() % running.size());
        story.gone.insert(*ends);
        running.erase(ends);
      }
      if (random() % 8 == 0) begin();
      auto answered = running;
      std::ranges::shuffle(answered, random);
      answered.resize(std::min<std::size_t>(answered.size(), 3));
      if (random() % 5 == 0) answered = answer({"fd00::1"});  // IPv6 alone: it changes nothing.
      const bool is_none = answered.front().is_v6();
      for (const auto& address : answered) last_named[address] = step;
      std::map<Address, unsigned> before, after;
      for (const auto& one : story.members.list()) before[one.address] = one.number;
      const bool changed = story.answered(answered);
      std::set<unsigned> numbers;
      for (const auto& one : story.members.list()) {
        after[one.address] = one.number;
        EXPECT_TRUE(numbers.insert(one.number).second);
      }
      EXPECT_EQ(changed, before != after);
      if (is_none && !before.empty()) {
        EXPECT_FALSE(changed);
        continue;
      }
      for (const auto& [address, number] : before) {
        if (after.contains(address)) {
          EXPECT_EQ(after[address], number);
          continue;
        }
        EXPECT_TRUE(story.gone.contains(address)) << "who runs does not leave";
        EXPECT_GE(step - last_named[address], Members::intervals_without);
        EXPECT_FALSE(numbers.contains(number)) << "its number is nobody else's yet";
      }
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

const Drains::Who fixed{"a", ""}, member{"gpu", "10.0.0.2"};

TEST(Drains, AMemberIsKnownByItsAddressAndAnyOtherReplicaByItsName) {
  config::Replica one;
  one.name = "a-7";
  one.url.host = "10.0.0.2";
  EXPECT_EQ(Drains::who(one), Drains::Who("a-7", ""));
  one.expand = true;
  EXPECT_EQ(Drains::who(one), Drains::Who("a", "10.0.0.2"));
  one.name = "a-7-12";
  EXPECT_EQ(Drains::who(one), Drains::Who("a-7", "10.0.0.2"));
}

TEST(Drains, TellOnceThatNothingIsLeft) {
  Drains drains;
  EXPECT_FALSE(drains.note_over(fixed)) << "it does not drain";
  drains.begin(fixed);
  EXPECT_TRUE(drains.note_over(fixed));
  drains.begin(fixed);
  EXPECT_FALSE(drains.note_over(fixed));
  drains.end(fixed);
  EXPECT_TRUE(drains.empty());
}

TEST(Drains, OfAMemberOutliveItsAbsenceForADayAndOthersTheirsForNoTime) {
  const auto begin = metrics::Moment() + std::chrono::hours(100);
  const std::set<Drains::Who> nobody, both{fixed, member};
  const std::set<std::string> gpu{"gpu"};
  Drains drains;
  drains.begin(fixed);
  drains.begin(member);
  drains.forget(both, gpu, begin);
  EXPECT_TRUE(drains.has(fixed) && drains.has(member));
  drains.forget(nobody, gpu, begin);
  EXPECT_FALSE(drains.has(fixed));
  drains.forget(nobody, gpu, begin + Drains::remembered - std::chrono::seconds(1));
  EXPECT_TRUE(drains.has(member));
  drains.forget(both, gpu, begin + Drains::remembered);
  EXPECT_TRUE(drains.has(member)) << "it is back in time";
  drains.forget(nobody, gpu, begin + 2 * Drains::remembered);
  EXPECT_TRUE(drains.has(member)) << "each absence has a day";
  drains.forget(nobody, gpu, begin + 3 * Drains::remembered);
  EXPECT_TRUE(drains.empty());
  drains.begin(member);
  drains.forget(nobody, {}, begin);
  EXPECT_TRUE(drains.empty()) << "the settings no longer have its name";
}

}  // namespace
}  // namespace weir::proxy::fleet
