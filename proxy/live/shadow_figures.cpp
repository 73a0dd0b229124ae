#include "proxy/live/shadow_figures.hpp"

#include <algorithm>
#include <utility>

#include "proxy/live/shard_sums.hpp"

namespace weir::proxy::live {

namespace ms = metrics::series;

void ShadowFigures::take(Now& now, const fleet::ShadowRuntime& shadow, std::size_t passed) {
  const auto& settings = shadow.settings;
  auto& memory = memory_in(memories_, settings.name);
  memory.seen = true;
  auto& row = now.shadows.emplace_back();
  row.name = settings.name;
  row.of = settings.of;
  row.twin = settings.twin;
  row.sample = settings.sample;
  row.control = settings.control;
  row.on = shadow.state->on.load();
  if (const auto began = shadow.state->began.load(); began != Moment::max()) {
    note_begin(memory.began, memory.began_wall, began, now);
    row.began = memory.began_wall;
  }
  row.in_flight = shadow.pool->balancer->figures().in_flight();
  row.max_in_flight = settings.max_in_flight;
  row.pairs = shadow.state->finished.load();
  for (const auto& one : now.replicas) {
    if (one.shadow != settings.name) continue;
    row.queued_tokens += one.queued_prefill_tokens;
    if (one.silent) row.silent = std::max(row.silent.value_or(0), *one.silent);
  }
  take_counts(row, memory, shadow, passed);
}

bool ShadowFigures::OfShadow::rest(std::size_t seconds) {
  counted_by = nullptr;  // The series may go, and another may have its address.
  for (auto& minute : mirrored) minute.end_second(seconds);
  return std::ranges::any_of(mirrored, [](const Minute& minute) { return !minute.empty(); });
}

void ShadowFigures::take_counts(ShadowNow& row, OfShadow& memory, const fleet::ShadowRuntime& shadow,
                                std::size_t passed) {
  const auto& replicas = shadow.pool->replicas;
  const auto& series = replicas.empty() ? shadow.pool->unassigned : replicas.front()->series;
  if (std::exchange(memory.counted_by, series.get()) != series.get()) memory.grown = {};
  for (std::size_t i = 0; i < memory.mirrored.size(); ++i) {
    auto& minute = memory.mirrored[i];
    minute.add(memory.grown[i].of(
        sum_of(series->shards(), [&](const ms::ReplicaShard& s) -> const auto& { return s.mirrored[i]; })));
    minute.end_second(passed);
    if (i == static_cast<std::size_t>(ms::Mirrored::sent)) {
      row.sent_60s = minute.sum();
      row.second_sent = minute.last();
    } else {
      if (minute.sum() > 0) row.dropped_60s.emplace_back(ms::mirrored_names[i], minute.sum());
      row.second_dropped += minute.last();
    }
  }
}

}  // namespace weir::proxy::live
