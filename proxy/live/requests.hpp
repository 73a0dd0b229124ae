// The slowest requests of the last 15 minutes, and the last that failed. Plain tables without a clock, for the control
// thread, which sees each finished request's record. A record costs a comparison, and a copy of some of its members
// where it is among the slowest of its minute, or failed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

/// An attempt of several at a request, in seconds since the request's last byte came.
struct TriedRow {
  std::string replica;
  double from = 0, to = 0;
  std::optional<unsigned> status{};
  std::optional<metrics::Retry> why{};
};

/// A finished request, with the phases of its time in seconds.
struct RequestRow {
  Wall time{};
  std::string id, client_id, key, pool, replica, model;
  metrics::Api api = metrics::Api::other;
  bool stream = false;
  metrics::Outcome outcome = metrics::Outcome::ok;
  std::optional<unsigned> status{};
  std::optional<metrics::Phase> phase{};
  std::uint32_t attempts = 0;
  std::vector<TriedRow> tried{};  ///< Empty where there was one attempt.
  double wait = 0, connect = 0;
  std::optional<double> earlier{}, prefill{}, decode{}, total{}, ttft_client{}, tpot{};
  std::optional<std::uint64_t> prompt_tokens{}, cached_tokens{}, output_tokens{};
};

/// The outcomes that count as a failure of the pool.
bool has_failed(metrics::Outcome outcome);

class Requests {
 public:
  static constexpr std::size_t most = 20;
  static constexpr std::size_t minutes = 15;

  /// Takes a client's request that has ended.
  void add(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);

  /// Returns the slowest streams by ttft_client, and then the slowest others by their time, of the last `minutes`.
  std::vector<RequestRow> slowest(Moment now) const;
  /// The latest is in front.
  const std::deque<RequestRow>& failed() const { return failed_; }

 private:
  struct Scored {
    double score;
    RequestRow row;
  };
  /// The requests of one minute, streams and others. The slowest are in front.
  struct OfMinute {
    std::int64_t minute = -1;
    std::array<std::vector<Scored>, 2> slowest;
  };
  static std::int64_t minute_of(Moment now) {
    return std::chrono::duration_cast<std::chrono::minutes>(now.time_since_epoch()).count();
  }

  std::array<OfMinute, minutes + 1> by_minute_;  ///< The minute under way, and the whole ones before it.
  std::deque<RequestRow> failed_;
};

}  // namespace weir::proxy::live
