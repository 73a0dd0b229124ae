#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "config/keys.hpp"
#include "proxy/keys/client_keys.hpp"

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

TEST(KeySlot, AKeyHasAsManyAsItMayAndEachIsGivenBackOnce) {
  const ClientKeys keys({key("a", "k", 2), key("b", "l")}, nullptr);
  std::optional<KeySlot> first(keys.find("k")), second(std::in_place, keys.find("k"));
  EXPECT_TRUE(first->got());
  EXPECT_TRUE(second->got());
  {
    const KeySlot third(keys.find("k")), other(keys.find("l"));
    EXPECT_FALSE(third.got());
    EXPECT_TRUE(other.got());
  }
  EXPECT_EQ(keys.find("k")->use->requests, 2u) << "one that was refused gives nothing back";
  second.reset();
  EXPECT_TRUE(KeySlot(keys.find("k")).got());
  first.reset();
  EXPECT_EQ(keys.find("k")->use->requests, 0u);
}

TEST(KeySlot, IsThereForAClientThatNeedsNoKey) { EXPECT_TRUE(KeySlot(nullptr).got()); }

/// Clients' keys over many reloads, and beside them a plain account: whose each secret's requests are.
class ManyReloads {
 public:
  explicit ManyReloads(unsigned seed) : random_(seed) { reload(); }

  void step() {
    switch (below(7)) {
      case 0:
        return reload();
      case 1:
        if (snapshots_.size() > 1)
          snapshots_.erase(std::next(snapshots_.begin(), below(static_cast<int>(snapshots_.size()) - 1)));
        return;
      case 2:
        if (requests_.empty()) return;
        requests_.erase(std::next(requests_.begin(), below(static_cast<int>(requests_.size()))));
        return;
      default:
        return begin();
    }
  }
  /// Compares each key's count with the account.
  void check() const {
    for (const auto& one : file_) {
      const auto* const key = now().find(secret_of_.at(one.name));
      ASSERT_EQ(key->use->requests + key->of_earlier_secrets(), counted_for(secret_of_.at(one.name))) << one.name;
    }
  }
  void end_all() {
    requests_.clear();
    snapshots_.erase(snapshots_.begin(), std::prev(snapshots_.end()));
    EXPECT_EQ(ClientKeys(file_, &now()).remembered(), 0u) << "a secret is forgotten when its requests have ended";
  }
  int refused() const { return refused_; }

 private:
  struct Request {
    std::string secret;
    KeySlot place;
    Request(std::string secret_, const ClientKey* key) : secret(std::move(secret_)), place(key) {}
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  const ClientKeys& now() const { return *snapshots_.back(); }
  std::uint32_t counted_for(const std::string& secret) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        requests_, [&](const auto& request) { return counts_for_.at(request.secret) == secret; }));
  }

  /// Gives some of four names some of six secrets: keys are added, removed, renamed, rotated, and come back.
  void reload() {
    const auto old = secret_of_;
    std::set<std::string> old_secrets, secrets;
    for (const auto& [name, secret] : old) old_secrets.insert(secret);
    for (int changes = 1 + below(2); changes > 0; --changes) {
      const auto name = "name" + std::to_string(below(4)), secret = "secret" + std::to_string(below(6));
      std::erase_if(secret_of_, [&](const auto& one) { return one.second == secret; });
      if (secret_of_.empty() || below(3) > 0) {
        secret_of_[name] = secret;
      } else if (secret_of_.size() > 1) {
        secret_of_.erase(name);
      }
    }
    file_.clear();
    for (const auto& [name, secret] : secret_of_) {
      file_.push_back(key(name, secret, 1 + below(2)));
      secrets.insert(secret);
    }
    for (const auto& [name, secret] : old) {
      if (secrets.contains(secret)) continue;
      const auto same_name = secret_of_.find(name);
      if (same_name == secret_of_.end() || old_secrets.contains(same_name->second)) continue;
      for (auto& [of, whose] : counts_for_)
        if (whose == secret) whose = same_name->second;
    }
    for (const auto& secret : secrets) counts_for_[secret] = secret;
    snapshots_.push_back(std::make_unique<ClientKeys>(file_, snapshots_.empty() ? nullptr : &now()));
  }

  /// Begins a request, mostly in the newest snapshot. One of an older snapshot has what its settings said.
  void begin() {
    const auto newest = below(4) > 0;
    const auto& snapshot = newest ? now() : **std::next(snapshots_.begin(), below(static_cast<int>(snapshots_.size())));
    const auto secret = "secret" + std::to_string(below(6));
    const auto* const key = snapshot.find(secret);
    if (key == nullptr) return;
    const auto before = counted_for(secret);
    requests_.emplace_back(secret, key);
    const bool got = requests_.back().place.got();
    if (&snapshot == &now()) {
      EXPECT_EQ(got, before < *key->settings.max_in_flight) << key->settings.name;
    }
    if (got) return;
    ++refused_;
    requests_.pop_back();
  }

  std::mt19937 random_;
  std::map<std::string, std::string> secret_of_;   ///< By name.
  std::map<std::string, std::string> counts_for_;  ///< By secret: the secret with which its requests count.
  std::vector<config::ClientKey> file_;
  std::list<std::unique_ptr<ClientKeys>> snapshots_;
  std::list<Request> requests_;
  int refused_ = 0;
};

TEST(ClientKeys, CountEachRequestForWhoHasItsSecretWhateverReloadsHappen) {
  int refused = 0;
  for (unsigned seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ManyReloads story(seed);
    for (int i = 0; i < 200 && !HasFailure(); ++i) {
      story.step();
      story.check();
    }
    story.end_all();
    refused += story.refused();
  }
  EXPECT_GT(refused, 1000) << "else no limit was met";
}

TEST(ClientKeys, TakeAsLongForEachOfManyAsOfFew) {
  const auto some = [](const std::string& name, const std::string& secret, int n) {
    std::vector<config::ClientKey> all;
    for (int i = 0; i < n; ++i) all.push_back(key(name + std::to_string(i), secret + std::to_string(i)));
    return all;
  };
  const auto seconds = [&](int n) {
    const ClientKeys before(some("client", "weir-", n), nullptr);
    const std::vector<std::vector<config::ClientKey>> next{some("client", "weir-", n), some("client", "new-", n),
                                                           some("renamed", "weir-", n), some("other", "other-", 1)};
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::clock();
      for (const auto& settings : next) {
        const ClientKeys after(settings, &before);
        const ClientKeys and_after(next[0], &after);
      }
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(4000), 24 * seconds(500)) << "eight times the keys; squares would be 64";
}

TEST(RandomKey, HasAPrefixAnd256BitsInBase64url) {
  std::set<std::string> all;
  std::set<char> letters;
  for (int i = 0; i < 200; ++i) {
    const auto key = random_key();
    EXPECT_EQ(key.size(), 5u + 43u);
    EXPECT_TRUE(key.starts_with("weir-"));
    for (const char c : key.substr(5)) {
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') << key;
      letters.insert(c);
    }
    all.insert(key);
  }
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(letters.size(), 64u) << "8600 letters that are all alike likely miss none";
}

TEST(LinesOfAKey, AreReadBackAsWhatWasWanted) {
  NewKey wanted;
  wanted.name = "alice";
  wanted.models = {"org/m", "a \"quoted\" \\ one"};
  wanted.max_in_flight = 7;
  wanted.share = 0.25;
  for (const bool all : {true, false}) {
    if (!all) wanted = {.name = "alice", .models = {}, .max_in_flight = {}, .share = {}, .append_to = ""};
    const auto lines = lines_of(wanted, "the-key");
    EXPECT_EQ(lines.find("the-key"), std::string::npos);
    const auto result = config::load_keys(lines, "keys.toml");
    const auto* const keys = std::get_if<std::vector<config::ClientKey>>(&result);
    ASSERT_NE(keys, nullptr) << lines;
    ASSERT_EQ(keys->size(), 1u);
    const auto& key = keys->front();
    EXPECT_EQ(key.name, "alice");
    EXPECT_EQ(key.sha256, sha256("the-key"));
    EXPECT_EQ(key.models, wanted.models);
    EXPECT_EQ(key.max_in_flight, wanted.max_in_flight);
    EXPECT_EQ(key.share, wanted.share.value_or(1));
  }
}

}  // namespace
}  // namespace weir::proxy::keys
