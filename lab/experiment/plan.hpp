// An experiment as its user wrote it in TOML: a table of runs over one set of prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "config/values.hpp"
#include "lab/load/connection.hpp"
#include "lab/load/workload.hpp"
#include "lab/text.hpp"

namespace weir::lab::experiment {

/// A row of the table: where its requests go, how many at once, and what is told of it.
struct Row {
  std::string label, url, model, gpu, engine;
  load::Api api = load::Api::chat;
  std::uint64_t concurrency = 1;
  std::optional<std::uint64_t> speculation;  ///< Drafted tokens; only told, as gpu and engine are.
  std::optional<double> cost_per_hour;
  std::string ca{};       ///< With an https url: a file of authorities in PEM; "" means OpenSSL's default store.
  std::string api_key{};  ///< Goes out as a bearer token; "" means none. No report, log or results file has it.
  bool operator==(const Row&) const = default;

  /// Returns "H800, 8 at once".
  std::string name() const { return label + ", " + std::to_string(concurrency) + " at once"; }
};

struct Plan {
  std::string title;
  std::string results;       ///< The file in which what is done is kept.
  std::uint64_t repeat = 3;  ///< Each row is run so often.
  std::uint64_t prompts = 60;
  load::WorkloadSettings lengths;
  bool ignore_eos = false;        ///< Answers have exactly their lengths (load::Wanted).
  std::vector<Row> rows;          ///< A run with several concurrencies is several rows.
  std::vector<NamedFile> inputs;  ///< Its own file and those that it names, which no output may be.
};

using PlanResult = std::variant<Plan, std::vector<config::SettingsError>>;

/// Reads an experiment's file. Errors come as in config/load.hpp, with those of the settings file that it names.
/// Relative paths in it start at its folder.
PlanResult load_plan(const std::string& path);

/// Reads text in memory in the same way; errors give `file` as the name.
PlanResult read_plan(std::string_view toml, const std::string& file);

// A user's expectations of an answer: thresholds for the moments that a client sees.

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
