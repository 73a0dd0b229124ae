// Whether a request met a service level objective of its pool (MEASUREMENT.md, section 2; docs/metrics.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::metrics::record {

enum class SloResult : std::uint8_t { good, bad };
inline constexpr std::array<std::string_view, 2> slo_result_names{"good", "bad"};

/// good: served, and every threshold that applies was met (a figure equal to it meets it). bad: a threshold was missed,
/// or the replica or weir failed the request, or its client left after a threshold had passed. Nothing: no threshold
/// applies, the request itself was wrong (bad_request, client_error), or its client left earlier.
///
/// A threshold applies where its figure exists: TTFT and TPOT of streams, TPOT of more than one token whose number is
/// known. Of several choices each has to meet tpot. A client that left while tokens came is held against tpot by the
/// tokens counted until then, one an event where the wire does not tell.
std::optional<SloResult> judge(const config::Slo& slo, const RequestRecord& record);

}  // namespace weir::metrics::record
