#include "proxy/live/key_figures.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "proxy/live/shard_sums.hpp"

namespace weir::proxy::live {

void KeyFigures::finished(const metrics::record::RequestRecord& record) {
  if (record.key.empty()) return;
  auto key = memories_.find(record.key);
  if (key == memories_.end()) {
    if (memories_.size() >= most_counted_keys) return;
    key = memories_.try_emplace(record.key).first;
  }
  auto& memory = key->second;
  const auto& answer = record.answer;
  memory.requests.add(record.outcome);
  memory.tokens_in.add(static_cast<double>(answer.prompt_tokens.value_or(0)));
  memory.tokens_out.add(static_cast<double>(answer.output_tokens.value_or(answer.counted_tokens)));
}

void KeyFigures::take(Now& now, const keys::ClientKeys* keys, std::size_t passed) {
  for (auto& [name, memory] : memories_) {
    memory.requests.end_second(passed);
    memory.tokens_in.end_second(passed);
    memory.tokens_out.end_second(passed);
  }
  std::erase_if(memories_, [](const auto& one) { return one.second.is_quiet(); });
  const bool any_wait = std::ranges::any_of(now.pools, [](const auto& pool) { return pool.waiting > 0; });
  if (keys == nullptr || (!any_wait && waits_.empty())) return;
  take_waits(*keys, passed);
  list(now, *keys);
}

void KeyFigures::take_waits(const keys::ClientKeys& keys, std::size_t passed) {
  keys.each([&](const keys::ClientKey& key) {
    const auto& name = key.settings.name;
    const auto known = waits_.find(name);
    const bool some_wait = key.use->waiting.load(std::memory_order_relaxed) > 0;
    if (known == waits_.end() && !some_wait) return;
    auto& memory = known != waits_.end() ? known->second : waits_[name];
    memory.ended.add(memory.waits.of(static_cast<double>(key.use->waits.load(std::memory_order_relaxed))));
    memory.seconds.add(memory.waited.of(
        static_cast<double>(key.use->waited_nanoseconds.load(std::memory_order_relaxed)) / nanoseconds));
    memory.ended.end_second(passed);
    memory.seconds.end_second(passed);
    memory.seen = some_wait || !memory.ended.empty();
  });
  forget_unseen(waits_);
}

std::vector<KeyNow> KeyFigures::rows_of(const keys::ClientKeys& keys) const {
  std::vector<KeyNow> rows;
  keys.each([&](const keys::ClientKey& key) {
    const auto open = key.use->requests.load(std::memory_order_relaxed) + key.of_earlier_secrets();
    const auto& name = key.settings.name;
    const auto counted = memories_.find(name);
    const auto waited = waits_.find(name);
    if (open == 0 && counted == memories_.end() && waited == waits_.end()) return;
    auto& row = rows.emplace_back();
    row.name = name;
    row.open = open;
    row.max_in_flight = key.settings.max_in_flight;
    row.waiting = key.use->waiting.load(std::memory_order_relaxed);
    if (waited != waits_.end()) {
      const auto& memory = waited->second;
      row.waits = memory.ended.lately();
      if (row.waits > 0) row.wait = memory.seconds.lately() / row.waits;
    }
    if (counted == memories_.end()) return;
    const auto& memory = counted->second;
    row.requests_60s = memory.requests.all.sum();
    row.failed_60s = memory.requests.failed.sum();
    row.refused_60s = memory.requests.refused.sum();
    row.requests_per_s = memory.requests.all.per_second();
    row.tokens_in_per_s = memory.tokens_in.per_second();
    row.tokens_out_per_s = memory.tokens_out.per_second();
  });
  return rows;
}

void KeyFigures::list(Now& now, const keys::ClientKeys& keys) const {
  auto rows = rows_of(keys);
  const auto rank = [](const KeyNow& key) { return std::tuple(key.waiting, key.open, key.requests_60s); };
  std::ranges::sort(rows, [&](const KeyNow& a, const KeyNow& b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a.name < b.name;
  });
  now.keys_left_off = rows.size() > most_keys ? rows.size() - most_keys : 0;
  rows.resize(rows.size() - now.keys_left_off);
  now.keys = std::move(rows);
}

}  // namespace weir::proxy::live
