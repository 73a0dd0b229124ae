// The command `weir compare`: its options as values, and the report that it prints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "config/values.hpp"
#include "metrics/compare/comparison/comparison.hpp"

namespace weir::proxy::compare {

/// The options as the command line has them.
struct CompareOptions {
  std::vector<std::string> logs;
  std::string by = "config", sides = "compared";
  std::string a, b, pool, model, from, to, length, slo, config, floor, prompt_tokens;
  std::string warm_up = "10m";
  std::string html;                  ///< A file for the report as a page; "" is none.
  std::vector<std::string> costs;    ///< NAME=X
  std::vector<std::string> margins;  ///< NAME=SHARE
  double margin = 0.02;
  bool gate = false, json = false, markdown = false, details = false;
};

/// Prints the report. Returns the program's exit status: 0 whatever the verdict, 1 if a log cannot be read, 2 if the
/// options are wrong. With `gate` it is 0 if the gate passes, 3 if b is worse, and 4 if that is not
/// known yet; of several candidates together, 3 if one is worse, and else 4 if one is not known. Standard error says
/// why.
int run(const CompareOptions& options);

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
  std::string pool;  ///< The objective's own, if it is named and no other pool is asked for.
  std::optional<When> from, to;
  std::optional<std::int64_t> length_us;
  std::optional<config::Slo> slo;
  std::optional<PromptRange> prompt_tokens;
  double warm_up_s = 600;
  std::map<std::string, double, std::less<>> costs;  ///< An hour, by replica or configuration.
  std::map<std::string, std::uint64_t, std::less<>>
      kv_tokens;                                  ///< The KV caches of shadows' replicas, named as in `costs`.
  metrics::compare::statistics::Margins margins;  ///< For `not_worse`.
  bool all_sides = false;                         ///< Sides that are not compared are shown as well.
};

/// Reads the options, and the settings if they name a file of them: an objective by name stands there, and what
/// replicas cost and hold. A problem is a whole sentence, or the lines about all that is wrong in the settings.
///
/// A running weir gives its settings `in_use`, and needs no log.
config::Parsed<Request> request_of(const CompareOptions& options,
                                   std::optional<config::Settings> in_use = std::nullopt);

}  // namespace weir::proxy::compare
