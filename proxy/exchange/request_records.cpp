#include "proxy/exchange/request_records.hpp"

#include <chrono>
#include <utility>

namespace weir::proxy::exchange {

using metrics::record::RequestRecord;

RequestRecord begin_record(const ClientRequest& request, std::uint64_t bytes_in) {
  RequestRecord record;
  const auto& message = request.message;
  record.time = message.time;
  record.id = request.ids.weir;
  record.client_id = request.ids.client;
  record.key = request.client.key_name();
  if (message.facts)
    record.facts = *message.facts;
  else
    record.facts.api = message.api;
  record.prefixes = message.prefixes;
  record.received = message.received;
  record.bytes_in = bytes_in;
  return record;
}

void settle(Loop& loop, metrics::series::ReplicaSeries& series, RequestRecord&& record) {
  series.shard(loop.index).settle(record);
  loop.shared.log.write(record);
  loop.finished.put(std::move(record));  // A record too many is missing only from the live pages.
}

void leave_to_be_paired(Loop& loop, RequestRecord&& record) {
  if (!loop.finished.put(std::move(record))) loop.shared.log.count_lost();
}

void record_unassigned(Loop& loop, ClientRequest& request, metrics::Outcome outcome, std::optional<unsigned> status) {
  auto record = begin_record(request, request.message.body.size());
  record.outcome = outcome;
  if (outcome == metrics::Outcome::client_abort) record.phase = metrics::Phase::queue;
  record.status = status;
  record.ended = std::chrono::steady_clock::now();
  request.progress.recorded = true;
  settle(loop, loop.shared.exposition.unassigned(), std::move(record));
}

}  // namespace weir::proxy::exchange
