#include "lab/load/traces/mooncake_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load::traces {
namespace {

constexpr std::uint64_t tokens_per_id = 512;

std::uint64_t chained(std::uint64_t chain, std::uint64_t next) {
  std::uint64_t x = (chain ^ next) * 0x9e3779b97f4a7c15u;
  x ^= x >> 32;
  return x * 0xbf58476d1ce4e5b9u;
}

/// Names the beginnings of a prompt: what `ids` has for a beginning is its number.
class Beginnings {
 public:
  explicit Beginnings(std::unordered_map<std::uint64_t, std::uint64_t>& ids) : ids_(ids) {}

  /// The next tokens are the first ones of this text.
  void add(std::uint64_t text, std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < tokens; ++i) {
      chain_ = chained(chained(chain_, text), i);
      if (++count_ % tokens_per_id == 0) name();
    }
  }
  std::vector<std::uint64_t> take() {
    if (count_ % tokens_per_id != 0) name();
    return std::move(named_);
  }

 private:
  void name() { named_.push_back(ids_.try_emplace(chain_, ids_.size()).first->second); }

  std::unordered_map<std::uint64_t, std::uint64_t>& ids_;
  std::uint64_t chain_ = 0, count_ = 0;
  std::vector<std::uint64_t> named_;
};

std::vector<std::uint64_t> ids_of(const TraceEntry& entry, std::unordered_map<std::uint64_t, std::uint64_t>& ids) {
  // Texts of blocks, of parts and of no other request are kept apart, as in lab/load/workload.cpp.
  constexpr std::uint64_t of_block = 1, of_part = 2, own = 3;
  Beginnings beginnings(ids);
  std::uint64_t left = entry.prompt_tokens;
  const auto add = [&](std::uint64_t text, std::uint64_t tokens) {
    const std::uint64_t taken = std::min(left, tokens);
    beginnings.add(text, taken);
    left -= taken;
  };
  for (const std::uint64_t block : entry.blocks) add(chained(of_block, block), entry.block_tokens);
  for (std::size_t i = 0; i < entry.parts.size() && entry.blocks.empty(); ++i)
    add(chained(of_part, entry.parts[i].text), entry.parts[i].tokens);
  add(chained(own, entry.conversation), left);
  return beginnings.take();
}

}  // namespace

void write_mooncake(std::ostream& out, std::span<const TraceEntry> entries) {
  std::unordered_map<std::uint64_t, std::uint64_t> ids;
  for (const TraceEntry& entry : entries) {
    metrics::wire::JsonWriter line;
    line.open('{').key("timestamp").count(static_cast<std::uint64_t>(std::llround(1e3 * std::max(0.0, entry.at))));
    line.key("input_length").count(entry.prompt_tokens).key("output_length").count(entry.output_tokens);
    line.key("hash_ids").open('[');
    for (const std::uint64_t id : ids_of(entry, ids)) line.count(id);
    out << line.close(']').close('}').written() << '\n';
  }
}

}  // namespace weir::lab::load::traces
