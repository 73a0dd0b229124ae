// `weir-lab load` sends streamed requests to an OpenAI or TGI service and measures what a client sees.
//
// A load is closed (a number of requests always runs) or open (requests arrive by Poisson or by a trace, whatever the
// answers do). One thread does it all. Moments are those of the reads, so this process must not be short of CPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lab/load/workload.hpp"

namespace weir::lab::load {

struct LoadSettings {
  std::string url = "http://127.0.0.1:8080";
  std::string model;  ///< If it is "", the requests name no model.
  load::Api api = load::Api::chat;
  bool usage = false;              ///< Asks for usage; else tokens are counted by events.
  std::uint64_t concurrency = 5;   ///< A closed load keeps so many requests running.
  std::uint64_t requests = 60;     ///< 0 means no limit.
  std::optional<double> duration;  ///< It is in seconds; after it nothing is sent, and running requests may finish.
  double timeout = 600;            ///< A request may take so many seconds.
  load::WorkloadSettings workload;
  std::string json;  ///< The report goes into this file; "-" means standard output, in place of the table; "" means
                     ///< none.
  std::string log;   ///< Each request writes a line into this file; "-" and "" mean the same as above.
};

/// Runs until done or SIGINT/SIGTERM, then prints the table. Returns the exit status: 0; 1 if no request succeeded or a
/// file could not be written; 2 if the settings are wrong.
int run_load(const LoadSettings& settings);

}  // namespace weir::lab::load
