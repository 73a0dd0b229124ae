// Judges whether a request met a service level objective of its pool (docs/reference/metrics.md).
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

/// Returns good if the request was served and met every threshold that applies (a figure equal to a threshold meets
/// it). Returns bad if it missed a threshold, if the replica or weir failed it, or if its client left after a threshold
/// had passed. Returns nothing if no threshold applies, if the request itself was wrong (bad_request, client_error), or
/// if its client left earlier.
///
/// A threshold applies where its figure exists: TTFT and TPOT need a stream, and TPOT needs more than one token in a
/// known number. If there are several choices, each has to meet tpot. If a client left while tokens came, tpot is
/// computed from the tokens counted until then; an event counts as one token where the wire does not tell.
std::optional<SloResult> judge(const config::Slo& slo, const RequestRecord& record);

}  // namespace weir::metrics::record
