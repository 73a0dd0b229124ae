#include "lab/engine/kv_memory.hpp"

#include "lab/engine/block_memory.hpp"
#include "lab/engine/slot_memory.hpp"

namespace weir::lab::engine {
namespace {

/// A memory that keeps nothing.
class PlainMemory final : public KvMemory {
 public:
  explicit PlainMemory(std::uint64_t kv_tokens) : kv_tokens_(kv_tokens) {}

  bool could_fit(const Sequence& sequence) const override { return sequence.tokens() <= kv_tokens_; }
  std::optional<std::uint64_t> admit(const Sequence& sequence) override {
    if (reserved_ + sequence.tokens() > kv_tokens_) return std::nullopt;
    reserved_ += sequence.tokens();
    return 0;
  }
  void computed(const Sequence&, std::uint64_t) override {}
  void release(const Sequence& sequence) override { reserved_ -= sequence.tokens(); }
  std::uint64_t cached(const Sequence&) const override { return 0; }
  void flush() override {}
  std::uint64_t reserved() const override { return reserved_; }

 private:
  std::uint64_t kv_tokens_;
  std::uint64_t reserved_ = 0;
};

}  // namespace

std::unique_ptr<KvMemory> make_kv_memory(PrefixCaching caching, std::uint64_t kv_tokens, std::uint32_t most_sequences,
                                         std::uint64_t hit_tokens) {
  switch (caching) {
    case PrefixCaching::blocks:
      return std::make_unique<BlockMemory>(kv_tokens, hit_tokens);
    case PrefixCaching::slots:
      return std::make_unique<SlotMemory>(kv_tokens, most_sequences);
    case PrefixCaching::none:
      break;
  }
  return std::make_unique<PlainMemory>(kv_tokens);
}

}  // namespace weir::lab::engine
