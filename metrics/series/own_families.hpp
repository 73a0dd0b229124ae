// The families of weir itself: loops, limits, buffer memory, settings, comparisons, build and process. They are the
// same few series however many replicas there are, so prometheus-cpp writes them; those of replicas are TextPage's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/series/shard.hpp"
#include "metrics/series/text_page.hpp"

namespace prometheus {
struct MetricFamily;
}

namespace weir::metrics::series {

/// When settings were last loaded, and whether the latest attempt was a success.
struct LastLoad {
  std::chrono::system_clock::time_point last_success{};
  bool successful = true;
};

/// The memory that limits.buffer_memory bounds, in bytes.
struct BufferMemory {
  std::size_t used = 0, limit = 0;
};

/// How a shadow differs from what it is compared with, as it stands now.
struct ComparisonGauges {
  struct Effect {
    std::string_view metric;
    double estimate = 0;  ///< A share of the other side's value.
    std::optional<std::pair<double, double>> interval{};
  };
  /// Pairs of answers of which one has a fault.
  struct Fault {
    std::string_view fault;
    std::uint64_t shadow = 0, other = 0;  ///< Of the shadow alone, and of the other side alone.
    double evidence = 1;                  ///< That the shadow has more of them, as an e-value.
  };
  std::string shadow;
  std::vector<Effect> effects{};
  std::vector<Fault> faults{};
  std::vector<std::pair<std::string_view, bool>> states{};   ///< Each with whether it is the one.
  std::vector<std::pair<std::string_view, bool>> answers{};  ///< The same, of whether the answers are the same.
};

/// A rollout, as it stands now.
struct RolloutGauges {
  std::string rollout;
  double share = 0;
  std::vector<std::pair<std::string_view, bool>> states{};          ///< Each with whether it is the one.
  std::vector<std::pair<std::string_view, std::uint64_t>> moves{};  ///< By reason.
  std::uint64_t crossed = 0;
};

struct BuildInfo {
  std::string version, compiler;
};

/// What these families are read from. An Exposition is such a source.
class OwnSources {
 public:
  struct Finding {
    std::string_view what;
    std::string who;  ///< Who it is about.
  };

  LoopShard& loop(std::size_t index) { return *loops_[index]; }
  const std::vector<std::unique_ptr<LoopShard>>& loops() const { return loops_; }
  const BuildInfo& build() const { return build_; }

  InternalErrors internal_errors{};                                              ///< Any thread counts in it.
  Counters<OperatorRefusal, operator_refusal_names.size()> operator_refusals{};  ///< The control thread counts in it.
  std::function<std::uint64_t()> log_lines_dropped;                              ///< Set before the first scrape.
  std::function<BufferMemory()> buffer_memory;  ///< Set before the first scrape; zeros without it.
  LastLoad last_load{};                         ///< Set on the scraping thread.
  std::function<bool()> bypass;                 ///< Set before the first scrape.
  /// Returns the shadows that are on. It is set before the first scrape, and called on the scraping thread.
  std::function<std::vector<ComparisonGauges>()> comparisons;
  /// Returns the rollouts of the settings. It is set and called as `comparisons` is.
  std::function<std::vector<RolloutGauges>()> rollouts;
  /// Returns the findings that stand. It is set and called as `comparisons` is.
  std::function<std::vector<Finding>()> findings;

 protected:
  OwnSources(std::size_t loops, BuildInfo build);

  BuildInfo build_;
  std::vector<std::unique_ptr<LoopShard>> loops_;
};

/// Returns the families in the order of their names. A family without series is among them, too. The call is made on
/// the scraping thread and calls the functions that `sources` was given.
std::vector<prometheus::MetricFamily> own_families(const OwnSources& sources);

/// Returns what they mean.
std::vector<Family> families_of_weir(const OwnSources& sources);

// Reads the process_* series, which every Prometheus client library exports, from /proc at a scrape.

struct ProcessFigure {
  SeriesText text;
  SeriesType type;
  double value;
};

/// Leaves out a figure whose source cannot be read. A call costs about 50 us and one file descriptor while it runs.
std::vector<ProcessFigure> process_figures();

}  // namespace weir::metrics::series
