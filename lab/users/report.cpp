#include "lab/users/report.hpp"

#include <utility>

#include "config/quantity.hpp"
#include "lab/chart/text_chart.hpp"
#include "lab/figure.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::users {
namespace {

namespace json = boost::json;
using metrics::compare::report::Document;

std::string ms(const std::vector<float>& values, double load::Distribution::*quantile) {
  const auto distribution = load::distribution(values);
  return distribution ? figure(1e3 * (*distribution).*quantile) : "-";
}

std::string text_of(const Objective& objective) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& threshold) {
    if (threshold) text += (text.empty() ? "" : ", ") + format("%s %g s", name, *threshold);
  };
  add("TTFT", objective.ttft);
  add("TPOT", objective.tpot);
  add("E2E", objective.e2e);
  return text;
}

std::string peak_sentence(const Users& users, const Objective& objective) {
  const std::string what = "the objective (" + text_of(objective) + ", met by at least 99 % of the requests)";
  if (!users.peak) return "No number of users meets " + what + ".";
  const std::string peak = counted(*users.peak, "user") + " at once";
  if (*users.peak == users.stages.back().users) return peak + " still meet " + what + ". More were not tried.";
  return peak + " is the highest number that still meets " + what + ".";
}

chart::Chart chart_of(const Users& users) {
  chart::Chart drawn;
  drawn.title = "E2E against throughput";
  drawn.hint = "A point for each number of users, which stands beside it.";
  drawn.x_label = "median E2E, s";
  drawn.y_label = "output tokens/s";
  auto& series = drawn.series.emplace_back();
  series.name = "users";
  for (const Stage& stage : users.stages) {
    const auto e2e = load::distribution(stage.e2e);
    if (!e2e) continue;
    const double rate = stage.output_tokens_per_second();
    series.points.push_back(
        {e2e->p50, rate, std::to_string(stage.users),
         counted(stage.users, "user") + ": " + figure(e2e->p50) + " s, " + figure(rate) + " tokens/s"});
  }
  return drawn;
}

}  // namespace

Document document_of(const Users& users, const UsersSettings& settings) {
  Document document;
  const std::string start =
      settings.load.ramp > 0 ? "Users start at " + figure(settings.load.ramp) + " a second" : "All users start at once";
  document.paragraph(start + "; each sends, waits for the answer, thinks for " +
                     config::format_duration(config::Seconds(settings.load.think)) +
                     (settings.load.think > 0 ? "" : " s") +
                     ", and sends again. Measured are the requests that were sent while all users were there, for " +
                     config::format_duration(config::Seconds(settings.duration)) +
                     ". What was sent before is left out as a warm-up; Locust counts it.");
  if (users.interrupted) document.paragraph("The load was ended by its user; this is what was measured until then.");
  document.heading("Users", "users");
  metrics::compare::report::Table table;
  table.header = {"users", "answered", "failed", "requests/min", "tokens/s", "TTFT p50 ms",
                  "p95",   "TPOT p50", "p95",    "E2E p50",      "p95"};
  if (settings.objective) table.header.emplace_back("met %");
  using load::Distribution;
  for (const Stage& stage : users.stages) {
    auto& row = table.rows.emplace_back(std::vector<std::string>{
        std::to_string(stage.users), std::to_string(stage.ok), std::to_string(stage.failed),
        figure(stage.requests_per_minute()), figure(stage.output_tokens_per_second()),
        ms(stage.ttft, &Distribution::p50), ms(stage.ttft, &Distribution::p95), ms(stage.tpot, &Distribution::p50),
        ms(stage.tpot, &Distribution::p95), ms(stage.e2e, &Distribution::p50), ms(stage.e2e, &Distribution::p95)});
    if (settings.objective) row.push_back(stage.attainment() ? format("%.1f", 100 * *stage.attainment()) : "-");
  }
  document.table(std::move(table));
  if (settings.objective && !users.stages.empty()) document.paragraph(peak_sentence(users, *settings.objective));
  for (const Stage& stage : users.stages) {
    const std::string who = counted(stage.users, "user");
    if (stage.seconds <= 0) document.item(who + ": the load was ended before all of them were there.");
    if (stage.unfinished > 0) {
      document.item(who + ": " + counted(stage.unfinished, "request") +
                    " had no end yet when the load was ended, and " + (stage.unfinished == 1 ? "is" : "are") +
                    " in no figure but that of the tokens.");
    }
    if (!stage.own_delay.empty()) document.item(who + ": " + stage.own_delay);
    if (stage.failed > 0) document.item(who + ": the first failure was " + stage.failure + ".");
    if (settings.objective && stage.seconds > 0 && stage.ok + stage.failed < 100) {
      document.item(who + ": one request in " + std::to_string(stage.ok + stage.failed) +
                    " is more than 1 %, so that a single one decides; a longer --duration gives more of them.");
    }
  }
  return document;
}

std::vector<chart::Figures> figures_of(const Users& users) { return {{"users", {chart_of(users)}}}; }

std::string as_text(const Users& users, const UsersSettings& settings, bool coloured) {
  const Document document = document_of(users, settings);
  return (coloured ? document.coloured() : document.plain()) + '\n' + chart::as_text(chart_of(users), coloured);
}

json::object as_json(const Users& users, const UsersSettings& settings) {
  json::array stages;
  for (const Stage& stage : users.stages) {
    stages.push_back(
        json::object{{"users", stage.users},
                     {"seconds", stage.seconds},
                     {"requests_ok", stage.ok},
                     {"failed", stage.failed},
                     {"unfinished", stage.unfinished},
                     {"requests_per_minute", stage.requests_per_minute()},
                     {"output_tokens_per_second", stage.output_tokens_per_second()},
                     {"ttft_s", load::json_of(load::distribution(stage.ttft))},
                     {"tpot_s", load::json_of(load::distribution(stage.tpot))},
                     {"e2e_s", load::json_of(load::distribution(stage.e2e))},
                     {"slo_attainment", settings.objective ? load::json_of(stage.attainment()) : json::value(nullptr)},
                     {"own_delay", stage.own_delay.empty() ? json::value(nullptr) : json::value(stage.own_delay)}});
  }
  return {{"users", std::move(stages)},
          {"peak_users", users.peak ? json::value(*users.peak) : json::value(nullptr)},
          {"ramp_per_second", settings.load.ramp},
          {"think_s", settings.load.think},
          {"interrupted", users.interrupted}};
}

}  // namespace weir::lab::users
