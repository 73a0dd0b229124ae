#include "lab/commands/load_series.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>

#include "config/quantity.hpp"
#include "config/show.hpp"
#include "lab/commands/run_table.hpp"
#include "lab/experiment/sweep.hpp"
#include "lab/experiment/users.hpp"

namespace weir::lab::commands {
namespace {

/// Tells on a terminal what begins.
void tell(const std::string& what) {
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K%s\n", what.c_str());
}

std::vector<std::uint64_t> rising(std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

double read_seconds(const std::string& option, const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc{} && end == text.data() + text.size() && seconds >= 0 && seconds <= 1e7) return seconds;
  if (const auto time = config::parse_duration(text)) return time->count();
  throw CLI::ValidationError(
      option, "\"" + config::one_line(text) + "\" must be seconds, or a time such as \"90s\" or \"10m\"");
}

void add_series_options(CLI::App& load, SeriesOptions& options, CLI::Option* concurrency, CLI::Option* rate) {
  const std::string sweep = "Sweep: several numbers in --concurrency, each measured batch by batch";
  options.runs_given = load.add_option("--runs", options.runs, "Batches of each number at once, after one warm-up")
                           ->capture_default_str()
                           ->check(CLI::Range(1, 10'000))
                           ->needs(concurrency)
                           ->group(sweep);
  const std::string group = "Peak users: each sends, waits, thinks, sends again";
  auto* const users = load.add_option("--users", options.users,
                                      "Numbers of users to try, such as 50,100,200; each for "
                                      "--duration (60 s)")
                          ->delimiter(',')
                          ->allow_extra_args(false)
                          ->check(CLI::Range(1, 100'000))
                          ->excludes(concurrency)
                          ->excludes(rate)
                          ->group(group);
  load.add_option("--ramp", options.ramp, "Users that start in a second; 0 = all at once")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->needs(users)
      ->group(group);
  load.add_option_function<std::string>(
          "--think", [&options](const std::string& text) { options.think = read_seconds("--think", text); },
          "Time a user thinks before the next request, such as 2s")
      ->type_name("TIME")
      ->default_str("0")
      ->needs(users)
      ->group(group);
  load.add_option("--slo", options.slo, "Objective, such as ttft=1,tpot=0.05: says up to how many users meet it")
      ->needs(users)
      ->check([](const std::string& text) {
        const auto read = experiment::parse_objective(text);
        const auto* problem = std::get_if<config::Problem>(&read);
        return problem ? problem->text : std::string();
      })
      ->group(group);
  load.add_option("--html", options.html,
                  "File for a page with the charts of a sweep or of peak users; - = standard "
                  "output, in place of the table")
      ->group("Output");
}

bool is_series(const SeriesOptions& options) {
  return !options.users.empty() || options.concurrencies.size() > 1 || options.runs_given->count() > 0;
}

std::string refused_in_series(const CLI::App& load, const SeriesOptions& options) {
  const bool users = !options.users.empty();
  for (const char* const own : {"--preset", "--prefill-cost"}) {
    if (load.count(own) == 0) continue;
    return "--preset llmperf and --prefill-cost are loads of their own; leave out --users, --runs and all but one "
           "number "
           "in --concurrency";
  }
  for (const char* const price : {"--cost-per-hour", "--price-in", "--price-out"}) {
    if (load.count(price) == 0) continue;
    return std::string(price) +
           " has no place in the report of a sweep or of peak users; leave it out, or run a load " +
           "of one number at once";
  }
  if (users && load.count("--requests") > 0) {
    return "with --users a stage lasts a time, so it takes no --requests; give --duration";
  }
  if (users && load.count("--batches") > 0) {
    return "with --users each user sends when it has its answer, so it takes no --batches; leave it out";
  }
  if (users) return "";
  if (load.count("--batches") > 0) return "a sweep sends batch after batch in any case; leave out --batches";
  for (const char* const deviation : {"--input-stddev", "--output-stddev"}) {
    if (load.count(deviation) == 0) continue;
    return "a sweep's requests are all alike, so it takes no " + std::string(deviation) +
           "; leave it out, or run a load of one number at once";
  }
  for (const char* const length : {"--requests", "--duration"}) {
    if (load.count(length) == 0) continue;
    return "a batch of a sweep is as large as the number at once, so it takes no " + std::string(length) +
           "; --runs says how many batches there are";
  }
  if (load.count("--trace") == 0) return "";
  return "a sweep's requests are all alike, so it takes no --trace; give --input-tokens and --output-tokens, or a "
         "--shape";
}

int run_series(const load::LoadSettings& settings, const load::LoadOutput& output, const SeriesOptions& options) {
  const TableRun asked{
      "weir-lab load", {output.json, output.log, options.html}, output.label, {}, settings.ignore_eos, &tell};
  return run_table(asked, [&]() -> std::unique_ptr<experiment::Table> {
    if (options.users.empty()) {
      return std::make_unique<experiment::Sweep>(
          experiment::SweepSettings{settings, rising(options.concurrencies), options.runs});
    }
    experiment::UsersSettings users{settings, rising(options.users), settings.duration.value_or(60), std::nullopt};
    users.load.ramp = options.ramp;
    users.load.think = options.think;
    if (!options.slo.empty()) {
      users.objective = std::get<experiment::Objective>(experiment::parse_objective(options.slo));
    }
    return std::make_unique<experiment::PeakUsers>(std::move(users));
  });
}

}  // namespace weir::lab::commands
