#include "lab/commands/commands.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/command_line.hpp"
#include "config/keys.hpp"
#include "config/pools.hpp"
#include "lab/chart/chart.hpp"
#include "lab/commands/load.hpp"
#include "lab/engine/engine_model.hpp"
#include "lab/experiment/rows.hpp"
#include "lab/forecast/forecast.hpp"
#include "lab/load/trace.hpp"
#include "lab/load/traces/mooncake.hpp"
#include "lab/sim/sim_replica.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

using namespace experiment;

struct Options {
  std::string file;
  Files files;
  bool afresh = false;
};

/// Opens the results file for more lines. A line that was cut short is ended first.
std::ofstream kept_in(const std::string& path, bool afresh) {
  bool cut = false;
  if (std::ifstream before(path, std::ios::binary | std::ios::ate); before && !afresh && before.tellg() > 0) {
    before.seekg(-1, std::ios::end);
    cut = before.get() != '\n';
  }
  config::begin_private(path);
  std::ofstream results(path, afresh ? std::ios::trunc : std::ios::app);
  if (!results) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  if (cut) results << '\n';
  return results;
}

Done done_before(const Plan& plan, bool afresh) {
  std::ifstream lines(afresh ? std::string("/dev/null") : plan.results);
  const ResultsRead read = read_results(plan, lines);
  const std::uint64_t all = plan.repeat * plan.rows.size(), done = all - left(plan, read.done);
  if (done > 0) {
    std::cerr << "weir-lab experiment: " << done << " of " << all << " repetitions are in " << plan.results
              << " already and are not run again; --afresh runs all\n";
  }
  const auto left_out = [&](std::uint64_t lines, const std::string& why) {
    if (lines == 0) return;
    std::cerr << "weir-lab experiment: " << counted(lines, "line") << " of " << plan.results << why << '\n';
  };
  const auto are = [](std::uint64_t lines) { return std::string(lines == 1 ? " is" : " are"); };
  left_out(read.others, are(read.others) + " of other rows or prompts and left out");
  left_out(read.beyond, are(read.beyond) + " of repetitions beyond repeat = " + std::to_string(plan.repeat) +
                            " and left out; a higher repeat uses them again");
  left_out(read.broken, " cannot be read and left out");
  return read.done;
}

int run_experiment(Options& options) {
  const PlanResult loaded = load_plan(options.file);
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&loaded)) {
    for (const auto& error : *errors) std::cerr << error.text() << '\n';
    return 2;
  }
  const auto& plan = std::get<Plan>(loaded);
  auto inputs = plan.inputs;
  inputs.emplace_back("the results file", plan.results);
  std::ofstream results;
  TableRun asked{"weir-lab experiment", options.files, std::move(inputs), "", {}, plan.ignore_eos, {}};
  for (const Row& row : plan.rows) asked.rows.push_back(row.name());
  asked.tell = [](const std::string& what) { std::cerr << what << '\n'; };
  return run_table(asked, [&] {
    Done done = done_before(plan, options.afresh);
    results = kept_in(plan.results, options.afresh);
    return std::make_unique<Rows>(plan, std::move(done), results, std::cerr, !options.files.log.empty());
  });
}

}  // namespace

void add_experiment_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("experiment", "Run a table of loads over one set of prompts");
  const auto options = run_with_options(*command, status, &run_experiment);
  command->footer(
      "FILE has a [prompts] table (count, shape or lengths, seed) and a [[run]] for each row: label, url or replica,\n"
      "concurrency (a number or a list), and descriptions: gpu, engine, speculation, cost_per_hour. Each row is run\n"
      "`repeat` times. A results file beside FILE keeps finished rows, and the same command continues from there.\n"
      "docs/guides/load-test.md has all keys.\n"
      "Example: weir-lab experiment cards.toml --markdown cards.md --html cards.html");
  command->add_option("FILE", options->file, "The experiment, in TOML")->required();
  command->add_option("--markdown", options->files.markdown, "File for the table as Markdown; - = standard output");
  command->add_option("--csv", options->files.csv, "File for the table as CSV; - = standard output");
  command->add_option("--html", options->files.html, "File for a page with charts; - = standard output");
  command->add_option("--json", options->files.json, "File for the table as JSON; - = standard output");
  command->add_option("--log", options->files.log,
                      "File for a request log for `weir compare`, whose config is the row, such as \"H800, 8 at "
                      "once\"; - = standard output");
  command->add_flag("--afresh", options->afresh, "Run all rows again, whatever the results file has");
}

namespace {

struct ExportOptions {
  std::string log, format = "mooncake", to = "-";
};

int run_export(ExportOptions& options) {
  refuse_mixed({{"--to", options.to}}, {{"the log", options.log}});
  load::LogFacts facts;
  const auto trace = load::read_trace_file(options.log, 0, &facts);
  Sink to(options.to);
  load::traces::write_mooncake(to.stream(), trace);
  for (const std::string& said : {facts.left_out(), facts.warning()})
    if (!said.empty()) std::cerr << "weir-lab export: " << options.log << ": " << said << '\n';
  return said_unless(to.flush(), "weir-lab export") ? 0 : 1;
}

}  // namespace

void add_export_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("export", "Write a request log as a trace for AIPerf, vLLM's bench and other tools");
  const auto options = run_with_options(*command, status, &run_export);
  command->footer(
      "Lines have timestamp (ms), input_length, output_length and hash_ids, one for each 512 tokens of the prompt.\n"
      "Example: weir-lab export requests.jsonl --to trace.jsonl");
  command->add_option("log", options->log, "weir's request log, or another trace that `weir-lab load` reads")
      ->required()
      ->type_name("FILE");
  command->add_option("--format", options->format, "Format of the trace; mooncake is the only one")
      ->capture_default_str()
      ->check(CLI::IsMember({"mooncake"}));
  command->add_option("--to", options->to, "File for the trace; - = standard output")->capture_default_str();
}

namespace {

struct PlanOptions {
  std::string log, json, html;
  forecast::ServedLogSettings reading{.most_requests = 5000};
  forecast::ForecastSettings settings;
  std::vector<std::size_t> replicas;
  std::vector<config::Policy> policies;
  config::Policy logged_policy = config::Policy::least_queued_tokens;
  std::vector<bool> prefix_aware;
};

/// Returns the scenario of the log itself, and then those that were asked for. Without a wish each thing is changed by
/// itself.
std::vector<forecast::Scenario> scenarios_of(const PlanOptions& options, const forecast::ServedLog& log) {
  const bool aware = !options.prefix_aware.empty() ? options.prefix_aware.front() : log.cached_tokens_told;
  const auto of = [](std::size_t replicas, config::Policy policy, bool prefix_aware) {
    // No other policy looks at prefixes.
    return forecast::Scenario{replicas, policy, prefix_aware && policy == config::Policy::least_queued_tokens};
  };
  const std::size_t here = log.replicas.size();
  const forecast::Scenario baseline = of(here, options.logged_policy, aware);
  std::vector<forecast::Scenario> scenarios{baseline};
  const auto add = [&](const forecast::Scenario& scenario) {
    if (std::ranges::find(scenarios, scenario) == scenarios.end()) scenarios.push_back(scenario);
  };
  if (options.replicas.empty() && options.policies.empty() && options.prefix_aware.empty()) {
    if (here > 1) add(of(here - 1, options.logged_policy, aware));
    add(of(here + 1, options.logged_policy, aware));
    for (const auto& [name, policy] : config::policy_words) add(of(here, policy, aware));
    if (log.cached_tokens_told) add(of(here, options.logged_policy, !aware));
    return scenarios;
  }
  const auto replicas = options.replicas.empty() ? std::vector{here} : options.replicas;
  const auto policies = options.policies.empty() ? std::vector{options.logged_policy} : options.policies;
  const auto prefixes = options.prefix_aware.empty() ? std::vector{aware} : options.prefix_aware;
  for (const std::size_t n : replicas)
    for (const config::Policy policy : policies)
      for (const bool prefix_aware : prefixes) add(of(n, policy, prefix_aware));
  return scenarios;
}

int run_plan(PlanOptions& options) {
  refuse_mixed({{"--json", options.json}, {"--html", options.html}}, {{"the log", options.log}});
  auto file = opened("the request log ", options.log);
  Sink json(options.json), html(options.html);
  forecast::ServedLog log;
  forecast::Forecast made;
  try {
    log = forecast::read_served_log(file, options.reading);
    made = forecast::forecast(log, scenarios_of(options, log), options.settings,
                              [](const std::string& what) { std::cerr << "weir-lab plan: " << what << '\n'; });
  } catch (const std::invalid_argument& wrong) {
    throw std::invalid_argument(options.log + ": " + wrong.what());
  }
  if (const std::string damaged = log.damaged_lines(); !damaged.empty())
    std::cerr << "weir-lab plan: " << options.log << ": " << damaged << '\n';
  if (const std::string warning = log.facts.warning(); !warning.empty())
    std::cerr << "weir-lab plan: " << options.log << ": warning: " << warning << '\n';
  const experiment::Report report = forecast::report_of(options.log, log, options.settings, made);
  if (json) json.stream() << report.json << '\n';
  if (html) html.stream() << chart::as_html(report.title, report.page, report.charts);
  const std::array files{&json, &html};
  if (std::ranges::none_of(files, &Sink::to_stdout)) std::cout << experiment::as_text(report, false);
  const bool flushed = std::ranges::all_of(files, &Sink::flush) && std::cout.flush();
  return said_unless(flushed, "weir-lab plan") ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Predict what other policies or numbers of replicas would do with your request log, in simulated time");
  const auto options = run_with_options(*plan, status, &run_plan);
  plan->footer(
      "Engines are fitted from the log. The first table shows how well they predict what did happen, the second\n"
      "what would have happened.\n"
      "Examples: weir-lab plan requests.jsonl\n"
      "          weir-lab plan requests.jsonl --replicas 3,4,5 --speed 1.5 --html plan.html");
  std::map<std::string, config::Policy> policies;
  for (const auto& [name, policy] : config::policy_words) policies.emplace(name, policy);
  const auto policy_word = config::word_of(policies);
  plan->add_option("log", options->log, "weir's request log")->required()->type_name("FILE");
  plan->add_option("--pool", options->reading.pool, "Only requests of this pool");
  plan->add_option("--requests", options->reading.most_requests,
                   "Number of requests to use, the last of the log; 0 = all")
      ->capture_default_str();
  plan->add_option("--logged-replicas", options->reading.replicas,
                   "Number of replicas that there were, if some served no request and are not in the log")
      ->check(config::within(1, 1000));
  plan->add_option("--replicas", options->replicas, "Numbers of replicas to try, such as 3,4,5")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(config::within(1, 1000));
  plan->add_option("--policy", options->policies, "Policies to try")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(policy_word);
  plan->add_option("--logged-policy", options->logged_policy, "Policy of the log (least_queued_tokens)")
      ->transform(policy_word);
  plan->add_option("--prefix-aware", options->prefix_aware,
                   "on, off, or both such as on,off; the first is that of the log (on if the log has cached tokens)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(config::word_of(std::map<std::string, bool>{{"on", true}, {"off", false}}));
  plan->add_option("--speed", options->settings.speed, "Factor by which requests arrive faster")
      ->capture_default_str()
      ->check(config::within(0.01, 100.0));
  plan->add_option("--kv-tokens", options->settings.limits.kv_tokens, "Size of an engine's KV cache, in tokens")
      ->capture_default_str()
      ->check(config::positive());
  plan->add_option("--max-batch", options->settings.limits.max_batch, "Most sequences that an engine runs at once")
      ->capture_default_str()
      ->check(config::positive());
  plan->add_option("--prefill-budget", options->settings.limits.prefill_budget, "Most tokens of an engine's step")
      ->capture_default_str()
      ->check(config::positive());
  plan->add_option("--runs", options->settings.runs,
                   "Simulations of each scenario, with other random draws; figures are of all together")
      ->capture_default_str()
      ->check(config::within(1, 1000));
  plan->add_option("--seed", options->settings.seed, "Seed of texts and of weir's draws")->capture_default_str();
  plan->add_option("--json", options->json,
                   "File for the figures as JSON; - = standard output, in place of the tables");
  plan->add_option("--html", options->html, "File for a page with charts; - = standard output");
}

namespace {

struct SimOptions {
  sim::SimSettings settings;
  std::string listen = "127.0.0.1:8001";
};

/// Reads "ADDRESS:PORT" or "[ADDRESS]:PORT". Returns what is wrong, or "" if nothing is.
std::string read_listen(const std::string& text, sim::SimSettings& settings) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return "expected ADDRESS:PORT, got \"" + text + "\"";
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code ec;
  boost::asio::ip::make_address(host, ec);
  if (ec) return "expected a numeric address before the port, got \"" + host + "\"";
  const auto port = number_in<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (!port) return "the port must be 0 to 65535, got \"" + text.substr(colon + 1) + "\"";
  settings.host = host;
  settings.port = *port;
  return "";
}

int run_sim(SimOptions& options) {
  read_listen(options.listen, options.settings);
  sim::run_sim(options.settings);
  return 0;
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  CLI::App* sim =
      app.add_subcommand("sim", "A simulated replica: a real HTTP server with a model of an engine behind it");
  const auto options = run_with_options(*sim, status, &run_sim);
  sim::SimSettings& s = options->settings;
  sim->footer(std::string("Serves /v1/chat/completions and /v1/completions as vLLM does (only Content-Type: "
                          "application/json), /generate and\n/generate_stream as TGI does, and "
                          "/v1/models, /health, /metrics, /reset_prefix_cache, /flush_cache. Its times are simulated: "
                          "they resemble an engine and prove nothing about one.\n") +
              "Example: weir-lab sim --listen 127.0.0.1:8001 --preset a800 --speed 0.5 --log truth.jsonl\n\n" +
              engine::describe_engine_presets());
  sim->add_option("--listen", options->listen, "Address and port; port 0 lets the system choose")
      ->capture_default_str()
      ->check([](const std::string& text) {
        sim::SimSettings ignored;
        return read_listen(text, ignored);
      });
  sim->add_option("--model", s.model, "Name of the model it serves")->capture_default_str();
  sim->add_option("--seed", s.seed, "Seed of answers, their lengths and the jitter")->capture_default_str();
  sim->add_option("--engine", s.engine, "Engine whose metric names /metrics has: vllm (default) or tgi")
      ->transform(config::word_of(
          std::map<std::string, sim::EngineNames>{{"vllm", sim::EngineNames::vllm}, {"tgi", sim::EngineNames::tgi}}));
  sim->add_option("--cached-tokens", s.cache_report,
                  "Cached tokens that usage reports with --prefix-cache: exact (default), none (vLLM without "
                  "--enable-prompt-tokens-details), half (wrong), coarse (whole pages of 64), nonzero (no count if it "
                  "is 0, as SGLang)")
      ->transform(
          config::word_of(std::map<std::string, engine::CacheReport>{{"exact", engine::CacheReport::exact},
                                                                     {"none", engine::CacheReport::none},
                                                                     {"half", engine::CacheReport::half},
                                                                     {"coarse", engine::CacheReport::coarse},
                                                                     {"nonzero", engine::CacheReport::nonzero}}));
  sim->add_flag("--thoughts", s.thoughts,
                "Later prompts find no answer in the KV cache, as with chat templates that leave out the thoughts");
  sim->add_option("--log", s.log, "File for one JSON line per request, with its true moments; - = standard output");

  engine::add_engine_options(*sim, s.model_settings);
}

}  // namespace weir::lab::commands
