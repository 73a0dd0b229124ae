// Says what is sent and when: lengths and arrivals, drawn from a seed or taken from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/engine/random.hpp"
#include "lab/load/trace.hpp"

namespace weir::lab::load {

/// The API that the load speaks.
enum class Api { chat, completions, tgi };

struct WorkloadSettings {
  double input_tokens = 550;  ///< These are LLMPerf's defaults.
  double input_stddev = 150;
  double output_tokens = 150;
  double output_stddev = 20;
  std::optional<double> rate;     ///< It is requests a second, by Poisson. If it is absent, the load has no arrivals of
                                  ///< its own.
  std::vector<TraceEntry> trace;  ///< Its lengths are used in order, from the start again at its end. If it is empty,
                                  ///< lengths are drawn.
  bool trace_arrivals = false;    ///< Its arrivals are used too; the workload ends with the trace.
  double trace_speed = 1;         ///< It divides the trace's times.
  std::uint64_t seed = 1;
};

struct Planned {
  std::uint64_t number = 0;  ///< It counts from 0.
  double at = 0;             ///< It counts seconds since the start; 0 if the load is closed.
  std::uint64_t prompt_tokens = 1;
  std::uint64_t output_tokens = 1;
};

class Workload {
 public:
  explicit Workload(WorkloadSettings settings);

  /// True if arrivals are given, so that the load does not wait for answers.
  bool open_loop() const { return settings_.trace_arrivals || settings_.rate.has_value(); }
  /// Returns the next request; nothing once the trace has ended.
  std::optional<Planned> next();
  /// Returns a text of that many tokens (lab/engine/words.hpp), different for every number and the same for every seed.
  std::string prompt(const Planned& planned) const;

 private:
  std::uint64_t draw(double mean, double stddev);

  WorkloadSettings settings_;
  engine::Random lengths_;
  engine::Random arrivals_;
  std::uint64_t count_ = 0;
  double at_ = 0;
};

/// Return the path of an API and the body of a streamed request.
std::string_view path_of(Api api);
std::string request_body(Api api, std::string_view model, std::string_view prompt, std::uint64_t max_tokens,
                         bool usage);

}  // namespace weir::lab::load
