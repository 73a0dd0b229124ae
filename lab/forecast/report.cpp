#include "lab/forecast/report.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "config/pools.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/compare/statistics/quantile.hpp"

namespace weir::lab::forecast {
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
