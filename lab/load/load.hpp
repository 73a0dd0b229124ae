// `weir-lab load` sends streamed requests to an OpenAI or TGI service and prints what a client sees.
#pragma once

#include <string>
#include <vector>

#include "lab/load/measure.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::load {

/// The reports of a load. Files may be "-", which means standard output, in place of the table, or "", which means
/// none.
struct LoadOutput {
  std::string json;          ///< The report goes there.
  std::string log;           ///< A line of the request log for each request goes there.
  std::string trace;         ///< The trace that the load follows; "" where there is none.
  std::string api_key_file;  ///< The file that the key was read from; "" where there is none.
  std::string label;         ///< The config in those lines.
  Prices prices;
  bool llmperf = false;       ///< The report has LLMPerf's ITL.
  bool prefill_cost = false;  ///< The report has the cost of prefill.
};

/// Returns the files that a load reads, which no output may be.
std::vector<NamedFile> inputs_of(const LoadSettings& settings, const LoadOutput& output);

/// Runs until done or SIGINT/SIGTERM, then prints the table. Returns the exit status: 0; 1 if no request succeeded or a
/// file could not be written whole. Throws std::invalid_argument if the settings are wrong.
int run_load(const LoadSettings& settings, const LoadOutput& output);

}  // namespace weir::lab::load
