#include "metrics/series/own_families.hpp"

#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/series/series.hpp"

namespace weir::metrics::series {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
using Loops = std::vector<std::unique_ptr<LoopShard>>;

/// Adds up what the loops wrote for one series.
template <typename Pick>
double sum_of(const Loops& loops, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& loop : loops) sum += pick(*loop).value();
  return static_cast<double>(sum);
}

/// `_count` is the sum of the buckets; a separate number could differ by an observation.
ClientMetric::Histogram seconds_of(const Histogram& histogram) {
  ClientMetric::Histogram out;
  const auto bounds = histogram.bounds();
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    out.sample_count += histogram.bucket(i);
    const double bound =
        i < bounds.size() ? static_cast<double>(bounds[i]) / 1e9 : std::numeric_limits<double>::infinity();
    out.bucket.push_back({out.sample_count, bound});
  }
  out.sample_sum = static_cast<double>(histogram.sum()) / 1e9;
  return out;
}

class OwnFamilies {
 public:
  void loops(const Loops& loops) {
    begin(limit_hits_series, SeriesType::counter);
    for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
      add({{"limit", limit_names[limit]}},
          sum_of(loops, [&](const LoopShard& shard) -> const Counter& { return shard.limit_hits[limit]; }));
    }
    begin(denied_series, SeriesType::counter);
    for (std::size_t why = 0; why < denied_names.size(); ++why) {
      add({{"reason", denied_names[why]}},
          sum_of(loops, [&](const LoopShard& shard) -> const Counter& { return shard.denied[why]; }));
    }
    begin(dropped_fields_series, SeriesType::counter);
    add({}, sum_of(loops, [](const LoopShard& shard) -> const Counter& { return shard.dropped_fields; }));
    begin(tls_handshakes_series, SeriesType::counter);
    for (std::size_t side = 0; side < tls_side_names.size(); ++side) {
      for (std::size_t result = 0; result < tls_result_names.size(); ++result) {
        add({{"side", tls_side_names[side]}, {"result", tls_result_names[result]}},
            sum_of(loops,
                   [&](const LoopShard& shard) -> const Counter& { return shard.tls_handshakes[side][result]; }));
      }
    }
    begin(loop_lag_series, SeriesType::gauge);
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const auto nanoseconds = loops[i]->lag_nanoseconds.load(std::memory_order_relaxed);
      add({{"loop", std::to_string(i)}}, static_cast<double>(nanoseconds) / 1e9);
    }
    begin(loop_delay_series, SeriesType::histogram);
    for (std::size_t i = 0; i < loops.size(); ++i)
      labelled({{"loop", std::to_string(i)}}).histogram = seconds_of(loops[i]->loop_delay);
  }

  void comparisons(const std::vector<ComparisonGauges>& shadows) {
    begin(comparison_effect_series, SeriesType::gauge);
    for (const auto& one : shadows) {
      for (const auto& effect : one.effects) {
        const auto add_bound = [&](std::string_view bound, double value) {
          add({{"shadow", one.shadow}, {"metric", effect.metric}, {"bound", bound}}, value);
        };
        add_bound("estimate", effect.estimate);
        if (!effect.interval) continue;
        add_bound("low", effect.interval->first);
        add_bound("high", effect.interval->second);
      }
    }
    const auto add_words = [&](const SeriesText& series, std::string_view label, auto words) {
      begin(series, SeriesType::gauge);
      for (const auto& one : shadows) {
        for (const auto& [word, is_it] : one.*words) add({{"shadow", one.shadow}, {label, word}}, is_it ? 1 : 0);
      }
    };
    add_words(comparison_state_series, "state", &ComparisonGauges::states);
    add_words(comparison_same_series, "answers", &ComparisonGauges::answers);
    begin(comparison_faults_series, SeriesType::gauge);
    for (const auto& one : shadows) {
      for (const auto& fault : one.faults) {
        for (const auto& [only, count] : {std::pair("shadow", fault.shadow), std::pair("other", fault.other)})
          add({{"shadow", one.shadow}, {"fault", fault.fault}, {"only", only}}, static_cast<double>(count));
      }
    }
    begin(comparison_fault_evidence_series, SeriesType::gauge);
    for (const auto& one : shadows) {
      for (const auto& fault : one.faults) add({{"shadow", one.shadow}, {"fault", fault.fault}}, fault.evidence);
    }
  }

  void rollouts(const std::vector<RolloutGauges>& all) {
    begin(rollout_share_series, SeriesType::gauge);
    for (const auto& one : all) add({{"rollout", one.rollout}}, one.share);
    begin(rollout_state_series, SeriesType::gauge);
    for (const auto& one : all) {
      for (const auto& [state, is_it] : one.states) add({{"rollout", one.rollout}, {"state", state}}, is_it ? 1 : 0);
    }
    begin(rollout_moves_series, SeriesType::counter);
    for (const auto& one : all) {
      for (const auto& [reason, count] : one.moves)
        add({{"rollout", one.rollout}, {"reason", reason}}, static_cast<double>(count));
    }
    begin(rollout_crossed_series, SeriesType::counter);
    for (const auto& one : all) add({{"rollout", one.rollout}}, static_cast<double>(one.crossed));
  }

  void findings(const std::vector<OwnSources::Finding>& all) {
    begin(finding_series, SeriesType::gauge);
    for (const auto& one : all) add({{"what", one.what}, {"who", one.who}}, 1);
  }

  void internal_errors(const InternalErrors& errors) {
    begin(internal_errors_series, SeriesType::counter);
    for (std::size_t part = 0; part < part_names.size(); ++part)
      add({{"part", part_names[part]}}, static_cast<double>(errors.counted(static_cast<Part>(part))));
  }

  void operators(const Counters<OperatorRefusal, operator_refusal_names.size()>& refusals) {
    begin(operator_refusals_series, SeriesType::counter);
    for (std::size_t why = 0; why < operator_refusal_names.size(); ++why)
      add({{"reason", operator_refusal_names[why]}}, static_cast<double>(refusals[why].value()));
  }

  void buffer_memory(const BufferMemory& buffers) {
    add_one(buffer_memory_series, SeriesType::gauge, static_cast<double>(buffers.used));
    add_one(buffer_memory_limit_series, SeriesType::gauge, static_cast<double>(buffers.limit));
  }

  void settings(const LastLoad& loaded, bool bypassed) {
    add_one(bypass_series, SeriesType::gauge, bypassed ? 1 : 0);
    add_one(last_reload_successful_series, SeriesType::gauge, loaded.successful ? 1 : 0);
    add_one(last_reload_series, SeriesType::gauge,
            std::chrono::duration<double>(loaded.last_success.time_since_epoch()).count());
  }

  void request_log(std::uint64_t lines_dropped) {
    add_one(log_lines_dropped_series, SeriesType::counter, static_cast<double>(lines_dropped));
  }

  void process(const BuildInfo& build) {
    begin(build_info_series, SeriesType::gauge);
    add({{"version", build.version}, {"compiler", build.compiler}}, 1);
    for (const auto& [text, type, value] : process_figures()) add_one(text, type, value);
  }

  std::vector<MetricFamily> sorted() && {
    std::ranges::sort(families_, {}, &MetricFamily::name);
    return std::move(families_);
  }
  const std::vector<Family>& begun() const { return begun_; }

 private:
  /// Begins a family, to which the series that follow belong.
  void begin(const SeriesText& text, SeriesType type) {
    const auto kind = type == SeriesType::counter ? MetricType::Counter
                      : type == SeriesType::gauge ? MetricType::Gauge
                                                  : MetricType::Histogram;
    families_.push_back({std::string(text.name), std::string(text.help), kind, {}});
    begun_.push_back({text, type});
  }
  /// Returns a new series of the family, valid until the next one.
  ClientMetric& labelled(Labels labels) {
    auto& metric = families_.back().metric.emplace_back();
    for (const auto& [name, value] : labels) metric.label.push_back({std::string(name), std::string(value)});
    return metric;
  }
  void add(Labels labels, double value) {
    auto& metric = labelled(labels);
    (families_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  void add_one(const SeriesText& text, SeriesType type, double value) {
    begin(text, type);
    add({}, value);
  }

  std::vector<MetricFamily> families_;
  std::vector<Family> begun_;
};

OwnFamilies gathered(const OwnSources& sources) {
  OwnFamilies own;
  own.loops(sources.loops());
  own.comparisons(sources.comparisons ? sources.comparisons() : std::vector<ComparisonGauges>());
  own.rollouts(sources.rollouts ? sources.rollouts() : std::vector<RolloutGauges>());
  own.findings(sources.findings ? sources.findings() : std::vector<OwnSources::Finding>());
  own.internal_errors(sources.internal_errors);
  own.operators(sources.operator_refusals);
  own.buffer_memory(sources.buffer_memory ? sources.buffer_memory() : BufferMemory());
  own.settings(sources.last_load, sources.bypass && sources.bypass());
  own.request_log(sources.log_lines_dropped ? sources.log_lines_dropped() : 0);
  own.process(sources.build());
  return own;
}

}  // namespace

OwnSources::OwnSources(std::size_t loops, BuildInfo build) : build_(std::move(build)) {
  for (std::size_t i = 0; i < loops; ++i) loops_.push_back(std::make_unique<LoopShard>());
}

std::vector<MetricFamily> own_families(const OwnSources& sources) { return gathered(sources).sorted(); }

std::vector<Family> families_of_weir(const OwnSources& sources) { return gathered(sources).begun(); }

namespace {

namespace fs = std::filesystem;

/// The fields of proc_pid_stat(5) that weir reads.
struct ProcessStat {
  double start_ticks = 0, virtual_bytes = 0, resident_pages = 0;
};

std::optional<ProcessStat> process_stat() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // Field 2 is the program's name in parentheses. The name may hold spaces and parentheses itself.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  ProcessStat stat;
  fields >> stat.start_ticks >> stat.virtual_bytes >> stat.resident_pages;
  return fields ? std::optional{stat} : std::nullopt;
}

std::optional<double> boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  }
  return std::nullopt;
}

/// The start time is computed once: the kernel derives its boot time anew at each read, so a second look may differ by
/// a second.
std::optional<double> start_time() {
  static const std::optional<double> seconds = []() -> std::optional<double> {
    const auto stat = process_stat();
    const auto boot = boot_time();
    if (!stat || !boot) return std::nullopt;
    return *boot + stat->start_ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }();
  return seconds;
}

std::optional<double> open_descriptors() {
  std::error_code ec;
  const fs::directory_iterator entries("/proc/self/fd", ec);
  if (ec) return std::nullopt;
  return static_cast<double>(std::distance(begin(entries), end(entries)) - 1);  // One is subtracted for the descriptor
                                                                                // that lists them.
}

std::optional<double> max_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

std::optional<double> cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  const auto in_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime);
}

}  // namespace

std::vector<ProcessFigure> process_figures() {
  std::vector<ProcessFigure> figures;
  const auto add = [&](const SeriesText& text, SeriesType type, std::optional<double> value) {
    if (value) figures.push_back({text, type, *value});
  };
  using enum SeriesType;
  const auto stat = process_stat();
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  add({"process_cpu_seconds_total", "User and system CPU time spent in seconds."}, counter, cpu_seconds());
  add({"process_max_fds", "Maximum number of open file descriptors."}, gauge, max_descriptors());
  add({"process_open_fds", "Number of open file descriptors."}, gauge, open_descriptors());
  if (stat) {
    add({"process_resident_memory_bytes", "Resident memory size in bytes."}, gauge, stat->resident_pages * page);
    add({"process_virtual_memory_bytes", "Virtual memory size in bytes."}, gauge, stat->virtual_bytes);
  }
  add({"process_start_time_seconds", "Start time of the process since unix epoch in seconds."}, gauge, start_time());
  return figures;
}

}  // namespace weir::metrics::series
