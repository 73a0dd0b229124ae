// The figures of LLMPerf's own: its inter-token latency, and whether the answers were right.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/load/cost.hpp"
#include "lab/tasks/task.hpp"

namespace weir::lab::load {

class Llmperf {
 public:
  /// A smaller share of right answers is warned of.
  static constexpr double least_right = 0.97;

  /// Takes a request's result and the task that it had. Only a successful request counts.
  void add(const Result& result, const tasks::Task& task);

  /// Returns its ITL, one value a request: E2E / output tokens, so that TTFT is counted in. It is in seconds.
  const std::vector<float>& itl() const { return itl_; }
  /// Returns the share of right numbers; nothing if none was checked.
  std::optional<double> right_share() const;
  /// Returns the share of the returned lines that were in the prompt.
  std::optional<double> lines_share() const;
  /// Returns a sentence if too few answers were right.
  std::optional<std::string> warning() const;

  void print(std::ostream& out) const;
  void write(metrics::wire::JsonWriter& json, const std::optional<Cost>& cost) const;

 private:
  std::vector<float> itl_;
  std::uint64_t checked_ = 0, right_ = 0, lines_ = 0, right_lines_ = 0;
};

}  // namespace weir::lab::load
