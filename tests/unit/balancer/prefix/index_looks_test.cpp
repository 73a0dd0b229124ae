// Two indexes, of which one may remember what it has looked up.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/balancer/prefix/prefixes.hpp"

namespace weir::balancer::prefix_index {
namespace {

/// A prompt that is looked up again is not looked for again, if nothing has changed. Beside the index that may remember
/// stands one that gets another object each time.
TEST(PrefixLooks, AreRememberedUntilAnythingChanges) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    PrefixIndex one, other;
    const auto both = [&](auto change) {
      change(one);
      change(other);
    };
    std::uint32_t serial = 2;
    std::array<Serial, 2> serials{1, 2};
    std::vector<std::unique_ptr<PromptPrefix>> kept;  // So that no address comes twice.
    std::vector<PromptPrefix> prompts;
    for (std::uint64_t i = 0; i < 4; ++i) prompts.push_back(prompt_of({1, i / 2, i, 7, 8, 9}));
    for (ReplicaIndex i = 0; i < 2; ++i) both([&](auto& index) { index.place({i, serials[i]}, 3000); });
    struct UnderWay {
      std::size_t which;
      ReplicaIndex replica;
      PrefixPrediction by_one, by_other;
    };
    std::vector<UnderWay> under_way;
    PromptPrefix watched = prompts[0];
    const auto look = [&](Tokens prompt) {
      kept.push_back(std::make_unique<PromptPrefix>(watched));
      return std::pair(one.look(watched, prompt), other.look(*kept.back(), prompt));
    };
    for (int step = 0; step < 200; ++step) {
      const auto replica = static_cast<ReplicaIndex>(random() % 2);
      const auto which = random() % prompts.size();
      const Tokens tokens = tokens_of(prompts[which]);
      switch (random() % 9) {
        case 0:
          serials[replica] = ++serial;
          both([&](auto& index) { index.place({replica, serials[replica]}, 3000); });
          break;
        case 1:
          both([&](auto& index) { index.wipe(replica, PrefixWipe::down); });
          break;
        case 2:
          both([&, more = random() % 5000 + 500](auto& index) { index.place({replica, serials[replica]}, more); });
          break;
        case 3:
          both([](auto& index) { index.forget_prompts(); });
          break;
        case 4:
          watched = prompts[which];
          break;
        default: {
          std::vector<PrefixPrediction> sent;
          both([&](auto& index) { sent.push_back(index.sent(prompts[which], replica, tokens)); });
          under_way.push_back({which, replica, sent[0], sent[1]});
          look(tokens_of(watched));
          if (random() % 3 == 0) break;
          const auto cached = random() % tokens;
          const auto place = static_cast<std::ptrdiff_t>(random() % under_way.size());
          const auto [ended, of, by_one, by_other] = under_way[static_cast<std::size_t>(place)];
          const PromptPrefix& prompt = prompts[ended];
          const Tokens length = tokens_of(prompt);
          switch (random() % 3) {
            case 0:
              one.failed(prompt, by_one, of);
              other.failed(prompt, by_other, of);
              break;
            case 1:
              one.computed(prompt, by_one, of);
              other.computed(prompt, by_other, of);
              break;
            default:
              one.answered(by_one, of, length, {.prompt = length * 3 / 4, .cached = cached, .output = 30});
              other.answered(by_other, of, length, {.prompt = length * 3 / 4, .cached = cached, .output = 30});
          }
          under_way.erase(under_way.begin() + place);
        }
      }
      for (const Tokens prompt : {tokens_of(watched), tokens_of(watched) / 2, tokens_of(watched)}) {
        const auto [by_one, by_other] = look(prompt);
        for (ReplicaIndex i = 0; i < 2; ++i) {
          ASSERT_EQ(by_one[i].held, by_other[i].held) << "seed " << seed << ", step " << step;
          ASSERT_EQ(by_one[i].remembered, by_other[i].remembered) << "seed " << seed << ", step " << step;
          ASSERT_EQ(by_one[i].answer, by_other[i].answer) << "seed " << seed << ", step " << step;
          ASSERT_EQ(by_one[i].uses, by_other[i].uses) << "seed " << seed << ", step " << step;
        }
        ASSERT_EQ(one.refine(watched, prompt), other.refine(*kept.back(), prompt))
            << "seed " << seed << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace weir::balancer::prefix_index
