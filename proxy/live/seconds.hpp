// Figures of the last seconds: rows of numbers, sums of shards, latencies, fading histograms.
//
// The last seconds of one row, such as a replica: a number a second of each column. Rates, sums and peaks are made of
// these numbers. A plain value without a clock.
//
// A column keeps the last minute. The first columns may be drawn, and keep 15 minutes while the row is wide: 4 bytes a
// second, so 32 kB a replica.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/series/shard.hpp"

namespace weir::proxy::live {

class Seconds {
 public:
  static constexpr std::size_t minute = 60, window = 900;
  /// Means are those of so many seconds.
  static constexpr std::size_t mean_of = 10;

  /// The first `drawn` of the columns are those that may be drawn.
  Seconds(std::size_t columns, std::size_t drawn)
      : drawn_(drawn), numbers_(columns * minute, unknown), now_(columns), before_(columns, unknown) {}

  /// Begins a second. `passed` is above 1 where others before it were missed; with 0 the last one goes on.
  void step(std::size_t passed);
  /// Counts in the second that put() begins next.
  void add(std::size_t column, double n = 1) { now_[column] += static_cast<float>(n); }
  /// The row is there in this second: columns begin with what has been added. A row without put() is unknown.
  void put();
  /// Counts by how much a counter has grown since the last look, in this unit: 0 at the first look and where it is
  /// smaller. To be called after put(), and so is set().
  void follow(std::size_t column, double counter, double unit = 1);
  void set(std::size_t column, std::optional<double> value) {
    at(column) = value ? static_cast<float>(*value) : unknown;
  }
  /// Counters are others from now on: the next look at each is the first one.
  void look_anew();
  /// Another thing has the row's name: sums leave out what was before this second.
  void begin_anew();
  /// Sums of this column begin with this second.
  void clear(std::size_t column);

  /// Returns the number of the last second; nothing if it is unknown.
  std::optional<double> last(std::size_t column) const;
  /// Returns the sum of the last seconds, 60 at most.
  double sum(std::size_t column, std::size_t seconds = minute) const;
  /// Returns the mean of the last seconds; of those that there were, in the first ones.
  double per_second(std::size_t column) const {
    return sum(column, mean_of) / static_cast<double>(known_ < mean_of ? known_ : mean_of);
  }

  /// Returns the last `most` numbers of a drawn column, the latest at the end; NaN is unknown. There are fewer where
  /// the row is younger.
  std::vector<float> numbers(std::size_t column, std::size_t most) const;
  /// Returns the greatest of them; nothing if none is known.
  std::optional<double> peak(std::size_t column) const;

  struct Presence {
    bool put = false;  ///< In this second.
    bool wide = false;
    std::size_t absent = 0;  ///< For so many seconds the row has not been there.
    /// Nothing of it is left.
    bool is_gone() const { return absent >= (wide ? window : minute); }
  };
  const Presence& presence() const { return presence_; }
  void set_wide(bool wide);

 private:
  static constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

  std::size_t depth(std::size_t column) const { return column < drawn_ && presence_.wide ? window : minute; }
  std::size_t place(std::size_t column, std::size_t back) const;
  float& at(std::size_t column) { return numbers_[place(column, 0)]; }

  std::size_t drawn_;
  std::vector<float> numbers_, now_;
  std::vector<double> before_;  ///< Counters as they were, NaN before the first look.
  std::size_t second_ = 0, known_ = 1;
  Presence presence_;
};

// Sums over the shards of the loops: of counters, and of histograms.

/// The shards have times in these.
inline constexpr double nanoseconds = 1e9;

/// `pick` returns the counter of a shard.
template <class Shards, class Pick>
double sum_of(const Shards& shards, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : shards) sum += pick(*shard).value();
  return static_cast<double>(sum);
}

/// Adds up a histogram of the loops into `counts`. After a reload the loops take other bounds one after the other.
template <class Shards, class Pick>
void add_histograms(const Shards& shards, Pick pick, std::vector<std::uint64_t>& counts) {
  const auto bounds = pick(*shards.front()).bounds();
  counts.resize(bounds.size() + 1, 0);
  for (const auto& shard : shards) {
    const metrics::series::Histogram& histogram = pick(*shard);
    const bool same = histogram.bounds().data() == bounds.data();
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i)
      counts[same ? i : histogram.place(bounds, i)] += histogram.bucket(i);
  }
}

inline std::optional<double> scaled(std::optional<double> value, double unit) {
  return value ? std::optional(*value / unit) : std::nullopt;
}

/// Returns the part as a share of all, at most 1; nothing without any.
inline std::optional<double> share_of(double part, double all) {
  return all > 0 ? std::optional(std::min(1.0, part / all)) : std::nullopt;
}

// The TTFT and TPOT of the last requests of a replica or a pool, and their quantiles. A plain value without a clock.

class Latencies {
 public:
  /// The requests of the last minute count, and no more of them than this. 16 bytes each.
  static constexpr std::size_t most = 1000;
  static constexpr std::chrono::seconds minute{60};
  /// Fewer values have no p95.
  static constexpr std::size_t least_for_p95 = 20;

  struct Quantiles {
    std::optional<double> ttft_p50, ttft_p95, tpot_p50;  ///< In seconds.
  };

  /// Takes a request that ended at `now`; an absent figure counts nowhere.
  void add(std::optional<double> ttft, std::optional<double> tpot, metrics::Moment now);
  /// Returns the quantiles of the requests that ended within `back` before now. Costs O(of these).
  Quantiles quantiles(metrics::Moment now, std::chrono::seconds back = minute) const;

 private:
  struct One {
    metrics::Moment ended;
    float ttft, tpot;  ///< NaN is unknown.
  };
  std::vector<One> ring_;
  std::size_t next_ = 0;
};

// A histogram that forgets: the buckets of a counting one, of which older observations count less. Its quantiles tell
// what streams that still run show now, which no record of a finished request does. They lie on the straight line
// between the bounds of a bucket.

/// Observations of the last seconds fade to 1/e in so many seconds.
inline constexpr double recent_seconds = 10, recent_ttft_seconds = 15;

/// Returns how much an observation counts after `passed` seconds that fades to 1/e in `memory_seconds`.
inline double fade_in(double memory_seconds, std::size_t passed) {
  return std::exp(-static_cast<double>(passed) / memory_seconds);
}

class Recent {
 public:
  /// Takes the counts of all observations so far, one for each bucket alone, the last of them above all bounds.
  /// `bounds` may differ from those before. Earlier observations count `fade` times as much as they did, and those that
  /// are new count for `most` together at most: where fewer come than before, the many old ones do not hide them.
  void take(std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts, double fade,
            double most = std::numeric_limits<double>::infinity());

  /// Returns how many observations came with the last take().
  double came() const { return came_; }
  /// Returns how many observations there are, each by its weight.
  double count() const;
  /// Returns the quantile `q`, in the unit of the bounds; nothing without observations.
  std::optional<double> quantile(double q) const;
  /// Returns the least bound that is not below the quantile; nothing without observations, infinity above all bounds.
  std::optional<double> bound_of_quantile(double q) const;

 private:
  std::vector<std::uint64_t> bounds_, before_;
  std::vector<double> weights_;
  double came_ = 0;
};

}  // namespace weir::proxy::live
