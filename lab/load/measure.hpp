// Runs one load and returns what it measured. It prints nothing but its progress, and that on a terminal only.
//
// A load is closed (a number of requests always runs) or open (requests arrive by Poisson or by a trace, whatever the
// answers do). The calling thread does it all. A token's moment is the kernel's stamp of its arrival, so that it has
// no delay of this process in it. But requests go out late where this process is short of CPU, and tokens that gather
// until a read share a moment; the loop lag tells whether it was. The latencies of an open load count from when each
// request was due, and how late they were is told beside them. Loads may run one after another in a process.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/load/report.hpp"
#include "lab/load/workload.hpp"

namespace weir::lab::load {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool seen() const;

 private:
  struct sigaction before_int_{};
  struct sigaction before_term_{};
};

// Whether the load tool itself was fast enough: if it was not, its own delay is part of what it measured.
//
// The loop lag is how much later than asked for a timer of the loop runs. Requests go out as much later, and bytes wait
// to be read as long. Bytes have the kernel's stamp, but those that gather until they are read share one.

struct OwnSpeed {
  std::vector<float> lags;  ///< Seconds.
  double cpu_share = 0;     ///< The load's thread computed for this share of the time.
};

/// Returns a sentence if the tool measured itself: a tenth of the lags is longer than a twentieth of the median TPOT or
/// TTFT, or the thread computed for more than 80 % of the time.
std::optional<std::string> too_slow(const OwnSpeed& own, const Tally& measured);

/// Returns the line of the table.
std::string own_line(const OwnSpeed& own);

struct LoadSettings {
  std::string url = "http://127.0.0.1:8080";
  std::string model;  ///< If it is "", the requests name no model.
  Api api = Api::chat;
  std::string ca;           ///< With an https URL: a file of authorities in PEM; "" means OpenSSL's default store.
  std::string api_key;      ///< Goes out as a bearer token; "" means none. No report or log has it.
  bool usage = false;       ///< Asks for usage; else tokens are counted by events.
  bool ignore_eos = false;  ///< Answers have exactly the tokens asked for (load::Wanted); not with Api::tgi.
  std::uint64_t concurrency = 5;     ///< A closed load keeps so many requests running.
  double ramp = 0;                   ///< A closed load starts so many of them a second; 0 means all at once.
  double think = 0;                  ///< A closed load waits so many seconds after an answer before it sends again.
  std::uint64_t requests = 60;       ///< 0 means no limit.
  std::optional<double> duration;    ///< Seconds after which nothing is sent; running requests may finish.
  double timeout = 600;              ///< A request may take so many seconds.
  double warm_up = 0;                ///< Requests of the first so many seconds are marked, and in no figure.
  std::vector<std::string> headers;  ///< Further fields of each request, "name: value", as header_problem wants them.
  bool batches = false;              ///< A closed load sends its next requests when all that run have ended.
  bool facts = false;                ///< Results have what a request log needs to know of their requests.
  WorkloadSettings workload;
};

/// Returns why this cannot be a further field of a request, as the end of a sentence; "" if it can.
std::string header_problem(std::string_view field);

using OnResult = std::function<void(const Result&)>;

/// The figures of a load.
struct Measured {
  Report report;
  OwnSpeed own;
  bool interrupted = false;  ///< The user ended it; what ran then counts as unfinished.
};

/// Writes the members of an object.
void write_members(JsonWriter& json, const Measured& measured);

/// Runs until done or `interrupt`. Each request's result goes to `on_result`, if there is one, in the order of their
/// ends. Throws std::invalid_argument if the URL or `ca` cannot be used, std::runtime_error if its name cannot be
/// resolved.
Measured measure(const LoadSettings& settings, const Interrupt& interrupt, const OnResult& on_result = {});

}  // namespace weir::lab::load
