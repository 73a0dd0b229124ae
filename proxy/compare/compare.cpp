#include "proxy/compare/compare.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "config/command_line.hpp"
#include "metrics/compare/report.hpp"
#include "metrics/compare/side_choice.hpp"
#include "proxy/compare/gate.hpp"
#include "proxy/compare/request.hpp"
#include "proxy/compare/sample_reading.hpp"

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

constexpr int failed = 1;

/// Shows on a terminal how far reading has come.
class Progress {
 public:
  Progress() : shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void operator()(std::uint64_t lines) const {
    if (shown_) std::fprintf(stderr, "\r%llu lines", static_cast<unsigned long long>(lines));
  }

 private:
  const bool shown_;
};

int tell(int status, const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return status;
}

/// One command: what was asked, the logs, and the report.
class Command {
 public:
  Command(const CompareOptions& options, Request request) : options_(options), request_(std::move(request)) {}

  int run() {
    if (const auto status = read_floor()) return *status;
    if (options_.swapped) return run_swapped();
    mc::Report report;
    if (const auto status = report_of(options_.logs, options_.a, options_.b, report)) return *status;
    print(options_.json ? mc::as_json(report) : mc::as_text(report, style()));
    std::vector<Judgement> judgements;
    for (const auto& verdict : report.comparison.verdicts) {
      if (!verdict.exploratory) judgements.push_back({verdict.finding, verdict.interval.has_value()});
    }
    return status_of(report.comparison.state, judgements);
  }

 private:
  int run_swapped() {
    mc::SwappedReport report;
    if (const auto status = report_of({options_.logs[0]}, options_.a, options_.b, report.first)) return *status;
    // The same configurations are compared, on whichever GPUs they are in the second window.
    const auto& first = report.first.comparison;
    if (const auto status = report_of({options_.logs[1]}, first.a, first.b, report.second)) return *status;
    const auto& second = report.second.comparison;
    report.verdicts = mc::separate(first, second);
    print(options_.json ? mc::as_json(report) : mc::as_text(report, style()));
    std::vector<Judgement> judgements;
    for (const auto& verdict : report.verdicts) {
      if (!mc::is_tail(verdict.metric)) judgements.push_back({verdict.decision.finding, true});
    }
    return status_of(first.state == mc::State::final ? second.state : first.state, judgements);
  }

  /// Reads logs, and returns the exit status if that fails.
  std::optional<int> read(const std::vector<std::string>& logs, const Filter& filter, ReadSamples& read) {
    const Progress progress;
    const auto failure = read_samples(logs, filter, names_, std::cref(progress), read);
    if (failure) return tell(failed, *failure);
    return std::nullopt;
  }

  static void tell_unread(const ReadSamples& read) {
    if (read.unread == 0) return;
    std::fprintf(stderr, "%llu of %llu lines are no lines of a request log; the first is %s\n",
                 static_cast<unsigned long long>(read.unread), static_cast<unsigned long long>(read.lines),
                 read.first_unread.c_str());
  }

  Filter filter() const {
    Filter filter;
    filter.pool = request_.pool;
    filter.model = options_.model;
    filter.prompt_tokens = request_.prompt_tokens;
    return filter;
  }

  /// A floor run has one configuration, as primary and as shadow.
  std::optional<int> read_floor() {
    if (options_.floor.empty()) return std::nullopt;
    ReadSamples read_floor;
    if (const auto status = read({options_.floor}, filter(), read_floor)) return status;
    mc::Options floor = comparison_options();
    floor.a = {mc::By::role, 0, metrics::Role::primary, {}};
    floor.b = {mc::By::role, 0, metrics::Role::shadow, {}};
    const auto same = mc::compare(read_floor.samples, names_, floor);
    if (same.pairs == 0) {
      return tell(failed, "--floor " + options_.floor +
                              ": has no pairs; it takes the log of a twin with the primary's own configuration");
    }
    if (same.state != mc::State::final)
      std::fprintf(stderr, "--floor %s: its window is too short to be sure of the floor\n", options_.floor.c_str());
    floor_ = mc::floor_of(same);
    return std::nullopt;
  }

  mc::Options comparison_options() const {
    mc::Options options;
    options.slo = request_.slo;
    options.margin = options_.margin;
    options.floor = floor_;
    options.min_block_s = request_.min_block_s;
    options.warm_up.seconds = request_.warm_up_s;
    return options;
  }

  /// Returns the exit status if there is no report.
  std::optional<int> report_of(const std::vector<std::string>& logs, const std::string& a, const std::string& b,
                               mc::Report& report) {
    auto wanted = filter();
    if (request_.from && !request_.from->before_last) wanted.from_us = request_.from->us;
    if (request_.to && !request_.to->before_last) wanted.to_us = request_.to->us;
    ReadSamples read_logs;
    if (const auto status = read(logs, wanted, read_logs)) return status;
    tell_unread(read_logs);
    const auto chosen = mc::choose_sides(read_logs.samples, names_, request_.by, a, b);
    if (const auto* sentence = std::get_if<std::string>(&chosen)) return tell(config::wrong_usage, *sentence);
    const auto& sides = std::get<mc::SideChoice>(chosen);

    mc::ReportOptions options;
    options.by = request_.by;
    options.comparison = comparison_options();
    options.comparison.a = sides.a;
    options.comparison.b = sides.b;
    options.comparison.length_us = request_.length_us;
    options.comparison.resamples = 1000;
    if (request_.from) options.comparison.from_us = request_.from->of(read_logs.last_us);
    if (request_.to) options.comparison.to_us = request_.to->of(read_logs.last_us);
    options.comparison.warm_up.first_request_us = first_mirrored(read_logs, sides);
    options.cost_per_hour = [&](std::string_view replica, std::string_view configuration) -> std::optional<double> {
      for (const auto name : {replica, configuration}) {
        if (const auto cost = request_.costs.find(name); cost != request_.costs.end()) return cost->second;
      }
      return std::nullopt;
    };
    report = mc::make_report(read_logs.samples, names_, options);
    return std::nullopt;
  }

  /// Returns when the shadow had its first request, if that is before what was kept.
  static std::optional<std::int64_t> first_mirrored(const ReadSamples& read, const mc::SideChoice& sides) {
    std::optional<std::int64_t> first;
    for (const auto& [key, us] : read.first_mirrored) {
      mc::Sample sample;
      sample.role = metrics::Role::shadow;
      std::tie(sample.config, sample.replica, sample.shadow) = key;
      if (sides.b.holds(sample)) first = std::min(first.value_or(us), us);
    }
    return first;
  }

  mc::Style style() const {
    if (options_.markdown) return mc::Style::markdown;
    return isatty(STDOUT_FILENO) != 0 ? mc::Style::colour : mc::Style::plain;
  }

  void print(const std::string& text) const {
    std::fputs(text.c_str(), stdout);
    if (options_.json) std::fputc('\n', stdout);
  }

  int status_of(mc::State state, std::span<const Judgement> judgements) const {
    return fails(request_, state, judgements) ? failed : 0;
  }

  const CompareOptions& options_;
  const Request request_;
  mc::Names names_;
  mc::Floor floor_{};
};

}  // namespace

int run(const CompareOptions& options) {
  auto request = request_of(options);
  if (const auto* problem = std::get_if<config::Problem>(&request)) return tell(config::wrong_usage, problem->text);
  return Command(options, std::get<Request>(std::move(request))).run();
}

}  // namespace weir::proxy::compare
