#include "proxy/shadows/history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir::proxy::shadows {
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

namespace {

using metrics::record::RequestRecord;

/// Says what a shadow's answer has in common with its primary's.
void compare(RequestRecord& shadow, const metrics::record::Answer& primary) {
  auto& mirrored = shadow.mirrored.make();
  mirrored.joined = true;
  if (!mirrored.drop_reason.empty()) return;
  const auto like = metrics::record::likeness(*primary.fingerprint, *shadow.answer.fingerprint);
  mirrored.same_text = like.same_text;
  mirrored.common_prefix_bytes = like.common_prefix_bytes;
  mirrored.same_tools = like.same_tools;
  if (!like.calls) return;
  mirrored.primary_valid_tools = like.a_valid;
  mirrored.valid_tools = like.b_valid;
}

}  // namespace

Pairs::Entry& Pairs::entry(const std::string& id, metrics::Moment now) {
  const auto [found, is_new] = entries_.try_emplace(id);
  if (!is_new) return found->second;
  found->second.place = order_.insert(order_.end(), id);
  found->second.since = now;
  if (entries_.size() > most) drop(entries_.find(order_.front()));
  return found->second;
}

void Pairs::drop(Entries::iterator entry) {
  auto& waiting = entry->second.waiting;
  missing_.insert(missing_.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  order_.erase(entry->second.place);
  entries_.erase(entry);
}

std::vector<RequestRecord> Pairs::primary(const RequestRecord& record, metrics::Moment now) {
  auto& of = entry(record.id, now);
  of.answer = record.answer;
  of.has_primary = true;
  of.shadows += record.shadows;
  auto joined = std::exchange(of.waiting, {});
  for (auto& one : joined) compare(one, of.answer);
  of.shadows -= std::min<std::uint32_t>(of.shadows, static_cast<std::uint32_t>(joined.size()));
  if (of.shadows == 0) drop(entries_.find(record.id));
  return joined;
}

std::vector<RequestRecord> Pairs::shadow(RequestRecord record, metrics::Moment now) {
  const std::string id = record.mirrored->pair;
  auto& of = entry(id, now);
  if (!of.has_primary) {
    of.waiting.push_back(std::move(record));
    return {};
  }
  compare(record, of.answer);
  if (--of.shadows == 0) drop(entries_.find(id));
  std::vector<RequestRecord> joined;
  joined.push_back(std::move(record));
  return joined;
}

std::vector<RequestRecord> Pairs::take_missing(metrics::Moment now) {
  while (!order_.empty()) {
    const auto oldest = entries_.find(order_.front());
    if (now - oldest->second.since < longest) break;
    drop(oldest);
  }
  return std::exchange(missing_, {});
}

}  // namespace weir::proxy::shadows
