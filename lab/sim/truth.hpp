// A simulated replica's own account of its requests: the truth with which a measurement in front of it is compared.
//
// Moments are on CLOCK_MONOTONIC, which all processes of a machine share. A request is received when the kernel has its
// last byte, by the kernel's own stamp: as long as the replica writes a step's tokens to others, it leaves a request
// unread, and that wait is the replica's. "Written" is the moment when the bytes had been handed to the kernel.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "lab/engine/engine_model.hpp"
#include "metrics/series/histogram.hpp"

namespace weir::lab::sim {

using Moment = std::chrono::steady_clock::time_point;

enum class Status { finished, aborted, refused };

struct Truth {
  std::string request_id;                         ///< The request's x-request-id; "" if absent.
  Moment received{};                              ///< The kernel had received the last byte of the request.
  std::optional<Moment> first_token, last_token;  ///< When they were written.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< Prompt tokens that the engine found in its KV cache.
  std::uint64_t output_tokens = 0;  ///< Tokens that the engine made.
  Status status = Status::finished;
  bool stream = false;
};

/// Writes one JSON object, without a newline.
std::string truth_line(const Truth& truth);

/// Counts and logs. One thread uses it.
class Ledger {
 public:
  /// `path` is a file, "" for no log, or "-" for standard output. Throws std::runtime_error if the file cannot be
  /// opened.
  explicit Ledger(const std::string& path);

  /// Says that one step's tokens were written. `truth` is their request as it stands with them.
  void tokens(const Truth& truth, std::uint64_t made);
  /// Says that a request has ended.
  void add(const Truth& truth);
  /// Writes the text format of Prometheus, under vLLM's names or, with `tgi`, TGI's.
  std::string metrics(const engine::EngineModel& engine, std::string_view model, bool tgi) const;

 private:
  std::ofstream file_;
  std::ostream* log_ = nullptr;  ///< Null without a log.
  double started_;  ///< Unix seconds.
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t output_tokens_ = 0;
  std::array<std::uint64_t, 3> requests_{};  ///< Indexed by Status.
  metrics::series::Histogram time_to_first_token_;
  metrics::series::Histogram time_per_output_token_;
};

}  // namespace weir::lab::sim
