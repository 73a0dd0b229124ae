// The record of a request: what the client asked, what became of it, and where it is counted and logged.
#pragma once

#include <cstdint>
#include <optional>

#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"

namespace weir::proxy::exchange {

/// Returns a record with what the request tells. `bytes_in`: the size of its body, which need no longer be there.
metrics::record::RequestRecord begin_record(const ClientRequest& request, std::uint64_t bytes_in);

/// Counts the request in the loop's shard of `series`, logs it, and leaves it to the control thread. Called once a
/// request.
void settle(Loop& loop, metrics::series::ReplicaSeries& series, metrics::record::RequestRecord&& record);

/// Leaves a mirrored request's record to the control thread, which logs it with its primary. If too many wait there,
/// its line is lost and counted.
void leave_to_be_paired(Loop& loop, metrics::record::RequestRecord&& record);

/// Counts and logs a request that no pool was chosen for.
void record_unassigned(Loop& loop, ClientRequest& request, metrics::Outcome outcome, std::optional<unsigned> status);

}  // namespace weir::proxy::exchange
