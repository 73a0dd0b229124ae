#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"

namespace weir::lab::engine {
namespace {

/// The same memory as a list of blocks that is searched for everything.
class NaiveMemory {
 public:
  NaiveMemory(std::uint64_t kv_tokens, std::uint64_t hit_tokens)
      : blocks_(kv_tokens / block_tokens), hit_tokens_(hit_tokens) {}

  std::size_t found(const Sequence& sequence) const {
    std::size_t n = 0;
    for (const std::uint64_t name : sequence.reusable_blocks()) {
      if (std::ranges::none_of(blocks_, [name](const Block& b) { return b.name == name; })) break;
      ++n;
    }
    while (n * block_tokens % hit_tokens_ != 0) --n;
    return n;
  }
  std::optional<std::uint64_t> admit(const Sequence& sequence) {
    const std::size_t n = found(sequence);
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < n; ++i) {
      const auto it = std::ranges::find(blocks_, sequence.blocks[i], &Block::name);
      mine.push_back(static_cast<std::size_t>(it - blocks_.begin()));
    }
    // A sequence fits if all admitted ones could go on to their ends, without any block that nobody uses.
    auto users = users_;
    for (const std::size_t block : mine) ++users[block];
    std::uint64_t need = needed(sequence) - n;
    for (const auto& [id, held] : held_) need += held.needed - held.blocks.size();
    for (const auto& [block, count] : users) need += count > 0 ? 1 : 0;
    if (need > blocks_.size()) return std::nullopt;
    users_ = users;
    held_[sequence.id] = {mine, needed(sequence), n};
    return n * block_tokens;
  }
  void computed(const Sequence& sequence, std::uint64_t tokens) {
    Held& held = held_.at(sequence.id);
    while (held.blocks.size() * block_tokens < tokens) {
      const std::size_t block = oldest();
      blocks_[block] = {};
      ++users_[block];
      held.blocks.push_back(block);
    }
    for (std::size_t i = held.named; i < tokens / block_tokens && i < sequence.blocks.size(); ++i) {
      const std::uint64_t name = sequence.blocks[i];
      // A block that another sequence has computed meanwhile has no name.
      if (std::ranges::none_of(blocks_, [name](const Block& b) { return b.name == name; }))
        blocks_[held.blocks[i]].name = name;
      held.named = i + 1;
    }
  }
  void release(const Sequence& sequence) {
    const Held held = held_.at(sequence.id);
    held_.erase(sequence.id);
    for (auto block = held.blocks.rbegin(); block != held.blocks.rend(); ++block) {
      if (--users_[*block] == 0) blocks_[*block].freed = ++clock_;
    }
  }
  void flush() {
    for (Block& block : blocks_) block.name.reset();
  }
  std::uint64_t reserved() const {
    std::uint64_t sum = 0;
    for (const auto& [id, held] : held_) sum += held.needed - held.blocks.size();
    for (const auto& [block, count] : users_) sum += count > 0 ? 1 : 0;
    return sum * block_tokens;
  }

 private:
  struct Block {
    std::optional<std::uint64_t> name{};
    std::uint64_t freed = 0;
  };
  struct Held {
    std::vector<std::size_t> blocks;
    std::uint64_t needed = 0;
    std::size_t named = 0;
  };
  static std::uint64_t needed(const Sequence& sequence) {
    return (sequence.prompt_tokens + sequence.output_tokens + 15) / 16;
  }
  /// Blocks without a name come first; then those freed longest ago.
  std::size_t oldest() {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (users_[i] > 0) continue;
      const auto key = [this](std::size_t b) { return std::pair(blocks_[b].name.has_value(), blocks_[b].freed); };
      if (!best || key(i) < key(*best)) best = i;
    }
    return *best;
  }

  std::vector<Block> blocks_;
  std::uint64_t hit_tokens_;
  std::map<std::size_t, std::uint64_t> users_;
  std::map<SequenceId, Held> held_;
  std::uint64_t clock_ = 0;
};

/// Sequences of a few families, which part somewhere.
Sequence sequence_of(SequenceId id, Random& random) {
  const std::uint64_t family = random.below(3), shared = random.below(160);
  Sequence sequence{id, 1 + random.below(200), 1 + random.below(100), {}};
  PromptBlocks blocks;
  for (std::uint64_t i = 0; i < sequence.tokens(); ++i) blocks.add(i < shared ? family * 1'000 + i : id * 100'000 + i);
  sequence.blocks = blocks.take();
  if (random.below(8) == 0) sequence.blocks.resize(random.below(sequence.blocks.size() + 1));
  return sequence;
}

TEST(BlockMemory, IsAsTheNaiveOneWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::uint64_t kv_tokens = 300 + random.below(1'200);
    const std::uint64_t hit_tokens = block_tokens << random.below(3);
    BlockMemory memory(kv_tokens, hit_tokens);
    NaiveMemory naive(kv_tokens, hit_tokens);
    struct Admitted {
      Sequence sequence;
      std::uint64_t tokens = 0;
    };
    std::vector<Admitted> admitted;
    for (SequenceId id = 1; id <= 800; ++id) {
      const std::uint64_t what = random.below(100);
      if (what < 35) {
        const Sequence sequence = sequence_of(id, random);
        ASSERT_EQ(memory.cached(sequence), naive.found(sequence) * block_tokens);
        const auto found = memory.admit(sequence);
        ASSERT_EQ(found, naive.admit(sequence));
        ASSERT_TRUE(found || !admitted.empty() || !memory.could_fit(sequence));
        if (found) admitted.push_back({sequence, *found});
      } else if (what == 35) {
        memory.flush();
        naive.flush();
      } else if (!admitted.empty()) {
        const std::size_t i = random.below(admitted.size());
        auto& [sequence, tokens] = admitted[i];
        if (what < 55 || tokens + 1 >= sequence.tokens()) {
          memory.release(sequence);
          naive.release(sequence);
          admitted.erase(admitted.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          tokens += 1 + random.below(sequence.tokens() - 1 - tokens);
          memory.computed(sequence, tokens);
          naive.computed(sequence, tokens);
        }
      }
      ASSERT_EQ(memory.reserved(), naive.reserved());
      ASSERT_LE(memory.reserved(), kv_tokens);
    }
    for (const auto& one : admitted) memory.release(one.sequence);
    EXPECT_EQ(memory.reserved(), 0u);
  }
}

}  // namespace
}  // namespace weir::lab::engine
