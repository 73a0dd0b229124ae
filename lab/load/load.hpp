// `weir-lab load`: sends streamed requests to an OpenAI or TGI service and measures what a client sees.
//
// Closed (a number of requests always under way) or open (arrivals by Poisson or by a trace, whatever the answers do).
// One thread. Measured at the moment of the read; a process that measures must not be short of CPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lab/load/workload.hpp"

namespace weir::lab::load {

struct LoadSettings {
  std::string url = "http://127.0.0.1:8080";
  std::string model;  ///< "" = not named in the requests.
  load::Api api = load::Api::chat;
  bool usage = false;              ///< Ask for usage; else tokens are counted by events.
  std::uint64_t concurrency = 5;   ///< A closed load keeps so many under way.
  std::uint64_t requests = 60;     ///< 0 = no limit.
  std::optional<double> duration;  ///< Seconds; after it nothing is sent, what runs may finish.
  double timeout = 600;            ///< Seconds a request.
  load::WorkloadSettings workload;
  std::string json;  ///< File for the report; "-" = standard output, in place of the table; "" = none.
  std::string log;   ///< File for a line a request; "-" likewise.
};

/// Runs until done or SIGINT/SIGTERM, then prints the table. Exit status: 0; 1 where no request succeeded or a file
/// could not be written; 2 where the settings are wrong.
int run_load(const LoadSettings& settings);

}  // namespace weir::lab::load
