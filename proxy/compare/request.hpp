// The options of `weir compare` as values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/parsed.hpp"
#include "config/settings.hpp"
#include "metrics/compare/comparison/comparison.hpp"
#include "proxy/compare/compare.hpp"

namespace weir::proxy::compare {

/// A moment of the wall clock, or a time before the last request.
struct When {
  std::int64_t us = 0;
  bool before_last = false;
  std::int64_t of(std::int64_t last_us) const { return before_last ? last_us - us : us; }
};

/// A range of prompt tokens; both ends belong to it.
struct PromptRange {
  std::uint32_t low = 0, high = 0;
};

struct Request {
  metrics::compare::sides::By by = metrics::compare::sides::By::config;
  std::string pool;  ///< That of the objective, if it has a name and no other pool is asked for.
  std::optional<When> from, to;
  std::optional<std::int64_t> length_us;
  std::optional<config::Slo> slo;
  std::optional<PromptRange> prompt_tokens;
  double min_block_s = 60, warm_up_s = 600;
  std::map<std::string, double, std::less<>> costs;  ///< An hour, by replica or configuration.
  bool fail_if_worse = false, fail_if_inconclusive = false, fail_if_too_few = false;
};

/// Reads the options, and the settings if they name a file of them: an objective by name stands there, and what
/// replicas cost. A problem is a whole sentence, or the lines about all that is wrong in the settings.
config::Parsed<Request> request_of(const CompareOptions& options);

/// The same for a running weir, whose settings are known and which needs no log.
config::Parsed<Request> request_of(const CompareOptions& options, const config::Settings& in_use);

}  // namespace weir::proxy::compare
