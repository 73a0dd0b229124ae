#include "proxy/control/history.hpp"

#include <algorithm>
#include <utility>

namespace weir::proxy::control {

void History::take(metrics::record::FinishedRecords& finished, metrics::Moment now) {
  for (auto& record : finished.take()) {
    if (record.role == metrics::Role::shadow) {
      keep_shadows(pairs_.shadow(std::move(record), now));
      continue;
    }
    keep(record);
    if (record.shadows > 0) keep_shadows(pairs_.primary(record, now));
  }
}

void History::look(metrics::Moment now) { keep_shadows(pairs_.take_missing(now)); }

void History::keep(const metrics::record::RequestRecord& record) {
  auto& sample = samples_.emplace_back(metrics::compare::samples::sample_of(record, names_));
  if (record.role == metrics::Role::shadow && record.mirrored->drop_reason.empty()) {
    const ShadowKey key(sample.config, sample.replica, sample.shadow);
    auto& first = first_mirrored_.emplace(key, sample.dispatched_us).first->second;
    first = std::min(first, sample.dispatched_us);
  }
  if (samples_.size() > most) samples_.pop_front();
}

void History::keep_shadows(const std::vector<metrics::record::RequestRecord>& records) {
  for (const auto& record : records) {
    log_.write(record);
    keep(record);
  }
}

}  // namespace weir::proxy::control
