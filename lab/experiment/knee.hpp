// Where throughput stops being free.
//
// The rule is Kleinrock's: the knee is the load with the greatest throughput / latency ("power"). Up to there a step of
// the load raises throughput by a larger factor than latency; beyond it, latency by the larger one. The rule has no
// threshold that somebody chose, and no unit in it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir::lab::experiment {

struct Operation {
  std::uint64_t concurrency = 0;
  double latency = 0;     ///< > 0
  double throughput = 0;  ///< > 0
};

struct Knee {
  enum class State : std::uint8_t {
    too_few,      ///< Fewer than three loads were measured.
    found,        ///< The knee is at `concurrency`.
    at_or_below,  ///< The lowest load has the greatest power, and fewer than its requests were not tried.
    not_reached,  ///< The highest load that was measured has the greatest power, so the knee may lie beyond it.
  };
  State state = State::too_few;
  std::optional<std::uint64_t> concurrency;  ///< Present where the knee was found.
};

/// `operations` are in order of concurrency. Of several with the same power the lowest is the knee.
Knee knee_of(std::span<const Operation> operations);

/// The rule as a sentence, for help, report and page.
inline constexpr std::string_view knee_rule =
    "The knee is the number at once with the greatest throughput / latency: beyond it, latency grows by a larger "
    "factor than throughput.";

}  // namespace weir::lab::experiment
