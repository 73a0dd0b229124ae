#include "proxy/control/pairs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir::proxy::control {
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

}  // namespace weir::proxy::control
