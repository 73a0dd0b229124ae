// The quantities of a request that are compared, and how long it stood still.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::pairs {

enum class Quantity : std::uint8_t { ttft, tpot, e2e, output_tokens };
inline constexpr std::size_t quantity_count = 4;
inline constexpr std::array<Quantity, quantity_count> quantities{Quantity::ttft, Quantity::tpot, Quantity::e2e,
                                                                 Quantity::output_tokens};

/// Returns a sample's quantity, in seconds or tokens; nothing if it has none.
///
/// All but TTFT are known at an answer's end alone, so the answer has to be whole. TPOT is that of an answer of at
/// least 16 tokens, and E2E that of an answer that was not streamed. An answer without any token counts as one token
/// long.
std::optional<double> value_of(Quantity quantity, const samples::Sample& sample);

/// Returns the seconds for which a request stood still, up to ten: what its wait for the first token, or for an answer
/// that is not streamed, has above the longest usual one, also if the client left before it came; and gaps between its
/// tokens that are longer than 250 ms and than ten times the median of its own gaps. Gaps are right to 0.8 %.
double stalled_s(const samples::Sample& sample, double longest_ttft_s, double longest_e2e_s);

}  // namespace weir::metrics::compare::pairs
