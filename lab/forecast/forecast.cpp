#include "lab/forecast/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "config/pools.hpp"
#include "lab/engine/words.hpp"
#include "lab/load/report.hpp"
#include "lab/load/workload.hpp"
#include "lab/text.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::lab::forecast {
namespace {

const metrics::UniversalKey prefix_key{{1, 2}};

using metrics::compare::statistics::quantile;
using plan::TracedRequest;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 31;
}

/// Names the tokens of a prompt and its answer, as texts are made of them (lab/load/workload.cpp).
std::vector<std::uint64_t> blocks_of(const load::TraceEntry& entry) {
  engine::PromptBlocks blocks;
  const auto add = [&](std::uint64_t text, std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < tokens; ++i) blocks.add(mixed(text, i));
  };
  for (const load::TraceEntry::Part& part : entry.parts) add(part.text, part.tokens);
  add(entry.answer, entry.output_tokens);
  return blocks.take();
}

/// Places each request where the log has it.
class AsLogged final : public plan::Router {
 public:
  explicit AsLogged(const ServedLog& log) : log_(log) {}
  std::size_t choose(std::size_t i, const TracedRequest& /*request*/, const plan::Fleet& /*fleet*/) override {
    return log_.requests[i].replica;
  }

 private:
  const ServedLog& log_;
};

void check_fit(const ServedLog& log, const EngineLimits& limits) {
  for (const LoggedRequest& request : log.requests) {
    const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
    if (tokens + engine::block_tokens > limits.kv_tokens) {
      throw std::invalid_argument("a request of the log has " + std::to_string(tokens) +
                                  " tokens, which do not fit into a KV cache of " + std::to_string(limits.kv_tokens) +
                                  " tokens; give --kv-tokens what the engines tell");
    }
  }
}

/// Gathers the latencies of a run. `overheads` are the replicas' times beside their engines.
struct Gathered {
  std::vector<double> ttft, tpot;

  void add(const plan::Served& served, std::span<const double> overheads) {
    if (served.ttft) ttft.push_back(*served.ttft + overheads[served.asked.back()]);
    if (served.tpot) tpot.push_back(*served.tpot);
  }
};

/// Compares what did happen with what the fitted engines make of it.
void predict(Forecast& forecast, const ServedLog& log, std::span<const TracedRequest> requests, plan::Setup setup,
             std::span<const double> overheads) {
  // The engines had the requests in the order in which they were sent, and without regard to turns.
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return log.requests[i].sent; });
  ServedLog sent;
  std::vector<TracedRequest> as_sent;
  for (const std::size_t i : order) {
    sent.requests.push_back(log.requests[i]);
    TracedRequest& request = as_sent.emplace_back(requests[i]);
    request.at = log.requests[i].sent;
    request.parent.reset();
  }
  setup.router = std::make_shared<AsLogged>(sent);
  const auto results = plan::Simulation(setup).serve(as_sent, plan::rate_of(as_sent));
  std::vector<Gathered> logged(log.replicas.size() + 1), simulated(log.replicas.size() + 1);
  std::vector<std::uint64_t> logged_cached(logged.size()), simulated_cached(logged.size());
  for (std::size_t i = 0; i < sent.requests.size(); ++i) {
    const LoggedRequest& request = sent.requests[i];
    for (const std::size_t row : {request.replica, log.replicas.size()}) {
      // Both sides have the same requests: those that were streams.
      const plan::Served& served = results.requests[i];
      logged_cached[row] += request.cached_tokens;
      simulated_cached[row] += served.cached_tokens;
      if (request.ttft && served.ttft) {
        logged[row].ttft.push_back(*request.ttft);
        simulated[row].ttft.push_back(*served.ttft + overheads[request.replica]);
      }
      if (request.tpot && served.tpot) {
        logged[row].tpot.push_back(*request.tpot);
        simulated[row].tpot.push_back(*served.tpot);
      }
    }
  }
  forecast.logged_ttft = logged.back().ttft;
  forecast.simulated_ttft = simulated.back().ttft;
  std::ranges::sort(forecast.logged_ttft);
  std::ranges::sort(forecast.simulated_ttft);
  for (std::size_t row = 0; row < logged.size(); ++row) {
    if (logged[row].ttft.empty()) continue;
    forecast.predictions.push_back({row < log.replicas.size() ? log.replicas[row] : "all",
                                    latencies_of(std::move(logged[row].ttft), std::move(logged[row].tpot)),
                                    latencies_of(std::move(simulated[row].ttft), std::move(simulated[row].tpot)),
                                    logged_cached[row], simulated_cached[row]});
  }
}

/// The engines of a scenario, and their overheads.
struct Fleet {
  std::vector<engine::EngineSettings> engines;
  std::vector<double> overheads;
};

Fleet fleet_of(const Forecast& forecast, std::size_t replicas, const EngineLimits& limits, bool caching) {
  Fleet fleet;
  for (std::size_t r = 0; r < replicas; ++r) {
    const EngineFit& fit = forecast.fits[r % forecast.fits.size()];
    fleet.engines.push_back(settings_of(fit, limits, caching, forecast.hit_tokens));
    fleet.overheads.push_back(fit.overhead);
  }
  return fleet;
}

plan::Setup setup_of(const Fleet& fleet, std::uint64_t seed) {
  plan::Setup setup;
  setup.engines = fleet.engines;
  setup.seed = seed;
  setup.engine_seed = seed * 101;
  setup.probes = false;
  setup.endless_queue = true;
  setup.kv_tokens_known = true;
  return setup;
}

/// The figures of one run of a scenario.
struct Run {
  Gathered gathered;
  double computed_tokens = 0;
};

Run run(const Fleet& fleet, const Scenario& scenario, std::span<const TracedRequest> requests, double speed,
        std::uint64_t seed) {
  plan::Setup setup = setup_of(fleet, seed);
  setup.policy = scenario.policy;
  setup.prefix_aware = scenario.prefix_aware;
  const auto results = plan::Simulation(setup).serve(requests, speed * plan::rate_of(requests));
  Run run;
  for (const plan::Served& served : results.requests) run.gathered.add(served, fleet.overheads);
  for (const std::uint64_t tokens : results.prefilled) run.computed_tokens += static_cast<double>(tokens);
  return run;
}

std::vector<double> joined(std::span<const std::vector<double>> runs) {
  std::vector<double> all;
  for (const auto& run : runs) all.insert(all.end(), run.begin(), run.end());
  return all;
}

/// Thinking goes faster as the arrivals do.
void hurry(std::vector<TracedRequest>& requests, double speed) {
  for (TracedRequest& request : requests) request.think /= speed;
}

}  // namespace

Latencies latencies_of(std::vector<double> ttft, std::vector<double> tpot) {
  const std::span<double> first(ttft), rest(tpot);
  return {quantile(first, 0.5), quantile(first, 0.9), quantile(first, 0.99), quantile(rest, 0.5), quantile(rest, 0.9),
          quantile(rest, 0.99), ttft.size()};
}

std::vector<TracedRequest> requests_of(const ServedLog& log) {
  std::vector<TracedRequest> requests;
  load::WorkloadSettings texts;
  texts.trace = log.trace;
  const load::Workload workload(texts);
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    const LoggedRequest& logged = log.requests[i];
    TracedRequest& request = requests.emplace_back();
    request.at = logged.arrived;
    request.prompt_tokens = logged.prompt_tokens;
    request.output_tokens = logged.output_tokens;
    request.parent = log.trace[i].parent;
    request.think = log.trace[i].think;
    request.session = log.trace[i].conversation;
    request.blocks = blocks_of(log.trace[i]);
    // Where weir is not told how long an answer may be, the body says so, too.
    const auto messages = workload.messages({i, 0, logged.prompt_tokens, logged.output_tokens});
    const std::string body =
        load::request_body(load::Api::chat, "planned", messages, {logged.max_tokens.value_or(1024), true});
    metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions", nullptr,
                                              &prefix_key);
    inspector.feed(body);
    request.facts = std::make_shared<const metrics::wire::RequestFacts>(inspector.finish());
    request.prefix = inspector.take_prefix();
  }
  return requests;
}

Forecast forecast(const ServedLog& log, const std::vector<Scenario>& scenarios, const ForecastSettings& settings,
                  const std::function<void(const std::string&)>& tell) {
  check_fit(log, settings.limits);
  Forecast forecast;
  forecast.fits = fit_engines(log, settings.limits.prefill_budget);
  forecast.hit_tokens = hit_tokens_of(log);
  auto requests = requests_of(log);
  const bool caching = log.cached_tokens_told;
  {
    const Fleet fleet = fleet_of(forecast, log.replicas.size(), settings.limits, caching);
    predict(forecast, log, requests, setup_of(fleet, settings.seed), fleet.overheads);
  }
  hurry(requests, settings.speed);

  for (const Scenario& scenario : scenarios) {
    const Fleet fleet = fleet_of(forecast, scenario.replicas, settings.limits, caching);
    if (tell) tell(counted(scenario.replicas, "replica") + " by " + std::string(config::name_of(scenario.policy)));
    std::vector<std::vector<double>> ttft, tpot;
    Outcome& outcome = forecast.outcomes.emplace_back();
    outcome.scenario = scenario;
    for (std::uint64_t n = 0; n < settings.runs; ++n) {
      Run one = run(fleet, scenario, requests, settings.speed, settings.seed + n);
      ttft.push_back(std::move(one.gathered.ttft));
      tpot.push_back(std::move(one.gathered.tpot));
      outcome.computed_tokens += one.computed_tokens / static_cast<double>(settings.runs);
    }
    outcome.ttft_p50 = interval_of(ttft, 0.5);
    outcome.ttft_p99 = interval_of(ttft, 0.99);
    outcome.tpot_p50 = interval_of(tpot, 0.5);
    outcome.ttft = joined(ttft);
    outcome.latencies = latencies_of(outcome.ttft, joined(tpot));
    std::ranges::sort(outcome.ttft);
  }
  return forecast;
}

namespace {

constexpr std::size_t parts = 20;
constexpr std::size_t draws = 100;

void add_part(std::vector<double>& values, const std::vector<double>& run, std::size_t part) {
  const auto at = [&run](std::size_t p) { return run.begin() + static_cast<std::ptrdiff_t>(run.size() * p / parts); };
  values.insert(values.end(), at(part), at(part + 1));
}

double variance_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const auto squares = [mean](double sum, double value) { return sum + (value - mean) * (value - mean); };
  return std::accumulate(values.begin(), values.end(), 0.0, squares) / (count - 1);
}

}  // namespace

Interval interval_of(std::span<const std::vector<double>> runs, double q) {
  const auto logarithm = [q](std::vector<double> some) {
    return std::log(metrics::compare::statistics::quantile(std::span(some), q));
  };
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all, of_runs, of_draws;
  for (const std::vector<double>& run : runs) {
    if (run.size() < 2 * parts) return {unknown, unknown};
    all.insert(all.end(), run.begin(), run.end());
    of_runs.push_back(logarithm(run));
  }
  if (runs.empty()) return {unknown, unknown};
  engine::Random random(1);
  for (std::size_t n = 0; n < draws; ++n) {
    std::vector<double> drawn;
    drawn.reserve(all.size() + all.size() / parts);
    for (std::size_t p = 0; p < parts; ++p) {
      const std::size_t part = random.below(parts);
      for (const std::vector<double>& run : runs) add_part(drawn, run, part);
    }
    of_draws.push_back(logarithm(std::move(drawn)));
  }
  double variance = variance_of(of_draws) * parts / (parts - 1);
  if (runs.size() > 1) variance += variance_of(of_runs);
  const double wide = metrics::compare::statistics::t_two_sided(interval_confidence, parts - 1) * std::sqrt(variance);
  const double estimate = logarithm(std::move(all));
  return {std::exp(estimate - wide), std::exp(estimate + wide)};
}

namespace {

using experiment::Document;
using load::JsonWriter;
using metrics::compare::report::short_number;
using metrics::compare::report::Table;

std::string milliseconds(double seconds) { return std::isnan(seconds) ? "-" : short_number(1e3 * seconds); }

std::string error_of(double logged, double simulated) {
  return std::isfinite(simulated / logged) ? with_sign(100 * (simulated / logged - 1), 0) + " %" : "-";
}

std::string with_interval(double value, const Interval& interval) {
  std::string shown = milliseconds(value);
  if (std::isnan(interval.low)) return shown;
  return shown + " (" + milliseconds(interval.low) + " to " + milliseconds(interval.high) + ")";
}

struct Figure {
  const char* name;
  double Latencies::* value;
};
constexpr Figure figures[]{{"TTFT p50", &Latencies::ttft_p50}, {"TTFT p90", &Latencies::ttft_p90},
                           {"TTFT p99", &Latencies::ttft_p99}, {"TPOT p50", &Latencies::tpot_p50},
                           {"TPOT p90", &Latencies::tpot_p90}, {"TPOT p99", &Latencies::tpot_p99}};

void add_predictions(Document& document, const Forecast& forecast) {
  document.heading("How well the fitted engines predict what did happen", "prediction");
  document.paragraph(
      "Each request was given to the replica that had it, when it had it. In ms: logged, simulated, and "
      "by how much the simulation is off. Cached are prompt tokens that were found in a replica's "
      "cache.");
  Table table;
  table.header = {"replica", "figure", "logged", "simulated", "error"};
  for (const Prediction& prediction : forecast.predictions) {
    for (const Figure& figure : figures) {
      const double logged = prediction.logged.*figure.value, simulated = prediction.simulated.*figure.value;
      table.rows.push_back({prediction.replica, figure.name, milliseconds(logged), milliseconds(simulated),
                            error_of(logged, simulated)});
    }
    const auto logged = static_cast<double>(prediction.logged_cached);
    const auto simulated = static_cast<double>(prediction.simulated_cached);
    if (logged > 0 || simulated > 0) {
      table.rows.push_back({prediction.replica, "cached, 1000 tokens", fmt::format("{:.0f}", logged / 1e3),
                            fmt::format("{:.0f}", simulated / 1e3), error_of(logged, simulated)});
    }
  }
  document.table(std::move(table));
}

void add_fits(Document& document, const ServedLog& log, const Forecast& forecast) {
  document.folded("Constants fitted from the log");
  Table table;
  table.header = {"replica",           "step ms",     "prompt token us", "decoding sequence us",
                  "resident token ns", "overhead ms", "median error"};
  for (std::size_t r = 0; r < log.replicas.size(); ++r) {
    const EngineFit& fit = forecast.fits[r];
    table.rows.push_back({log.replicas[r] + (fit.pooled ? " (as all)" : ""), short_number(1e3 * fit.base),
                          short_number(1e6 * fit.prefill), short_number(1e6 * fit.sequence), short_number(1e9 * fit.kv),
                          short_number(1e3 * fit.overhead), fmt::format("{:.1f} %", 100 * fit.error)});
  }
  document.table(std::move(table));
  if (log.cached_tokens_told)
    document.paragraph("Engines find prompts in blocks of " + std::to_string(forecast.hit_tokens) + " tokens.");
}

std::string name_of(const Scenario& scenario) {
  return counted(scenario.replicas, "replica") + ", " + std::string(config::name_of(scenario.policy)) +
         (scenario.prefix_aware ? ", prefix-aware" : "");
}

void add_outcomes(Document& document, const ForecastSettings& settings, const Forecast& forecast) {
  document.heading("What would have happened", "scenarios");
  std::string about =
      "TTFT counts from the client's request. In ms, of " + counted(settings.runs, "run") +
      " together; in brackets where the figure of such logs lies with 90 % confidence (p99: 75 to 90 %), by what "
      "parts of this one, drawn with replacement, and the runs' own draws change. How far the engines are off is not "
      "in it: see above";
  if (settings.speed != 1) about += "; times between arrivals are divided by " + short_number(settings.speed);
  document.paragraph(about + ".");
  Table table;
  table.header = {"scenario", "TTFT p50", "TTFT p99", "p99 change", "TPOT p50", "prefilled, 1000 tokens"};
  for (const Outcome& outcome : forecast.outcomes) {
    const Latencies& latencies = outcome.latencies;
    const bool first = &outcome == &forecast.outcomes.front();
    table.rows.push_back({name_of(outcome.scenario), with_interval(latencies.ttft_p50, outcome.ttft_p50),
                          with_interval(latencies.ttft_p99, outcome.ttft_p99),
                          first ? "-" : error_of(forecast.outcomes.front().latencies.ttft_p99, latencies.ttft_p99),
                          with_interval(latencies.tpot_p50, outcome.tpot_p50),
                          fmt::format("{:.0f}", outcome.computed_tokens / 1e3)});
  }
  document.table(std::move(table));
}

void add_notes(Document& document, const ServedLog& log, const ForecastSettings& settings) {
  if (const auto said = log.damaged_lines(); !said.empty()) document.item(said + '.');
  if (log.left_out > 0) {
    document.item(counted(log.left_out, "line") +
                  " failed or tell too little, and are in no figure; their load on the replicas is missing.");
  }
  if (log.facts.keyed == log.requests.size()) {
    document.item("Prompts share what the log's keys tell (prefixes).");
  } else {
    const std::string groups = log.conversations > 0
                                   ? "what the turns of one conversation (group) share, " +
                                         counted(log.conversations, "conversation") + " of more than one turn"
                                   : std::string("nothing, because the log has no conversations of several turns");
    const std::string without = std::to_string(log.requests.size() - log.facts.keyed);
    document.item((log.facts.keyed > 0 ? without + " requests of the log have" : std::string("The log has")) +
                  " no keys of prompts: prompts are taken to share " + groups +
                  ". With [log] prefixes = true weir logs keys.");
  }
  if (!log.cached_tokens_told) document.item("The log tells no cached tokens: engines are taken to keep no prefixes.");
  std::string idle;
  for (std::size_t r = 0; r < log.replicas.size(); ++r) {
    const bool served = std::ranges::any_of(log.requests, [r](const auto& request) { return request.replica == r; });
    if (!served) idle += (idle.empty() ? "" : ", ") + log.replicas[r];
  }
  if (!idle.empty())
    document.item("Replicas that served none of these requests, and are taken to be as all the others: " + idle + ".");
  if (!log.before.empty()) {
    std::string names;
    for (const std::string& name : log.before) names += (names.empty() ? "" : ", ") + name;
    document.item("Replicas that had requests only before these, and are taken to have left: " + names +
                  ". If they were there, give --logged-replicas the number of all.");
  }
  document.item("A log does not tell an engine's limits. Taken are " + std::to_string(settings.limits.max_batch) +
                " sequences at once, a KV cache of " + std::to_string(settings.limits.kv_tokens) + " tokens and " +
                std::to_string(settings.limits.prefill_budget) + " tokens a step.");
}

chart::Series curve(const std::string& name, const std::vector<double>& sorted) {
  chart::Series series{name, {}};
  for (int percent = 5; percent <= 99 && !sorted.empty(); percent += percent < 95 ? 5 : 1) {
    const double value =
        metrics::compare::statistics::quantile_of_sorted(std::span<const double>(sorted), 0.01 * percent);
    series.points.push_back({static_cast<double>(percent), value, "", fmt::format("p{}: {:.4g} s", percent, value)});
  }
  return series;
}

chart::Chart quantile_chart(const char* title) {
  return {title, "Quantiles of the time to first token.", "percent of requests", "TTFT, s", {}};
}

void write(JsonWriter& json, const Latencies& latencies) {
  json.open('{').key("requests").count(latencies.requests);
  json.key("ttft_p50_s").exact(latencies.ttft_p50).key("ttft_p90_s").exact(latencies.ttft_p90);
  json.key("ttft_p99_s").exact(latencies.ttft_p99).key("tpot_p50_s").exact(latencies.tpot_p50);
  json.key("tpot_p90_s").exact(latencies.tpot_p90).key("tpot_p99_s").exact(latencies.tpot_p99).close('}');
}

void write(JsonWriter& json, const Interval& interval) {
  json.open('[').exact(interval.low).exact(interval.high).close(']');
}

std::string json_of(const ServedLog& log, const ForecastSettings& settings, const Forecast& forecast) {
  JsonWriter json;
  json.open('{').key("requests").count(log.requests.size()).key("left_out").count(log.left_out);
  json.key("damaged").count(log.damaged);
  json.key("keyed").count(log.facts.keyed).key("unexplained_cached_share").exact(log.facts.unexplained());
  json.key("hit_tokens").count(forecast.hit_tokens);
  json.key("speed").exact(settings.speed).key("runs").count(settings.runs);
  json.key("engines").open('[');
  for (std::size_t r = 0; r < log.replicas.size(); ++r) {
    const EngineFit& fit = forecast.fits[r];
    json.open('{').key("replica").text(log.replicas[r]).key("step_s").exact(fit.base);
    json.key("prompt_token_s").exact(fit.prefill).key("decoding_sequence_s").exact(fit.sequence);
    json.key("resident_token_s").exact(fit.kv).key("overhead_s").exact(fit.overhead);
    json.key("median_error").exact(fit.error).key("pooled").boolean(fit.pooled).close('}');
  }
  json.close(']').key("predictions").open('[');
  for (const Prediction& prediction : forecast.predictions) {
    json.open('{').key("replica").text(prediction.replica);
    write(json.key("logged"), prediction.logged);
    write(json.key("simulated"), prediction.simulated);
    json.key("logged_cached_tokens").count(prediction.logged_cached);
    json.key("simulated_cached_tokens").count(prediction.simulated_cached);
    json.close('}');
  }
  json.close(']').key("scenarios").open('[');
  for (const Outcome& outcome : forecast.outcomes) {
    json.open('{').key("replicas").count(outcome.scenario.replicas);
    json.key("policy").text(config::name_of(outcome.scenario.policy));
    json.key("prefix_aware").boolean(outcome.scenario.prefix_aware);
    write(json.key("latencies"), outcome.latencies);
    write(json.key("ttft_p50_interval_s"), outcome.ttft_p50);
    write(json.key("ttft_p99_interval_s"), outcome.ttft_p99);
    write(json.key("tpot_p50_interval_s"), outcome.tpot_p50);
    json.key("prefilled_tokens").exact(outcome.computed_tokens).close('}');
  }
  return json.close(']').close('}').written();
}

}  // namespace

experiment::Report report_of(const std::string& path, const ServedLog& log, const ForecastSettings& settings,
                             const Forecast& forecast) {
  Document document;
  document.paragraph(path + ": " + counted(log.requests.size(), "request") + " served by " +
                     counted(log.replicas.size(), "replica") + " in " + short_number(log.requests.back().arrived) +
                     " s.");
  if (const std::string warning = log.facts.warning(); !warning.empty())
    document.paragraph("WARNING: " + warning + ", and their TTFT is predicted too long.");
  add_predictions(document, forecast);
  add_outcomes(document, settings, forecast);
  add_notes(document, log, settings);
  add_fits(document, log, forecast);
  chart::Chart prediction = quantile_chart("TTFT, logged and simulated");
  prediction.series = {curve("logged", forecast.logged_ttft), curve("simulated", forecast.simulated_ttft)};
  chart::Chart scenarios = quantile_chart("TTFT by scenario");
  for (const Outcome& outcome : forecast.outcomes)
    scenarios.series.push_back(curve(name_of(outcome.scenario), outcome.ttft));
  experiment::Report report{"Plan with " + path,
                            document,
                            document,
                            {{"prediction", {std::move(prediction)}}, {"scenarios", {std::move(scenarios)}}}};
  report.json = json_of(log, settings, forecast);
  return report;
}

}  // namespace weir::lab::forecast
