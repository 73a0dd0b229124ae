// A user's expectations of an answer: thresholds for the moments that a client sees.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "lab/load/connection.hpp"

namespace weir::lab::experiment {

/// Seconds. There is at least one.
struct Objective {
  std::optional<double> ttft, tpot, e2e;
};

/// Reads "ttft=1,tpot=0.05". The sentence of a problem says what would be right.
config::Parsed<Objective> parse_objective(std::string_view text);

/// A failed request never meets it, nor does one without a token where TTFT has a threshold. An answer too short to
/// have a TPOT meets that threshold.
bool meets(const Objective& objective, const load::Result& result);

}  // namespace weir::lab::experiment
