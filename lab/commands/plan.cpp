#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "config/option_checks.hpp"
#include "config/policy_words.hpp"
#include "lab/chart/page.hpp"
#include "lab/commands/commands.hpp"
#include "lab/forecast/report.hpp"
#include "lab/sink.hpp"
#include "lab/source.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
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

}  // namespace weir::lab::commands
