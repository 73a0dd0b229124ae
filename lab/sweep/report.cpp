#include "lab/sweep/report.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lab/chart/text_chart.hpp"
#include "lab/figure.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::sweep {
namespace {

namespace json = boost::json;
using metrics::compare::report::Document;

/// What the two phases are called, and where their figures are.
struct PhaseWords {
  std::string_view name, heading, latency;
  std::optional<Phase> LoadPoint::*figures;
  Knee Sweep::*knee;
};
constexpr PhaseWords phases[]{
    {"prefill", "Prefill", "TTFT", &LoadPoint::prefill, &Sweep::prefill},
    {"decode", "Decode", "time a token", &LoadPoint::decode, &Sweep::decode},
};

constexpr std::size_t bins = 20;

std::string ms(double seconds) { return figure(1e3 * seconds); }
std::string at_once(std::uint64_t concurrency) { return std::to_string(concurrency) + " at once"; }

/// Returns edges that hold the latencies of all points, in seconds; none if there are none.
std::vector<double> edges_of(const Sweep& sweep, const PhaseWords& phase) {
  double low = 0, high = 0;
  for (const LoadPoint& point : sweep.points) {
    if (!(point.*phase.figures)) continue;
    for (const float latency : (point.*phase.figures)->latency) {
      if (latency <= 0) continue;
      low = low == 0 ? latency : std::min(low, static_cast<double>(latency));
      high = std::max(high, static_cast<double>(latency));
    }
  }
  return low > 0 ? chart::logarithmic_edges(low, high, bins) : std::vector<double>();
}

std::string knee_sentence(const Sweep& sweep, const PhaseWords& phase) {
  const std::string of(phase.name);
  const auto operations = operations_of(sweep.points, phase.figures);
  const Knee& knee = sweep.*phase.knee;
  switch (knee.state) {
    case Knee::State::found:
      return "The knee of " + of + " is at " + at_once(*knee.concurrency) + ". " + std::string(knee_rule);
    case Knee::State::not_reached:
      return "The knee of " + of +
             " was not reached: throughput / latency is greatest at the highest number at once. " +
             std::string(knee_rule);
    case Knee::State::at_or_below:
      return "The knee of " + of + " is at " + at_once(operations.front().concurrency) +
             " or below: throughput / latency is greatest at the lowest number at once. Try fewer. " +
             std::string(knee_rule);
    case Knee::State::too_few:
      break;
  }
  return "There is no knee of " + of + ": it takes figures at three numbers at once. " + std::string(knee_rule);
}

/// Says why batches are left out.
std::string why_left_out(const LoadPoint& point) {
  std::string why;
  if (point.failed > 0) why = "requests failed (" + point.failure + ")";
  if (point.without_token > 0) {
    why += std::string(why.empty() ? "" : " or ") + "answers had no token; look at what the service answers";
  }
  return why;
}

std::string why(Unsteady unsteady) {
  switch (unsteady) {
    case Unsteady::one_token:
      return "answers had one token";
    case Unsteady::not_together:
      return "requests had ended before others had their first token, so that the batch never decoded together; give "
             "longer answers (--output-tokens) or fewer at once, and look whether the service runs so many";
    case Unsteady::too_short:
      return "all of the batch decoded together for fewer than " + std::to_string(least_events) +
             " events; give longer answers (--output-tokens) or fewer at once";
    case Unsteady::no:
      break;
  }
  return "";
}

void add_problems(Document& document, const Sweep& sweep) {
  for (const LoadPoint& point : sweep.points) {
    if (point.left_out > 0) {
      document.item(at_once(point.concurrency) + ": " + std::to_string(point.left_out) +
                    (point.left_out == 1 ? " batch is" : " batches are") + " left out, because " + why_left_out(point) +
                    ".");
    } else if (point.failed > 0) {
      document.item(at_once(point.concurrency) + ": " + counted(point.failed, "request") + " failed in the warm-up (" +
                    point.failure + ").");
    }
    if (!point.own_delay.empty()) document.item(at_once(point.concurrency) + ": " + point.own_delay);
    if (point.steady < point.batches) {
      document.item(at_once(point.concurrency) + ": " + std::to_string(point.batches - point.steady) + " of " +
                    std::to_string(point.batches) + " batches have no decode: " + why(point.unsteady) + '.');
    }
  }
}

void add_phase(Document& document, const Sweep& sweep, const PhaseWords& phase, bool bars) {
  document.heading(phase.heading, phase.name);
  const auto edges = edges_of(sweep, phase);
  if (edges.empty()) {
    document.paragraph("There are no figures.");
    return;
  }
  metrics::compare::report::Table table;
  table.header = {"at once", "mean ms", "p50", "p90", "p99", "batch ms", "tokens/s", "slowest", "fastest", "batches"};
  if (bars) table.header.push_back(ms(edges.front()) + " to " + ms(edges.back()) + " ms");
  for (const LoadPoint& point : sweep.points) {
    if (!(point.*phase.figures)) continue;
    const Phase& figures = *(point.*phase.figures);
    const auto latency = load::distribution(figures.latency);
    const bool decode = phase.figures == &LoadPoint::decode;
    auto& row = table.rows.emplace_back(std::vector<std::string>{
        std::to_string(point.concurrency), ms(latency->mean), ms(latency->p50), ms(latency->p90),
        latency->p99 ? ms(*latency->p99) : "-", ms(figures.batch_seconds), figure(figures.tokens_per_second),
        figure(figures.slowest), figure(figures.fastest), std::to_string(decode ? point.steady : point.batches)});
    if (bars) row.push_back(chart::bars(chart::binned(figures.latency, edges)));
  }
  document.table(std::move(table));
  document.paragraph(knee_sentence(sweep, phase));
}

chart::Chart chart_of(const Sweep& sweep, const PhaseWords& phase) {
  chart::Chart drawn;
  drawn.title = std::string(phase.heading) + ": latency against throughput";
  drawn.hint = "A point for each number of requests at once, which stands beside it.";
  drawn.x_label = "mean " + std::string(phase.latency) + ", ms";
  drawn.y_label = phase.figures == &LoadPoint::prefill ? "prompt tokens/s" : "output tokens/s";
  auto& series = drawn.series.emplace_back();
  series.name = phase.name;
  for (const Operation& one : operations_of(sweep.points, phase.figures)) {
    series.points.push_back(
        {1e3 * one.latency, one.throughput, std::to_string(one.concurrency),
         at_once(one.concurrency) + ": " + ms(one.latency) + " ms, " + figure(one.throughput) + " tokens/s"});
  }
  return drawn;
}

/// Leaves at most six series, evenly chosen, with the first and the last: more would hide each other.
void thin_out(std::vector<chart::BarSeries>& series) {
  constexpr std::size_t most = 6;
  if (series.size() <= most) return;
  std::vector<chart::BarSeries> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(std::move(series[i * (series.size() - 1) / (most - 1)]));
  series = std::move(kept);
}

json::object json_of_phase(const Phase& phase, const std::vector<double>& edges) {
  json::array of_edges(edges.begin(), edges.end());
  json::array counts;
  for (const std::uint64_t count : chart::binned(phase.latency, edges)) counts.emplace_back(count);
  return {{"latency_s", load::json_of(load::distribution(phase.latency))},
          {"histogram", json::object{{"edges_s", std::move(of_edges)}, {"counts", std::move(counts)}}},
          {"tokens_per_second", phase.tokens_per_second},
          {"slowest_tokens_per_second", phase.slowest},
          {"fastest_tokens_per_second", phase.fastest},
          {"batch_s", phase.batch_seconds}};
}

json::value json_of(const Knee& knee) {
  return knee.concurrency ? json::value(*knee.concurrency) : json::value(nullptr);
}

}  // namespace

Document document_of(const Sweep& sweep, const SweepSettings& settings, bool bars) {
  Document document;
  const auto& lengths = settings.load.workload;
  document.paragraph(format("%.0f tokens in, %.0f out", lengths.input_tokens, lengths.output_tokens) +
                     ", the same for every request; " + std::to_string(settings.runs) +
                     (settings.runs == 1 ? " batch" : " batches") + " of each size are measured, after " +
                     std::to_string(settings.warm_up) +
                     " that is left out as a warm-up. A batch is sent when the one before has ended.");
  if (sweep.interrupted) document.paragraph("The sweep was ended by its user; this is what was measured until then.");
  document.paragraph(
      "Prefill: latency is each request's TTFT, throughput the batch's prompt tokens over the time from its first send "
      "to "
      "its last first token (batch ms). TGI's benchmark calls that time the prefill's latency. Decode: latency is the "
      "time a token, throughput the tokens a second, both only while all of the batch decode (batch ms).");
  for (const PhaseWords& phase : phases) add_phase(document, sweep, phase, bars);
  add_problems(document, sweep);
  return document;
}

std::vector<chart::Figures> figures_of(const Sweep& sweep) {
  std::vector<chart::Figures> figures;
  for (const PhaseWords& phase : phases) {
    auto& under = figures.emplace_back();
    under.about = phase.name;
    under.charts.emplace_back(chart_of(sweep, phase));
    const auto edges = edges_of(sweep, phase);
    if (edges.empty()) continue;
    chart::Histogram histogram;
    histogram.title = std::string(phase.heading) + ": how the latencies are distributed";
    histogram.x_label = std::string(phase.latency) + ", ms";
    for (const double edge : edges) histogram.edges.push_back(1e3 * edge);
    for (const LoadPoint& point : sweep.points) {
      if (!(point.*phase.figures)) continue;
      histogram.series.push_back({at_once(point.concurrency), chart::binned((point.*phase.figures)->latency, edges)});
    }
    thin_out(histogram.series);
    under.charts.emplace_back(std::move(histogram));
  }
  return figures;
}

std::string as_text(const Sweep& sweep, const SweepSettings& settings, bool coloured) {
  const Document document = document_of(sweep, settings, true);
  std::string out = coloured ? document.coloured() : document.plain();
  for (const PhaseWords& phase : phases) out += '\n' + chart::as_text(chart_of(sweep, phase), coloured);
  return out;
}

json::object as_json(const Sweep& sweep, const SweepSettings& settings) {
  json::array points;
  const auto prefill_edges = edges_of(sweep, phases[0]), decode_edges = edges_of(sweep, phases[1]);
  for (const LoadPoint& point : sweep.points) {
    points.push_back(json::object{
        {"concurrency", point.concurrency},
        {"batches", point.batches},
        {"left_out", point.left_out},
        {"failed", point.failed},
        {"own_delay", point.own_delay.empty() ? json::value(nullptr) : json::value(point.own_delay)},
        {"prefill", point.prefill ? json::value(json_of_phase(*point.prefill, prefill_edges)) : json::value(nullptr)},
        {"decode", point.decode ? json::value(json_of_phase(*point.decode, decode_edges)) : json::value(nullptr)}});
  }
  const auto& lengths = settings.load.workload;
  return {{"sweep", std::move(points)},
          {"knee", json::object{{"prefill", json_of(sweep.prefill)}, {"decode", json_of(sweep.decode)}}},
          {"input_tokens", lengths.input_tokens},
          {"output_tokens", lengths.output_tokens},
          {"runs", settings.runs},
          {"warm_up", settings.warm_up},
          {"interrupted", sweep.interrupted}};
}

}  // namespace weir::lab::sweep
