#include "lab/commands/load_series.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "config/command_line.hpp"
#include "config/values.hpp"
#include "lab/experiment/sweep.hpp"
#include "lab/experiment/users.hpp"
#include "lab/load/connection.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

/// Tells on a terminal what begins.
void tell(const std::string& what) {
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K%s\n", what.c_str());
}

template <class Number>
std::vector<Number> rising(std::vector<Number> numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// Why a series takes none of several options; % stands for the one that was given.
constexpr const char* own_loads =
    "--preset llmperf and --prefill-cost are loads of their own; leave out --users, --runs and all but one number in "
    "--concurrency or --rate";
constexpr const char* no_cost =
    "% has no place in the report of a sweep, of rates or of peak users; leave it out, or run a load of one number at "
    "once";
constexpr const char* no_deviation =
    "a sweep's requests are all alike, so it takes no %; leave it out, or run a load of one number at once";
constexpr const char* no_length =
    "a batch of a sweep is as large as the number at once, so it takes no %; --runs says how many batches there are";

}  // namespace

double read_seconds(const std::string& option, const std::string& text) {
  if (const auto seconds = number_in<double>(text); seconds && *seconds >= 0 && *seconds <= 1e7) return *seconds;
  if (const auto time = config::parse_duration(text)) return time->count();
  throw CLI::ValidationError(
      option, "\"" + config::one_line(text) + "\" must be seconds, or a time such as \"90s\" or \"10m\"");
}

void add_series_options(CLI::App& load, SeriesOptions& options) {
  load.option_defaults()->group("Sweep: several numbers in --concurrency, each measured batch by batch");
  load.add_option("--runs", options.runs, "Batches of each number, after one batch as warm-up")
      ->capture_default_str()
      ->check(config::within(1, 10'000))
      ->needs("--concurrency");
  load.option_defaults()->group("Peak users: each sends, waits, thinks, sends again");
  load.add_option("--users", options.users, "Numbers of users to try, such as 50,100,200; each for --duration (60 s)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(config::within(1, 100'000))
      ->excludes("--concurrency")
      ->excludes("--rate");
  load.add_option("--ramp", options.ramp, "Users that start each second; 0 = all at once")
      ->capture_default_str()
      ->check(config::within(0.0, 1e6))
      ->needs("--users");
  load.add_option_function<std::string>(
          "--think", [&options](const std::string& text) { options.think = read_seconds("--think", text); },
          "Time a user thinks before the next request, such as 2s")
      ->type_name("TIME")
      ->default_str("0")
      ->needs("--users");
  load.add_option(
          "--slo", options.slo,
          "With --users or several rates: objective, such as ttft=1,tpot=0.05; prints the highest number that meets it")
      ->check([](const std::string& text) {
        const auto read = experiment::parse_objective(text);
        const auto* problem = std::get_if<config::Problem>(&read);
        return problem ? problem->text : std::string();
      });
  load.option_defaults()->group("Output");
  load.add_option(
      "--html", options.html,
      "File for a page with charts of a sweep, rates or peak users; - = standard output, in place of the table");
}

bool is_series(const CLI::App& load, const SeriesOptions& options) {
  return !options.users.empty() || options.rates.size() > 1 || options.concurrencies.size() > 1 ||
         load.count("--runs") > 0;
}

std::string refused_in_series(const CLI::App& load, const SeriesOptions& options) {
  enum Of { all, users, sweep, rates };
  const struct {
    Of series;
    const char* option;
    std::string why;
  } refused[]{
      {all, "--preset", own_loads},
      {all, "--prefill-cost", own_loads},
      {all, "--cost-per-hour", no_cost},
      {all, "--price-in", no_cost},
      {all, "--price-out", no_cost},
      {users, "--warm-up", "with --users the ramp is the warm-up; leave out --warm-up"},
      {sweep, "--warm-up", "a sweep's first batch of each size is its warm-up; leave out --warm-up"},
      {users, "--requests", "with --users a stage lasts a time, so it takes no --requests; give --duration"},
      {users, "--batches",
       "with --users each user sends when it has its answer, so it takes no --batches; leave it out"},
      {rates, "--requests", "each rate lasts a time, so it takes no --requests; give --duration"},
      {rates, "--turns", "turns come when those before them end, and not at a rate; leave out --turns"},
      {users, "--turns", "with --users each user thinks for --think, so it takes no --turns; leave it out"},
      {sweep, "--batches", "a sweep sends batch after batch in any case; leave out --batches"},
      {sweep, "--input-stddev", no_deviation},
      {sweep, "--output-stddev", no_deviation},
      {sweep, "--requests", no_length},
      {sweep, "--duration", no_length},
      {sweep, "--trace",
       "a sweep's requests are all alike, so it takes no --trace; give --input-tokens and --output-tokens, or a "
       "--shape"},
  };
  const Of asked = !options.users.empty() ? users : options.rates.size() > 1 ? rates : sweep;
  for (const auto& [series, option, why] : refused) {
    if ((series != all && series != asked) || load.count(option) == 0) continue;
    const std::size_t at = why.find('%');
    return at == std::string::npos ? why : why.substr(0, at) + option + why.substr(at + 1);
  }
  return "";
}

int run_series(const load::LoadSettings& settings, const load::LoadOutput& output, const SeriesOptions& options) {
  const TableRun asked{"weir-lab load",
                       {output.json, output.log, options.html},
                       load::inputs_of(settings, output),
                       output.label,
                       {},
                       settings.ignore_eos,
                       &tell};
  return run_table(asked, [&]() -> std::unique_ptr<experiment::Table> {
    if (options.users.empty() && options.rates.empty()) {
      return std::make_unique<experiment::Sweep>(
          experiment::SweepSettings{settings, rising(options.concurrencies), options.runs});
    }
    experiment::UsersSettings users{settings, rising(options.users), rising(options.rates)};
    if (settings.duration) users.duration = *settings.duration - settings.warm_up;
    users.load.ramp = options.ramp;
    users.load.think = options.think;
    if (!options.slo.empty()) {
      users.objective = std::get<experiment::Objective>(experiment::parse_objective(options.slo));
    }
    return std::make_unique<experiment::PeakUsers>(std::move(users));
  });
}

namespace {

/// True if standard output may have colours (https://no-color.org).
bool coloured() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace

int run_table(const TableRun& asked, const std::function<std::unique_ptr<experiment::Table>()>& table) {
  refuse_mixed({{"--markdown", asked.files.markdown},
                {"--csv", asked.files.csv},
                {"--html", asked.files.html},
                {"--json", asked.files.json},
                {"--log", asked.files.log}},
               asked.inputs);
  Sink markdown(asked.files.markdown), csv(asked.files.csv), html(asked.files.html), json(asked.files.json),
      log(asked.files.log);
  const auto run = table();
  const load::Interrupt interrupt;
  const auto configs = asked.rows.empty() ? std::vector{asked.label} : asked.rows;
  std::vector<load::RequestLines> lines(configs.begin(), configs.end());
  std::vector<load::EndedEarly> early(configs.size());
  const auto on_begin = [&](const experiment::Point& point) { asked.tell(point.begins); };
  const auto on_result = [&](const experiment::Point& point, const load::Result& result) {
    const std::size_t config = asked.rows.empty() ? 0 : point.row;
    if (log) log.stream() << lines[config].line(result) << '\n';
    if (asked.ignore_eos) early[config].add(result);
  };
  const bool cut = !experiment::run(*run, interrupt, on_begin, on_result);
  const experiment::Report report = run->report(cut);

  if (markdown) markdown.stream() << report.page.written(metrics::compare::report::Style::markdown);
  if (csv) csv.stream() << report.csv;
  if (html) html.stream() << chart::as_html(report.title, report.page, report.charts);
  if (json) json.stream() << report.json << '\n';
  const std::array files{&markdown, &csv, &html, &json, &log};
  if (std::ranges::none_of(files, &Sink::to_stdout)) std::cout << experiment::as_text(report, coloured());
  const bool flushed = std::ranges::all_of(files, &Sink::flush) && std::cout.flush();
  const bool written = said_unless(flushed, asked.command);
  for (std::size_t i = 0; i < early.size(); ++i) {
    const auto warning = early[i].warning();
    if (!warning) continue;
    std::cerr << asked.command << ": warning: " << (!asked.rows.empty() ? asked.rows[i] + ": " : "") << *warning
              << '\n';
  }
  for (const std::string& note : report.notes) std::cerr << asked.command << ": " << note << '\n';
  return written && report.whole ? 0 : 1;
}

}  // namespace weir::lab::commands
