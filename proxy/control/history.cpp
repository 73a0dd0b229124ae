#include "proxy/control/history.hpp"

#include <algorithm>
#include <utility>

namespace weir::proxy::control {
namespace {

/// Requests would leave a shorter ring before their answers end: the longest would never count.
constexpr std::chrono::minutes least_ring{3};

}  // namespace

std::size_t History::take(metrics::record::FinishedRecords& finished, metrics::Moment now) {
  taken_ = finished.take(std::move(taken_));
  for (auto& record : taken_) take(record, now);
  return taken_.size();
}

void History::take(metrics::record::RequestRecord& record, metrics::Moment now) {
  if (on_finished) on_finished(record, now);
  if (record.role == metrics::Role::shadow) return keep_shadows(pairs_.shadow(std::move(record), now), now);
  keep(record, now);
  if (record.shadows > 0) keep_shadows(pairs_.primary(record, now), now);
}

void History::tick(metrics::Moment now) { keep_shadows(pairs_.take_missing(now), now); }

std::vector<const metrics::compare::samples::Sample*> History::samples_since(metrics::Moment moment) const {
  const auto first = std::ranges::lower_bound(came_, moment) - came_.begin();
  std::vector<const metrics::compare::samples::Sample*> since;
  since.reserve(samples_.size() - static_cast<std::size_t>(first));
  for (auto sample = samples_.begin() + first; sample != samples_.end(); ++sample) since.push_back(&*sample);
  return since;
}

void History::begin_anew(std::string_view shadow, metrics::Moment now) {
  const auto name = names_.of(shadow);
  mirrored_.begin_anew(name, wall_us(now));
  lost_.erase(name);
  std::erase_if(tables_, [name](const auto& one) { return one->is_of(name); });
  ++times_begun_anew_;
}

std::optional<std::int64_t> History::leaving_before_us() const {
  const std::size_t room = most_ / 8;
  if (samples_.size() + room <= most_) return std::nullopt;
  const auto leaves = came_[samples_.size() + room - most_];
  if (came_.back() - leaves < least_ring) return std::nullopt;
  return wall_us(leaves);
}

void History::keep_tables(std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables,
                          std::uint64_t times) {
  if (times == times_begun_anew_) tables_ = std::move(tables);
}

bool History::is_in_table(const metrics::compare::samples::Sample& sample) const {
  return std::ranges::any_of(
      tables_, [&](const auto& one) { return one->is_of(sample.shadow) && sample.dispatched_us < one->until_us; });
}

void History::keep(const metrics::record::RequestRecord& record, metrics::Moment now) {
  came_.push_back(now);
  samples_.push_back(metrics::compare::samples::sample_of(record, names_));
  auto& sample = samples_.back();
  const std::int64_t ahead = wall_us(record.received) - sample.received_us;
  sample.received_us += ahead;
  sample.dispatched_us += ahead;
  mirrored_.add(sample);
  const auto loses = [this](const auto& one, bool is_in_one) {
    return one.role == metrics::Role::shadow && counts(one) && is_in_table(one) == is_in_one;
  };
  if (loses(sample, true)) ++lost_[sample.shadow];
  for (; samples_.size() > most_; came_.pop_front()) {
    if (loses(samples_.front(), false)) ++lost_[samples_.front().shadow];
    samples_.pop_front();
  }
}

void History::keep_shadows(const std::vector<metrics::record::RequestRecord>& records, metrics::Moment now) {
  for (const auto& record : records) {
    log_.write(record);
    keep(record, now);
  }
}

}  // namespace weir::proxy::control
