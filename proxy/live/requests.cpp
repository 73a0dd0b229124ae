#include "proxy/live/requests.hpp"

#include <algorithm>
#include <utility>

namespace weir::proxy::live {
namespace {

using metrics::Outcome;
using metrics::seconds;

RequestRow row_of(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures) {
  RequestRow row;
  row.time = record.time;
  row.id = record.id;
  row.client_id = record.client_id;
  row.key = record.key;
  row.pool = record.pool;
  row.replica = record.replica;
  row.model = record.facts.model;
  row.api = record.facts.api;
  row.stream = record.facts.stream;
  row.outcome = record.outcome;
  row.status = record.status;
  row.phase = record.phase;
  row.attempts = record.attempt;
  for (const auto& one : *record.tried)
    row.tried.push_back({one.replica, seconds(one.began - record.received), seconds(one.ended - record.received),
                         one.status != 0 ? std::optional(one.status) : std::nullopt, one.why});
  row.wait = seconds(record.wait);
  row.connect = seconds(record.connect);
  if (figures.queue) row.earlier = std::max(0.0, *figures.queue - row.wait - row.connect);
  row.prefill = figures.ttft;
  const auto& answer = record.answer;
  if (answer.first_token && answer.last_choice) row.decode = seconds(*answer.last_choice - *answer.first_token);
  if (record.ended) row.total = seconds(*record.ended - record.received);
  row.ttft_client = figures.ttft_client;
  row.tpot = figures.tpot;
  row.prompt_tokens = answer.prompt_tokens;
  row.cached_tokens = answer.cached_tokens;
  row.output_tokens = answer.output_tokens;
  return row;
}

}  // namespace

bool has_failed(Outcome outcome) {
  return outcome == Outcome::upstream_error || outcome == Outcome::upstream_reset || outcome == Outcome::truncated ||
         outcome == Outcome::timeout || outcome == Outcome::replica_refused;
}

void Requests::add(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now) {
  if (has_failed(record.outcome) || record.outcome == Outcome::rejected) {
    failed_.push_front(row_of(record, figures));
    if (failed_.size() > most) failed_.pop_back();
  }
  // weir's own answers, and requests that reached no replica, say nothing of slowness.
  if (record.replica.empty()) return;
  const bool stream = figures.ttft_client.has_value();
  const auto score = stream || !record.ended ? figures.ttft_client : seconds(*record.ended - record.received);
  if (!score) return;
  const auto minute = minute_of(now);
  auto& of_minute = by_minute_[static_cast<std::size_t>(minute) % by_minute_.size()];
  if (of_minute.minute != minute) of_minute = {minute, {}};
  auto& slowest = of_minute.slowest[stream ? 0 : 1];
  if (slowest.size() == most && *score <= slowest.back().score) return;
  const auto at = std::ranges::find_if(slowest, [&](const Scored& one) { return one.score < *score; });
  slowest.insert(at, {*score, row_of(record, figures)});
  if (slowest.size() > most) slowest.pop_back();
}

std::vector<RequestRow> Requests::slowest(Moment now) const {
  std::vector<RequestRow> rows;
  for (std::size_t kind = 0; kind < 2; ++kind) {
    std::vector<const Scored*> all;
    for (const auto& of_minute : by_minute_) {
      const auto age = minute_of(now) - of_minute.minute;
      if (of_minute.minute < 0 || age < 0 || age > static_cast<std::int64_t>(minutes)) continue;
      for (const auto& one : of_minute.slowest[kind]) all.push_back(&one);
    }
    std::ranges::stable_sort(all, [](const auto* a, const auto* b) { return a->score > b->score; });
    for (std::size_t i = 0; i < std::min(all.size(), most); ++i) rows.push_back(all[i]->row);
  }
  return rows;
}

}  // namespace weir::proxy::live
