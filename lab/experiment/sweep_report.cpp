#include <algorithm>
#include <string_view>
#include <utility>

#include "lab/experiment/sweep.hpp"
#include "lab/text.hpp"
#include "metrics/compare/report/cells.hpp"

namespace weir::lab::experiment {
namespace {

using metrics::compare::report::short_number;

/// The names of the two phases, and where their figures are.
struct PhaseWords {
  std::string_view name, heading, latency, throughput;
  std::optional<Phase> BatchSize::*figures;
  std::uint64_t BatchSize::*batches;
};
constexpr PhaseWords phases[]{
    {"prefill", "Prefill", "TTFT", "prompt tokens/s", &BatchSize::prefill, &BatchSize::batches},
    {"decode", "Decode", "time a token", "output tokens/s", &BatchSize::decode, &BatchSize::steady},
};

constexpr std::size_t bins = 20;

using Sizes = std::span<const BatchSize>;

std::string ms(double seconds) { return short_number(1e3 * seconds); }

/// Returns edges that hold the latencies of all sizes, in seconds; none if there are none.
std::vector<double> edges_of(Sizes sizes, const PhaseWords& phase) {
  double low = 0, high = 0;
  for (const BatchSize& size : sizes) {
    if (!(size.*phase.figures)) continue;
    for (const float latency : (size.*phase.figures)->latency) {
      if (latency <= 0) continue;
      low = low == 0 ? latency : std::min(low, static_cast<double>(latency));
      high = std::max(high, static_cast<double>(latency));
    }
  }
  return low > 0 ? chart::logarithmic_edges(low, high, bins) : std::vector<double>();
}

std::string knee_sentence(Sizes sizes, const PhaseWords& phase) {
  const auto operations = operations_of(sizes, phase.figures);
  const Knee knee = knee_of(operations);
  const std::string of = "knee of " + std::string(phase.name);
  const std::string greatest = "throughput / latency is greatest at the ";
  std::string where = "There is no " + of + ": it takes figures at three numbers at once.";
  if (knee.state == Knee::State::found) where = "The " + of + " is at " + at_once(*knee.concurrency) + '.';
  if (knee.state == Knee::State::not_reached) {
    where = "The " + of + " was not reached: " + greatest + "highest number at once.";
  }
  if (knee.state == Knee::State::at_or_below) {
    where = "The " + of + " is at " + at_once(operations.front().concurrency) + " or below: " + greatest +
            "lowest number at once. Try fewer.";
  }
  return where + ' ' + std::string(knee_rule);
}

/// Says why batches are left out.
std::string why_left_out(const BatchSize& size) {
  std::string why;
  if (size.failed > 0) why = "requests failed (" + size.failure + ")";
  if (size.without_token > 0) {
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

void add_problems(Document& document, Sizes sizes) {
  for (const BatchSize& size : sizes) {
    const std::string of = at_once(size.concurrency) + ": ";
    if (size.left_out > 0) {
      document.item(of + std::to_string(size.left_out) + (size.left_out == 1 ? " batch is" : " batches are") +
                    " left out, because " + why_left_out(size) + ".");
    } else if (size.failed > 0) {
      document.item(of + counted(size.failed, "request") + " failed in the warm-up (" + size.failure + ").");
    }
    if (size.own_delay) document.item(of + *size.own_delay);
    if (size.steady < size.batches) {
      document.item(of + std::to_string(size.batches - size.steady) + " of " + std::to_string(size.batches) +
                    " batches have no decode: " + why(size.unsteady) + '.');
    }
  }
}

/// With `bars` each row has its histogram in letters.
void add_phase(Document& document, Sizes sizes, const PhaseWords& phase, bool bars) {
  document.heading(phase.heading, phase.name);
  const auto edges = edges_of(sizes, phase);
  if (edges.empty()) return document.paragraph("There are no figures.");
  metrics::compare::report::Table table;
  table.header = {"at once", "mean ms", "p50", "p90", "p99", "batch ms", "tokens/s", "slowest", "fastest", "batches"};
  if (bars) table.header.push_back(ms(edges.front()) + " to " + ms(edges.back()) + " ms");
  for (const BatchSize& size : sizes) {
    if (!(size.*phase.figures)) continue;
    const Phase& figures = *(size.*phase.figures);
    const auto latency = load::distribution(figures.latency);
    auto& row = table.rows.emplace_back(
        std::vector{std::to_string(size.concurrency), ms(latency->mean), ms(latency->p50), ms(latency->p90),
                    short_number(latency->p99, 1e3), ms(figures.batch_seconds), short_number(figures.tokens_per_second),
                    short_number(figures.slowest), short_number(figures.fastest), std::to_string(size.*phase.batches)});
    if (bars) row.push_back(chart::bars(chart::binned(figures.latency, edges)));
  }
  document.table(std::move(table));
  document.paragraph(knee_sentence(sizes, phase));
}

Document document_of(const SweepSettings& settings, Sizes sizes, bool cut, bool bars) {
  Document document;
  const auto& lengths = settings.load.workload;
  document.paragraph(fmt::format("{:.0f} tokens in, {:.0f} out", lengths.input_tokens, lengths.output_tokens) +
                     ", the same for every request; " + std::to_string(settings.runs) +
                     (settings.runs == 1 ? " batch" : " batches") + " of each size are measured, after " +
                     std::to_string(settings.warm_up) +
                     " that is left out as a warm-up. A batch is sent when the one before has ended.");
  if (cut) document.paragraph("The sweep was ended by its user; this is what was measured until then.");
  document.paragraph(
      "Prefill: latency is each request's TTFT, throughput the batch's prompt tokens over the time from its first send "
      "to its last first token (batch ms). TGI's benchmark calls that time the prefill's latency. Decode: latency is "
      "the time a token, throughput the tokens a second, both only while all of the batch decode (batch ms).");
  for (const PhaseWords& phase : phases) add_phase(document, sizes, phase, bars);
  add_problems(document, sizes);
  return document;
}

/// Leaves at most six series, evenly chosen, with the first and the last: more would hide each other.
void thin_out(std::vector<chart::BarSeries>& series) {
  constexpr std::size_t most = 6;
  if (series.size() <= most) return;
  std::vector<chart::BarSeries> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(std::move(series[i * (series.size() - 1) / (most - 1)]));
  series = std::move(kept);
}

chart::Figures figures_of(Sizes sizes, const PhaseWords& phase) {
  const std::string heading(phase.heading), latency(phase.latency);
  chart::Chart drawn{heading + ": latency against throughput",
                     "A point for each number of requests at once, which stands beside it.",
                     "mean " + latency + ", ms",
                     std::string(phase.throughput),
                     {{std::string(phase.name), {}}}};
  for (const Operation& one : operations_of(sizes, phase.figures)) {
    drawn.series[0].points.push_back(
        {1e3 * one.latency, one.throughput, std::to_string(one.concurrency),
         at_once(one.concurrency) + ": " + ms(one.latency) + " ms, " + short_number(one.throughput) + " tokens/s"});
  }
  chart::Figures under{std::string(phase.name), {std::move(drawn)}};
  const auto edges = edges_of(sizes, phase);
  if (edges.empty()) return under;
  chart::Histogram histogram{heading + ": how the latencies are distributed", latency + ", ms", {}, {}};
  for (const double edge : edges) histogram.edges.push_back(1e3 * edge);
  for (const BatchSize& size : sizes) {
    if (!(size.*phase.figures)) continue;
    histogram.series.push_back({at_once(size.concurrency), chart::binned((size.*phase.figures)->latency, edges)});
  }
  thin_out(histogram.series);
  under.charts.emplace_back(std::move(histogram));
  return under;
}

template <class Values>
void write_all(load::JsonWriter& json, const Values& values) {
  json.open('[');
  for (const auto value : values) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      json.exact(value);
    else
      json.count(value);
  }
  json.close(']');
}

void write(load::JsonWriter& json, const std::optional<Phase>& phase, const std::vector<double>& edges) {
  if (!phase) return void(json.null());
  load::write(json.open('{').key("latency_s"), load::distribution(phase->latency));
  write_all(json.key("histogram").open('{').key("edges_s"), edges);
  write_all(json.key("counts"), chart::binned(phase->latency, edges));
  json.close('}').key("tokens_per_second").exact(phase->tokens_per_second);
  json.key("slowest_tokens_per_second").exact(phase->slowest).key("fastest_tokens_per_second").exact(phase->fastest);
  json.key("batch_s").exact(phase->batch_seconds).close('}');
}

std::string json_of(const SweepSettings& settings, Sizes sizes, bool cut) {
  load::JsonWriter json;
  json.open('{').key("sweep").open('[');
  for (const BatchSize& size : sizes) {
    json.open('{').key("concurrency").count(size.concurrency).key("batches").count(size.batches);
    json.key("left_out").count(size.left_out).key("failed").count(size.failed);
    json.key("own_delay").known_text(size.own_delay.value_or(""));
    for (const PhaseWords& phase : phases) write(json.key(phase.name), size.*phase.figures, edges_of(sizes, phase));
    json.close('}');
  }
  json.close(']').key("knee").open('{');
  for (const PhaseWords& phase : phases) {
    json.key(phase.name).count(knee_of(operations_of(sizes, phase.figures)).concurrency);
  }
  const auto& lengths = settings.load.workload;
  json.close('}').key("input_tokens").exact(lengths.input_tokens).key("output_tokens").exact(lengths.output_tokens);
  json.key("runs").count(settings.runs).key("warm_up").count(settings.warm_up).key("interrupted").boolean(cut);
  return json.close('}').written();
}

}  // namespace

Report report_of(const SweepSettings& settings, Sizes sizes, bool cut) {
  Report report{"Sweep of " + settings.load.url, document_of(settings, sizes, cut, true),
                document_of(settings, sizes, cut, false)};
  for (const PhaseWords& phase : phases) report.charts.push_back(figures_of(sizes, phase));
  report.json = json_of(settings, sizes, cut);
  report.whole = std::ranges::any_of(sizes, [](const BatchSize& size) { return size.prefill.has_value(); });
  if (!report.whole) report.notes.emplace_back("nothing was measured; see the report for why");
  return report;
}

}  // namespace weir::lab::experiment
