#include "proxy/compare/request.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include "config/command_line.hpp"
#include "config/keys.hpp"
#include "config/values.hpp"
#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/history.hpp"
#include "metrics/compare/page/page.hpp"
#include "metrics/compare/report/report.hpp"
#include "metrics/text.hpp"
#include "proxy/compare/reporting.hpp"
#include "proxy/compare/sample_reading.hpp"

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

constexpr int failed = 1, gate_worse = 3, gate_unknown = 4;

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

/// The run of a command, from its logs to its report.
class Command {
 public:
  Command(const CompareOptions& options, Request request) : options_(options), request_(std::move(request)) {}

  int run() {
    if (const auto status = read_floor()) return *status;
    ReadSamples read_logs;
    if (const auto status = read_all(options_.logs, read_logs)) return *status;
    if (options_.b.empty()) {
      if (auto made = candidates_report_on(read_logs, names_, request_, options_.margin, Noise{histories_}, options_.a))
        return run_candidates(*std::move(made));
    }
    mc::report::Report report;
    if (const auto status = report_of(read_logs, options_.a, options_.b, report)) return *status;
    if (const auto status = write(report)) return *status;
    return options_.gate ? status_of(mc::comparison::gate_of(report.comparison)) : 0;
  }

 private:
  /// Reads logs, and returns the exit status if that fails.
  std::optional<int> read(const std::vector<std::string>& logs, const Filter& filter, ReadSamples& read) {
    const Progress progress;
    const auto failure = read_samples(logs, filter, names_, std::cref(progress), read);
    if (failure) return tell(failed, *failure);
    return std::nullopt;
  }

  static void tell_what_does_not_count(const ReadSamples& read) {
    if (read.unread > 0)
      std::fprintf(stderr, "%llu of %llu lines are no lines of a request log; the first is %s\n",
                   static_cast<unsigned long long>(read.unread), static_cast<unsigned long long>(read.lines),
                   read.first_unread.c_str());
    if (read.strays > 0)
      std::fprintf(stderr,
                   "%llu of %llu lines are of another time than all others, and are left out; the first is %s: was a "
                   "clock not set?\n",
                   static_cast<unsigned long long>(read.strays), static_cast<unsigned long long>(read.lines),
                   read.first_stray.c_str());
    if (read.warm_up > 0)
      std::fprintf(stderr, "%llu of %llu lines are of a warm-up (\"warm_up\":true), and do not count\n",
                   static_cast<unsigned long long>(read.warm_up), static_cast<unsigned long long>(read.lines));
    if (read.repeated > 0)
      std::fprintf(stderr,
                   "%llu of %llu lines repeat requests that were read before, and each request counts once; the first "
                   "is %s: a log is named twice, or is part of another\n",
                   static_cast<unsigned long long>(read.repeated), static_cast<unsigned long long>(read.lines),
                   read.first_repeated.c_str());
  }

  /// A floor run has one configuration, as primary and as shadow.
  std::optional<int> read_floor() {
    if (options_.floor.empty()) return std::nullopt;
    ReadSamples read_floor;
    if (const auto status = read({options_.floor}, filter_without_times(), read_floor)) return status;
    if (const auto different = mc::comparison::different_configurations(read_floor.samples))
      return tell(failed, "--floor " + options_.floor + ": a primary ran " + quoted(different->primary) +
                              " and its shadow " + quoted(different->shadow) +
                              "; it takes the log of a twin with the primary's own configuration, because no margin is "
                              "below what the sides of this log differ by");
    const mc::sides::Selection primary{mc::sides::By::role, 0, metrics::Role::primary};
    const mc::sides::Selection shadow{mc::sides::By::role, 0, metrics::Role::shadow};
    mc::pairs::WarmUp warm_up{.seconds = request_.warm_up_s, .mirrored = &read_floor.mirrored};
    warm_up.kv_tokens = kv_tokens_of(request_.kv_tokens, names_);
    const auto couple = mc::comparison::couple_of(read_floor.samples, names_, primary, shadow, warm_up,
                                                  "--floor " + config::one_line(options_.floor));
    const auto& minutes = couple.minutes[static_cast<std::size_t>(mc::statistics::Figure::output_tokens)];
    if (minutes.empty())
      return tell(failed, "--floor " + options_.floor +
                              ": has no pairs of a warm shadow; it takes the log of a twin with the primary's own "
                              "configuration");
    histories_ = mc::comparison::histories_of(std::span(&couple, 1));
    if (histories_.empty())
      return tell(failed, fmt::format("--floor {}: has pairs in {} minutes, and it takes eight hours: a drift that is "
                                      "longer than a window shows in no less",
                                      options_.floor, minutes.size()));
    return std::nullopt;
  }

  std::string quoted(mc::samples::Names::Name config) const {
    return config == 0 ? "no config" : '"' + config::one_line(std::string(names_.text(config))) + '"';
  }

  /// A floor run has times of its own.
  Filter filter_without_times() const {
    auto filter = filter_of(request_, options_.model);
    filter.from_us = filter.to_us = std::nullopt;
    return filter;
  }

  std::optional<int> read_all(const std::vector<std::string>& logs, ReadSamples& read_logs) {
    if (const auto status = read(logs, filter_of(request_, options_.model), read_logs)) return status;
    tell_what_does_not_count(read_logs);
    for (const std::string_view cost : options_.costs) {
      const auto name = cost.substr(0, cost.rfind('='));
      if (read_logs.samples.empty() || is_of_a_replica(read_logs.samples, name)) continue;
      return tell(config::wrong_usage, "--cost \"" + config::one_line(cost) +
                                           "\": no replica and no configuration of these requests has this name");
    }
    return std::nullopt;
  }

  /// True if a replica, or its configuration, has the name.
  bool is_of_a_replica(std::span<const mc::samples::Sample> samples, std::string_view name) const {
    return std::ranges::any_of(samples, [&](const auto& sample) {
      return names_.text(sample.replica) == name || names_.text(sample.config) == name;
    });
  }

  /// Returns the exit status if there is no report.
  std::optional<int> report_of(const ReadSamples& read_logs, const std::string& a, const std::string& b,
                               mc::report::Report& report) {
    auto made = report_on(read_logs, names_, request_, options_.margin, Noise{histories_}, a, b);
    if (const auto* sentence = std::get_if<std::string>(&made)) return tell(config::wrong_usage, *sentence);
    report = std::get<mc::report::Report>(std::move(made));
    return std::nullopt;
  }

  int run_candidates(std::variant<mc::report::CandidatesReport, std::string> made) const {
    if (const auto* sentence = std::get_if<std::string>(&made)) return tell(config::wrong_usage, *sentence);
    const auto& all = std::get<mc::report::CandidatesReport>(made);
    if (const auto status = write(all)) return *status;
    int status = 0;
    for (std::size_t i = 0; i < all.reports.size(); ++i) {
      const auto& comparison = all.reports[i].comparison;
      if (!options_.gate) continue;
      tell(0, comparison.b + ':');
      const int one = status_of(all.rows[i].gate);
      if (one == gate_worse || status == 0) status = one;
    }
    return status;
  }

  mc::report::Style style() const {
    if (options_.markdown) return mc::report::Style::markdown;
    return isatty(STDOUT_FILENO) != 0 ? mc::report::Style::colour : mc::report::Style::plain;
  }

  mc::report::Detail detail() const { return options_.details ? mc::report::Detail::full : mc::report::Detail::brief; }

  /// Prints the report, and writes the page if one is asked for. Returns the exit status if that fails.
  template <class Report>
  std::optional<int> write(const Report& report) const {
    const auto text =
        options_.json ? mc::report::as_json(report) + '\n' : mc::report::as_text(report, style(), detail());
    std::fputs(text.c_str(), stdout);
    if (options_.html.empty()) return std::nullopt;
    config::begin_private(options_.html);
    std::ofstream page(options_.html, std::ios::binary);
    page << mc::page::as_html(report);
    page.close();
    if (page) return std::nullopt;
    const std::string reason = std::strerror(errno);
    return tell(failed, "--html " + config::one_line(options_.html) + ": cannot be written: " + reason);
  }

  static int status_of(const mc::comparison::GateResult& gate) {
    tell(0, "gate: " + std::string(name_of(gate.word)));
    for (const auto& sentence : gate.worse) tell(0, "worse: " + sentence);
    for (const auto& sentence : gate.unknown) tell(0, "not known: " + sentence);
    switch (gate.word) {
      case mc::comparison::Gate::pass:
        return 0;
      case mc::comparison::Gate::worse:
        return gate_worse;
      case mc::comparison::Gate::unknown:
        return gate_unknown;
    }
    return failed;
  }

  const CompareOptions& options_;
  const Request request_;
  mc::samples::Names names_;
  std::vector<mc::comparison::History> histories_;
};

}  // namespace

int run(const CompareOptions& options) {
  auto request = request_of(options);
  if (const auto* problem = std::get_if<config::Problem>(&request)) return tell(config::wrong_usage, problem->text);
  return Command(options, std::get<Request>(std::move(request))).run();
}

}  // namespace weir::proxy::compare
