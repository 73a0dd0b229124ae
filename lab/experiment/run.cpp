#include "lab/experiment/run.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "config/values.hpp"
#include "lab/load/connection.hpp"
#include "lab/text.hpp"
#include "metrics/compare/report/document.hpp"

namespace weir::lab::experiment {
namespace {

double now() { return load::seconds_of(std::chrono::steady_clock::now()); }

}  // namespace

bool run(Table& table, const load::Interrupt& interrupt, const OnBegin& on_begin, const OnPointResult& on_result,
         const Measure& measure) {
  const std::vector<Point> points = table.points();
  for (const Point& point : points) {
    on_begin(point);
    Ran ran;
    const auto run_one = [&](const load::LoadSettings& settings, const load::OnResult& keep) {
      ran.begun = now();
      try {
        const load::Measured measured = measure(settings, interrupt, keep);
        ran.cut = measured.interrupted;
        ran.all = measured.report.all;
        ran.own_delay = load::too_slow(measured.own, measured.report.all);
      } catch (const std::runtime_error& problem) {
        ran.problem = problem.what();
      }
      ran.ended = now();
      return !ran.cut && ran.problem.empty();
    };
    if (!point.warm_up || run_one(*point.warm_up, {})) {
      run_one(point.load, [&](const load::Result& result) {
        ran.results.push_back(result);
        on_result(point, result);
      });
    }
    const bool ended = ran.cut || interrupt.seen();  // A short load ends before it looks.
    table.take(point, std::move(ran));
    if (ended) return false;
  }
  return true;
}

std::string as_text(const Report& report, bool coloured) {
  using metrics::compare::report::Style;
  std::string out = report.terminal.written(coloured ? Style::colour : Style::plain);
  for (const chart::Figures& under : report.charts) {
    const chart::Chart* last = nullptr;
    for (const auto& one : under.charts) {
      if (const auto* drawn = std::get_if<chart::Chart>(&one)) last = drawn;
    }
    if (last) out += '\n' + chart::as_text(*last, coloured);
  }
  return out;
}

std::string at_once(std::uint64_t concurrency) { return std::to_string(concurrency) + " at once"; }

namespace {

using metrics::compare::report::short_number;

double tokens_within(const load::Course& course, const Window& window) {
  double tokens = 0;
  for (std::size_t i = 0; i < course.events.size(); ++i) {
    if (window.holds(course.events[i])) tokens += i == 0 ? 1 : course.tokens_per_event;
  }
  return tokens;
}

/// Returns "8 users" or "2.5 requests a second".
std::string name_of(const Stage& stage) {
  if (stage.rate > 0) return short_number(stage.rate) + (stage.rate == 1 ? " request a second" : " requests a second");
  return counted(stage.users, "user");
}

/// Returns the number of its users, or its rate.
std::string number_of(const Stage& stage) {
  return stage.rate > 0 ? short_number(stage.rate) : std::to_string(stage.users);
}

/// Returns the seconds from the first user's start to the last one's.
double ramp_of(const UsersSettings& settings, std::uint64_t users) {
  return settings.load.ramp > 0 ? static_cast<double>(users - 1) / settings.load.ramp : 0;
}

std::string text_of(const Objective& objective) {
  std::string text;
  for (const auto& [name, threshold] :
       {std::pair("TTFT", objective.ttft), std::pair("TPOT", objective.tpot), std::pair("E2E", objective.e2e)}) {
    if (threshold) text += (text.empty() ? "" : ", ") + fmt::format("{} {:g} s", name, *threshold);
  }
  return text;
}

std::string peak_sentence(std::span<const Stage> stages, const Objective& objective) {
  const std::string what = "the objective (" + text_of(objective) + ", met by at least 99 % of the requests)";
  const bool rates = stages.front().rate > 0;
  const Stage* const most = peak_of(stages);
  if (!most) return (rates ? "No rate meets " : "No number of users meets ") + what + ".";
  const std::string peak = name_of(*most) + (rates ? "" : " at once");
  if (most == &stages.back()) return peak + " still meet " + what + ". More were not tried.";
  return peak + " is the highest " + (rates ? "rate" : "number") + " that still meets " + what + ".";
}

chart::Chart chart_of(const UsersSettings& settings, std::span<const Stage> stages) {
  const bool rates = !settings.rates.empty();
  chart::Chart drawn{"E2E against throughput",
                     rates ? "A point for each rate, which stands beside it."
                           : "A point for each number of users, which stands beside it.",
                     "median E2E, s",
                     "output tokens/s",
                     {{rates ? "requests a second" : "users", {}}}};
  for (const Stage& stage : stages) {
    const auto e2e = stage.requests.e2e();
    if (!e2e) continue;
    const double rate = stage.output_tokens_per_second();
    drawn.series[0].points.push_back(
        {e2e->p50, rate, number_of(stage),
         name_of(stage) + ": " + short_number(e2e->p50) + " s, " + short_number(rate) + " tokens/s"});
  }
  return drawn;
}

void add_table(Document& document, bool rates, std::span<const Stage> stages, bool judged) {
  metrics::compare::report::Table table;
  table.header = {rates ? "requests/s" : "users",
                  "answered",
                  "failed",
                  "requests/min",
                  "tokens/s",
                  "TTFT p50 ms",
                  "p95",
                  "TPOT p50",
                  "p95",
                  "E2E p50",
                  "p95"};
  if (judged) table.header.emplace_back("met %");
  for (const Stage& stage : stages) {
    auto& row = table.rows.emplace_back(
        std::vector{number_of(stage), std::to_string(stage.requests.ok()), std::to_string(stage.requests.failed()),
                    short_number(stage.requests_per_minute()), short_number(stage.output_tokens_per_second())});
    for (const auto& latency : {stage.requests.ttft(), stage.requests.tpot(), stage.requests.e2e()}) {
      row.push_back(latency ? short_number(1e3 * latency->p50) : "-");
      row.push_back(latency ? short_number(1e3 * latency->p95) : "-");
    }
    if (judged) row.push_back(stage.attainment() ? fmt::format("{:.1f}", 100 * *stage.attainment()) : "-");
  }
  document.table(std::move(table));
}

void add_problems(Document& document, std::span<const Stage> stages, bool judged) {
  for (const Stage& stage : stages) {
    const std::string who = name_of(stage) + ": ";
    if (stage.seconds <= 0) {
      document.item(who + (stage.rate > 0 ? "the load was ended within the warm-up."
                                          : "the load was ended before all of them were there."));
    }
    if (const std::uint64_t unfinished = stage.requests.unfinished(); unfinished > 0) {
      document.item(who + counted(unfinished, "request") + " had no end yet when the load was ended, and " +
                    (unfinished == 1 ? "is" : "are") + " in no figure but that of the tokens.");
    }
    if (stage.own_delay) document.item(who + *stage.own_delay);
    if (stage.requests.failed() > 0) document.item(who + "the first failure was " + stage.failure + ".");
    if (judged && stage.seconds > 0 && stage.judged() < 100) {
      document.item(who + "one request in " + std::to_string(stage.judged()) +
                    " is more than 1 %, so that a single one decides; a longer --duration gives more of them.");
    }
  }
}

std::string how_rates_are_measured(const UsersSettings& settings) {
  return "Requests come at each rate for " + config::format_duration(config::Seconds(settings.duration)) +
         ", whatever the answers do" +
         (settings.load.warm_up > 0
              ? ", after a warm-up of " + config::format_duration(config::Seconds(settings.load.warm_up)) +
                    " that is left out"
              : std::string()) +
         "; the next rate begins when all are answered. Latencies count from when a request was due. Tokens/s are "
         "those that came within the time.";
}

std::string how_users_are_measured(const UsersSettings& settings) {
  const auto& load = settings.load;
  return (load.ramp > 0 ? "Users start at " + short_number(load.ramp) + " a second"
                        : std::string("All users start at once")) +
         "; each sends, waits for the answer, thinks for " + config::format_duration(config::Seconds(load.think)) +
         (load.think > 0 ? "" : " s") +
         ", and sends again. Measured are the requests that were sent while all users were there, for " +
         config::format_duration(config::Seconds(settings.duration)) +
         ". What was sent before is left out as a warm-up; Locust counts it.";
}

Document document_of(const UsersSettings& settings, std::span<const Stage> stages, bool cut) {
  Document document;
  const bool rates = !settings.rates.empty();
  document.paragraph(rates ? how_rates_are_measured(settings) : how_users_are_measured(settings));
  if (cut) document.paragraph("The load was ended by its user; this is what was measured until then.");
  document.heading(rates ? "Rates" : "Users", rates ? "rates" : "users");
  add_table(document, rates, stages, settings.objective.has_value());
  if (settings.objective && !stages.empty()) document.paragraph(peak_sentence(stages, *settings.objective));
  add_problems(document, stages, settings.objective.has_value());
  return document;
}

std::string json_of(const UsersSettings& settings, std::span<const Stage> stages, bool cut) {
  load::JsonWriter json;
  const bool rates = !settings.rates.empty();
  if (rates) {
    json.open('{').key("rates").open('[');
  } else {
    json.open('{').key("users").open('[');
  }
  for (const Stage& stage : stages) {
    const load::Tally& requests = stage.requests;
    json.open('{');
    if (rates) {
      json.key("rate").exact(stage.rate);
    } else {
      json.key("users").count(stage.users);
    }
    json.key("seconds").exact(stage.seconds);
    json.key("requests_ok").count(requests.ok()).key("failed").count(requests.failed());
    json.key("unfinished").count(requests.unfinished()).key("requests_per_minute").exact(stage.requests_per_minute());
    json.key("output_tokens_per_second").exact(stage.output_tokens_per_second());
    load::write(json.key("ttft_s"), requests.ttft());
    load::write(json.key("tpot_s"), requests.tpot());
    load::write(json.key("e2e_s"), requests.e2e());
    json.key("slo_attainment").exact(settings.objective ? stage.attainment() : std::nullopt);
    json.key("own_delay").known_text(stage.own_delay.value_or(""));
    json.close('}');
  }
  json.close(']');
  const Stage* const peak = settings.objective ? peak_of(stages) : nullptr;
  if (rates) {
    json.key("peak_rate").exact(peak ? std::optional(peak->rate) : std::nullopt);
  } else {
    json.key("peak_users").count(peak ? std::optional(peak->users) : std::nullopt);
    json.key("ramp_per_second").exact(settings.load.ramp).key("think_s").exact(settings.load.think);
  }
  return json.key("interrupted").boolean(cut).close('}').written();
}

}  // namespace

std::optional<double> Stage::attainment() const {
  if (judged() == 0) return std::nullopt;
  return static_cast<double>(good) / static_cast<double>(judged());
}

Stage stage_of(std::span<const load::Result> results, const Window& window, const std::optional<Objective>& objective) {
  Stage stage;
  if (window.seconds() <= 0) return stage;
  stage.seconds = window.seconds();
  for (const load::Result& result : results) {
    if (const auto course = load::course_of(result)) stage.output_tokens += tokens_within(*course, window);
    if (!window.holds(load::seconds_of(result.begun()))) continue;
    stage.requests.add(result);
    if (objective && meets(*objective, result)) ++stage.good;
    if (stage.failure.empty() && !result.ok() && !result.was_ended()) stage.failure = result.failure();
  }
  return stage;
}

const Stage* peak_of(std::span<const Stage> stages) {
  const Stage* peak = nullptr;
  for (const Stage& stage : stages) {
    if (stage.attainment().value_or(0) < least_attainment) break;
    peak = &stage;
  }
  return peak;
}

std::vector<Point> PeakUsers::points() const {
  std::vector<Point> points;
  for (const double rate : settings_.rates) {
    const auto name = short_number(rate) + (rate == 1 ? " request" : " requests") + " a second";
    Point& point = points.emplace_back(Point{points.size(), 0, name, settings_.load});
    point.load.requests = 0;
    point.load.duration = settings_.load.warm_up + settings_.duration;
    point.load.workload.rate = rate;
    point.load.workload.seed += 100'000 * points.size();
  }
  for (const std::uint64_t users : settings_.users) {
    Point& point = points.emplace_back(Point{points.size(), 0, std::to_string(users) + " users", settings_.load});
    point.load.concurrency = users;
    point.load.requests = 0;
    point.load.warm_up = ramp_of(settings_, users);
    point.load.duration = point.load.warm_up + settings_.duration;
    point.load.workload.seed += 100'000 * users;
  }
  return points;
}

void PeakUsers::take(const Point& point, Ran ran) {
  if (!ran.problem.empty()) throw std::runtime_error(ran.problem);
  const Window window{ran.begun + point.load.warm_up, std::min(ran.begun + *point.load.duration, ran.ended)};
  Stage& stage = stages_.emplace_back(stage_of(ran.results, window, settings_.objective));
  if (settings_.rates.empty()) {
    stage.users = point.load.concurrency;
  } else {
    stage.rate = point.load.workload.rate.value();
  }
  stage.own_delay = std::move(ran.own_delay);
}

Report PeakUsers::report(bool cut) const { return report_of(settings_, stages_, cut); }

Report report_of(const UsersSettings& settings, std::span<const Stage> stages, bool cut) {
  const Document document = document_of(settings, stages, cut);
  const bool rates = !settings.rates.empty();
  Report report{(rates ? "Rates at " : "Users of ") + settings.load.url,
                document,
                document,
                {{rates ? "rates" : "users", {chart_of(settings, stages)}}}};
  report.json = json_of(settings, stages, cut);
  report.whole = std::ranges::any_of(stages, [](const Stage& stage) { return stage.requests.ok() > 0; });
  if (!report.whole) report.notes.emplace_back("nothing was measured; see the report for why");
  return report;
}

}  // namespace weir::lab::experiment
