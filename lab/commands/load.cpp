#include "lab/commands/load.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "config/command_line.hpp"
#include "config/keys.hpp"
#include "config/values.hpp"
#include "lab/commands/commands.hpp"
#include "lab/experiment/run.hpp"
#include "lab/experiment/sweep.hpp"
#include "lab/load/connection.hpp"
#include "lab/load/load.hpp"
#include "lab/load/report.hpp"
#include "lab/load/trace.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

struct LoadOptions {
  const CLI::App* command = nullptr;
  load::LoadSettings settings;
  load::LoadOutput output;
  SeriesOptions series;
  double duration = 0;
  std::string preset;
  std::vector<double> input_range{250, 3500};
  std::string trace;
  std::size_t trace_limit = 0;
};

std::vector<load::TraceEntry> read_trace(const LoadOptions& options) {
  load::LogFacts facts;
  auto trace = load::read_trace_file(options.trace, options.trace_limit, &facts);
  for (const std::string& said : {facts.left_out(), facts.warning()})
    if (!said.empty()) std::cerr << "weir-lab load: " << options.trace << ": " << said << '\n';
  return trace;
}

/// Reads a file that holds only a key. The sentence of a problem names the option and never shows the key.
std::string read_api_key(const std::string& option, const std::string& path) {
  auto read = config::SecretFile{"the replica's key"}(toml::value<std::string>(path));
  if (const auto* problem = std::get_if<config::Problem>(&read)) {
    throw CLI::ValidationError(option, "\"" + path + "\": " + problem->text);
  }
  return std::get<std::string>(std::move(read));
}

void add_experiment_options(CLI::App& load, LoadOptions& options) {
  load.option_defaults()->group("Published experiments");
  load.add_option(
          "--preset", options.preset,
          "llmperf: the load of its article (5 at once, 550 +- 150 tokens in, 150 +- 20 out) and its ITL (E2E / "
          "output tokens)")
      ->check(CLI::IsMember({"llmperf"}));
  load.add_flag("--batches", options.settings.batches,
                "Send the next batch when all requests of the last one have ended, as the first LLMPerf");
  load.add_flag("--prefill-cost", options.output.prefill_cost,
                "Measure what 1000 prompt tokens and an output token take on an idle replica, by requests of many "
                "lengths, one by one")
      ->excludes("--preset");
  load.add_option("--input-range", options.input_range, "Shortest and longest prompt of --prefill-cost, in tokens")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str()
      ->check(config::within(1.0, 1e7))
      ->needs("--prefill-cost");
  load::Prices& prices = options.output.prices;
  load.add_option("--cost-per-hour", prices.per_hour, "Price of an hour of the replica: adds the cost")
      ->check(config::not_negative());
  for (const auto& [name, price, of] :
       {std::tuple("--price-in", &prices.in, "Price of a million prompt tokens: adds the cost"),
        std::tuple("--price-out", &prices.out, "Price of a million output tokens")}) {
    load.add_option(name, *price, of)->check(config::not_negative())->excludes("--cost-per-hour");
  }
}

void add_arrival_options(CLI::App& load, LoadOptions& options) {
  load.option_defaults()->group("How many, when");
  load.add_option("--concurrency", options.series.concurrencies,
                  "Closed load: number of requests at a time; several numbers, such as 1,2,4, are a sweep")
      ->default_str("5")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(config::within(1, 100'000))
      ->excludes("--prefill-cost");
  load.add_option("--rate", options.series.rates,
                  "Open load: requests a second, however long answers take; several rates, such as 1,2,4, run one "
                  "after the other, each for --duration (60 s)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(config::within(1e-6, 1e6))
      ->excludes("--concurrency")
      ->excludes("--batches")
      ->excludes("--prefill-cost");
  const auto read_arrivals = [&options](const std::string& text) {
    const auto arrivals = load::arrivals_of(text);
    if (!arrivals) {
      throw CLI::ValidationError(
          "--arrivals", "\"" + config::one_line(text) +
                            "\" must be poisson, constant, gamma:CV (0.01 to 100, such as gamma:2) or burst:N (1 to "
                            "100000, such as burst:8)");
    }
    options.settings.workload.arrivals = *arrivals;
  };
  load.add_option_function<std::string>("--arrivals", read_arrivals,
                                        "poisson, constant, gamma:CV (bursty above 1) or burst:N (N at once)")
      ->default_str("poisson")
      ->type_name("HOW")
      ->needs("--rate");
  const auto read_warm_up = [&options](const std::string& text) {
    options.settings.warm_up = read_seconds("--warm-up", text);
  };
  load.add_option_function<std::string>("--warm-up", read_warm_up,
                                        "Time before the measured part: its requests are in no figure, and are marked "
                                        "in the log; --duration begins after it, --requests counts from the start")
      ->type_name("TIME")
      ->excludes("--prefill-cost");
  load.add_option("--requests", options.settings.requests,
                  "Requests in all, 0 = no limit (60; with --duration or a trace's arrivals: no limit)")
      ->check(config::not_negative());
  const auto read_duration = [&options](const std::string& text) {
    options.duration = read_seconds("--duration", text);
    if (options.duration <= 0) throw CLI::ValidationError("--duration", "must be more than 0");
  };
  load.add_option_function<std::string>(
          "--duration", read_duration,
          "Seconds, or a time such as 10m, after which no request is sent; requests under way finish")
      ->type_name("TIME");
}

/// The options of lengths. A trace has lengths of its own, and so has --prefill-cost.
void add_length_options(CLI::App& load, LoadOptions& options) {
  load::WorkloadSettings& w = options.settings.workload;
  load.option_defaults()->group("How long (normally distributed tokens)");
  std::string described = "Lengths of a kind of use, the same for all requests:";
  std::vector<std::string> names;
  for (const load::Shape& shape : load::shapes) {
    described += (names.empty() ? " " : ", ") + names.emplace_back(shape.name) +
                 fmt::format(" {:.0f} in and {:.0f} out", shape.input_tokens, shape.output_tokens);
  }
  // The shape stands before the options that override it, because CLI11 runs them in the order in which they were
  // added.
  const auto take_shape = [&w](const std::string& name) {
    w.take(*std::ranges::find(load::shapes, name, &load::Shape::name));
  };
  load.add_option_function<std::string>("--shape", take_shape, described)
      ->check(CLI::IsMember(names))
      ->excludes("--prefill-cost");
  const auto add_length = [&](const char* name, double& tokens, const char* help, const CLI::Validator& within) {
    load.add_option(name, tokens, help)->capture_default_str()->check(within)->excludes("--prefill-cost");
  };
  const CLI::Validator a_length = config::within(1.0, 1e7);
  add_length("--input-tokens", w.input_tokens, "Mean prompt; given without a deviation, all are alike", a_length);
  add_length("--input-stddev", w.input_stddev, "Standard deviation of prompts", config::not_negative());
  add_length("--output-tokens", w.output_tokens,
             "Mean answer, sent as max_tokens; given without a deviation, all are alike", a_length);
  add_length("--output-stddev", w.output_stddev, "Standard deviation of answers", config::not_negative());

  load.option_defaults()->group("From a trace");
  load.add_option("--trace", options.trace,
                  "Arrivals and lengths of a CSV of Azure's (2023 to 2025) or BurstGPT's, of weir's request log (with "
                  "turns), of Mooncake's JSON lines (with shared prefixes), of AIPerf's (with session_id and delay) or "
                  "of Qwen-Bailian's (with conversations); --rate and --concurrency replace the arrivals");
  for (const char* const other : {"--preset", "--prefill-cost", "--shape", "--input-tokens", "--input-stddev",
                                  "--output-tokens", "--output-stddev"}) {
    load.get_option("--trace")->excludes(other);
  }
  const auto add_number = [&](const char* name, auto& number, const char* help, const CLI::Validator& within) {
    load.add_option(name, number, help)->capture_default_str()->check(within)->needs("--trace");
  };
  add_number("--trace-speed", w.trace_speed, "Factor by which the trace is replayed faster", config::positive());
  load.add_flag("--turns", w.turns,
                "Closed loop: a turn begins when the turn before it has ended and the user has thought")
      ->needs("--trace")
      ->excludes("--concurrency");
  add_number("--trace-limit", options.trace_limit, "Entries to use, 0 = all", config::not_negative());
}

/// Runs what the options ask for. Throws std::invalid_argument with a sentence where they do not go together.
int run(LoadOptions& options) {
  const CLI::App& load = *options.command;
  const auto given = [&load](const char* option) { return load.count(option) > 0; };
  load::LoadSettings& settings = options.settings;
  load::WorkloadSettings& workload = settings.workload;
  const bool series = is_series(load, options.series);
  options.output.trace = options.trace;
  if (settings.ignore_eos && settings.api == load::Api::tgi) {
    throw std::invalid_argument(std::string(load::tgi_cannot_ignore_eos) + "; leave out --ignore-eos");
  }
  settings.facts = !options.output.log.empty();
  options.output.llmperf = options.preset == "llmperf";
  settings.concurrency = options.series.concurrencies.front();
  if (options.output.prefill_cost) {
    const auto [least, most] = std::minmax(options.input_range.front(), options.input_range.back());
    workload.input_range = {least, most};
    workload.output_range = {16, 64};
    settings.concurrency = 1;
  }
  if (!given("--usage")) {
    settings.usage = options.output.llmperf || options.output.prefill_cost || settings.facts || series;
  }
  if (given("--rate")) workload.rate = options.series.rates.front();
  if (given("--duration")) settings.duration = options.duration + settings.warm_up;
  // A mean without a deviation means requests that are all alike.
  if (given("--input-tokens") && !given("--input-stddev")) workload.input_stddev = 0;
  if (given("--output-tokens") && !given("--output-stddev")) workload.output_stddev = 0;
  if (std::string url = load::without_v1(settings.url); url != settings.url) {
    std::cerr << "weir-lab load: --url is taken as " << url << ", because the paths begin with /v1 themselves\n";
    settings.url = std::move(url);
  }
  if (given("--trace")) {
    workload.trace = read_trace(options);
    workload.trace_arrivals = !given("--rate") && !given("--concurrency");
    const auto follows = [](const load::TraceEntry& entry) { return entry.parent.has_value(); };
    if (workload.turns && std::ranges::none_of(workload.trace, follows)) {
      throw std::invalid_argument("--turns: no line of " + options.trace +
                                  " has a turn before it: it needs chat_id and parent_chat_id (Qwen-Bailian), "
                                  "session_id (AIPerf), Session ID (BurstGPT), or group and e2e_s (a request log); "
                                  "leave out --turns");
    }
  }
  if (!given("--requests") && (settings.duration || workload.trace_arrivals)) settings.requests = 0;
  if (series) {
    workload.trace_arrivals = false;
    const std::string refused = refused_in_series(load, options.series);
    if (!refused.empty()) throw std::invalid_argument(refused);
    return run_series(settings, options.output, options.series);
  }
  if (!options.series.html.empty()) {
    throw std::invalid_argument(
        "--html needs a sweep (--concurrency 1,2,4,8), several rates (--rate 1,2,4) or --users");
  }
  if (!options.series.slo.empty()) throw std::invalid_argument("--slo needs --users, or several rates (--rate 1,2,4)");
  return load::run_load(settings, options.output);
}

constexpr std::string_view help =
    "TTFT: start to first token. ITL: gaps between token events. TPOT: (last - first token) / (tokens - 1). E2E: "
    "start\n"
    "to the end of the answer. The start is before connecting; tokens have the moment of their arrival in the "
    "kernel.\n"
    "Failed requests stay out of them. p99 needs 100 values.\n"
    "Examples: weir-lab load --url http://127.0.0.1:8080 --concurrency 20 --duration 60\n"
    "          weir-lab load --rate 4 --arrivals gamma:2 --warm-up 30s --duration 5m --log load.jsonl\n"
    "          weir-lab load --rate 1,2,4,8 --duration 2m --slo ttft=1,tpot=0.05 --html rates.html\n"
    "          weir-lab load --trace conv.csv --trace-speed 2 --trace-limit 500 --json report.json\n"
    "          weir-lab load --shape rag --concurrency 1,2,4,8,16,32,64,128 --runs 5 --html sweep.html\n"
    "          weir-lab load --users 50,100,200 --ramp 10 --think 2s --duration 10m --slo ttft=1,tpot=0.05\n"
    "          weir-lab load --preset llmperf --requests 100 --cost-per-hour 2.5\n"
    "          weir-lab load --prefill-cost --input-range 250,3500\n"
    "          weir-lab load --trace requests.jsonl --log replay.jsonl --label candidate\n"
    "          weir-lab load --trace qwen_coder_blksz_16.jsonl --turns --trace-limit 500\n";

/// The options of where requests go, and how they ask.
void add_request_options(CLI::App& load, LoadOptions& options) {
  load::LoadSettings& s = options.settings;
  load.add_option("--url", s.url, "http://host[:port][/prefix], or https")->capture_default_str();
  add_ca_option(load, s.ca);
  load.add_option("--model", s.model, "Model of the requests; without it they name none");
  load.add_option("--api", s.api, "chat (default), completions or tgi")
      ->transform(config::word_of(std::map<std::string, load::Api>{
          {"chat", load::Api::chat}, {"completions", load::Api::completions}, {"tgi", load::Api::tgi}}));
  load.add_flag("--usage,!--no-usage", s.usage,
                "Ask for usage; without usage an event counts as one token. The default with --log, --preset, "
                "--prefill-cost, --users and a sweep");
  load.add_flag("--ignore-eos", s.ignore_eos,
                "Ask for answers of exactly max_tokens (ignore_eos of vLLM, SGLang and llama.cpp; TGI cannot)");
  load.add_option_function<std::string>(
          "--api-key-file",
          [&s, &output = options.output](const std::string& path) {
            s.api_key = read_api_key("--api-key-file", path);
            output.api_key_file = path;
          },
          "File that holds only the key of the service, which is sent as a bearer token, and is in no report or log")
      ->type_name("FILE");
  load.add_option("--header", s.headers,
                  "Header field of each request, such as \"x-team: search\"; may be given several times")
      ->type_name("FIELD")
      ->allow_extra_args(false)
      ->check([](const std::string& field) {
        const std::string problem = load::header_problem(field);
        return problem.empty() ? problem : "\"" + config::one_line(field) + "\" " + problem;
      });
  load.add_option("--timeout", s.timeout, "Longest time of a request, in seconds")
      ->capture_default_str()
      ->check(config::positive());
  load.add_option("--seed", s.workload.seed, "Seed of lengths, texts, arrivals and request ids")->capture_default_str();
}

}  // namespace

void add_load_command(CLI::App& app, int& status) {
  CLI::App* load = app.add_subcommand("load", "Send streamed requests, and measure what a client sees");
  const auto options = run_with_options(*load, status, &run);
  options->command = load;
  load->footer(std::string(help) + std::string(experiment::knee_rule));
  add_request_options(*load, *options);
  add_experiment_options(*load, *options);
  add_arrival_options(*load, *options);
  add_series_options(*load, options->series);
  add_length_options(*load, *options);

  load->option_defaults()->group("Output");
  load->add_option("--json", options->output.json,
                   "File for the figures as JSON; - = standard output, in place of the table");
  load->add_option(
      "--log", options->output.log,
      "File for a request log as weir writes it, for `weir compare`; - = standard output, in place of the table");
  load->add_option("--label", options->output.label,
                   "config in the lines of --log, by which `weir compare` tells sides apart");
}

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
