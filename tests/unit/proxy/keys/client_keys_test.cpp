#include "proxy/keys/client_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "proxy/keys/sha256.hpp"

namespace weir::proxy::keys {
namespace {

config::ClientKey key(const std::string& name, const std::string& secret,
                      std::optional<std::uint32_t> max_in_flight = std::nullopt) {
  config::ClientKey one;
  one.name = name;
  one.sha256 = sha256(secret);
  one.max_in_flight = max_in_flight;
  return one;
}
std::string found(const ClientKeys& keys, std::string_view credential) {
  const auto* const one = keys.find(credential);
  return one == nullptr ? "nobody" : one->settings.name;
}

// FIPS 180-2, appendix B.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(ClientKeys, FindWhoseACredentialIs) {
  std::vector<config::ClientKey> settings;
  for (int i = 0; i < 500; ++i) settings.push_back(key("client" + std::to_string(i), "weir-" + std::to_string(i)));
  const ClientKeys keys(settings, nullptr);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(found(keys, "weir-" + std::to_string(i)), "client" + std::to_string(i));
  for (const auto* other : {"", "weir-", "weir-500", "Weir-1", "weir-1 ", " weir-1", "client1"})
    EXPECT_EQ(found(keys, other), "nobody") << other;
  EXPECT_EQ(found(keys, hex(sha256("weir-1"))), "nobody") << "who has the hash has no key";
}

TEST(ClientKeys, AnEmptyCredentialIsNobodysEvenIfItsHashIsThere) {
  EXPECT_EQ(found(ClientKeys({key("a", "")}, nullptr), ""), "nobody");
}

TEST(ClientKeys, HaveAtMost4096Bytes) {
  const std::string long_key(4096, 'k');
  const ClientKeys keys({key("a", long_key), key("b", long_key + 'k')}, nullptr);
  EXPECT_EQ(found(keys, long_key), "a");
  EXPECT_EQ(found(keys, long_key + 'k'), "nobody");
}

TEST(ClientKeys, MayUseTheModelsThatTheyName) {
  auto some = key("a", "k");
  some.models = {"m", "n"};
  const ClientKeys keys({some, key("b", "l")}, nullptr);
  EXPECT_TRUE(keys.find("k")->may_use("n"));
  for (const auto* model : {"", "o", "M", "m "}) {
    EXPECT_FALSE(keys.find("k")->may_use(model)) << model;
    EXPECT_TRUE(keys.find("l")->may_use(model)) << model;
  }
}

TEST(KeyPlace, AKeyHasAsManyAsItMayAndEachIsGivenBackOnce) {
  const ClientKeys keys({key("a", "k", 2), key("b", "l")}, nullptr);
  std::optional<KeyPlace> first(keys.find("k")), second(std::in_place, keys.find("k"));
  EXPECT_TRUE(first->got());
  EXPECT_TRUE(second->got());
  {
    const KeyPlace third(keys.find("k")), other(keys.find("l"));
    EXPECT_FALSE(third.got());
    EXPECT_TRUE(other.got());
  }
  EXPECT_EQ(keys.find("k")->use->requests, 2u) << "one that was refused gives nothing back";
  second.reset();
  EXPECT_TRUE(KeyPlace(keys.find("k")).got());
  first.reset();
  EXPECT_EQ(keys.find("k")->use->requests, 0u);
}

TEST(KeyPlace, IsThereForAClientThatNeedsNoKey) { EXPECT_TRUE(KeyPlace(nullptr).got()); }

TEST(ClientKeys, AReloadTakesOverTheCountsByName) {
  auto before = std::make_unique<ClientKeys>(std::vector{key("a", "k", 1), key("gone", "g", 1)}, nullptr);
  std::optional<KeyPlace> under_way(before->find("k"));
  const ClientKeys after({key("a", "other", 1), key("new", "g", 1)}, before.get());
  before.reset();
  EXPECT_EQ(found(after, "k"), "nobody") << "the old key is good no more";
  EXPECT_FALSE(KeyPlace(after.find("other")).got()) << "the request of the old key still counts";
  EXPECT_TRUE(KeyPlace(after.find("g")).got());
  under_way.reset();
  EXPECT_TRUE(KeyPlace(after.find("other")).got());
}

TEST(ClientKeys, TakeAsLongForEachOfManyAsOfFew) {
  const auto seconds = [](int n) {
    std::vector<config::ClientKey> all;
    for (int i = 0; i < n; ++i) all.push_back(key("client" + std::to_string(i), "weir-" + std::to_string(i)));
    const ClientKeys before(all, nullptr);
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::clock();
      const ClientKeys after(all, &before);
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(8000), 9 * seconds(2000)) << "four times the keys; squares would be 16";
}

}  // namespace
}  // namespace weir::proxy::keys
