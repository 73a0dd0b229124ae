#include "lab/experiment/report.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "lab/chart/text_chart.hpp"
#include "lab/experiment/experiment.hpp"
#include "lab/figure.hpp"
#include "lab/text.hpp"

namespace weir::lab::experiment {
namespace {

namespace json = boost::json;
using metrics::compare::report::Document;

/// A figure's columns: what it is called in a table and in CSV and JSON, and by what it is multiplied in the table.
struct Figure {
  std::string_view heading, key;
  std::optional<Spread> Summary::*value;
  double factor = 1;
};
constexpr Figure figures[]{{"set, s", "seconds", &Summary::seconds},
                           {"tokens/s", "output_tokens_per_second", &Summary::tokens_per_second},
                           {"TTFT ms", "ttft_s", &Summary::ttft, 1e3},
                           {"TPOT ms", "tpot_s", &Summary::tpot, 1e3},
                           {"cost", "cost", &Summary::cost},
                           {"cost / 1M tokens", "cost_per_million_output_tokens", &Summary::cost_per_million}};

/// What is told of a row, where any row has it.
struct Fact {
  std::string_view heading, key;
  std::string (*text)(const Row& row);
};
constexpr Fact facts[]{{"GPU", "gpu", [](const Row& row) { return row.gpu; }},
                       {"engine", "engine", [](const Row& row) { return row.engine; }},
                       {"speculation", "speculation", [](const Row& row) {
                          return row.speculation ? std::to_string(*row.speculation) : std::string();
                        }}};

std::vector<Summary> summaries_of(const Plan& plan, const Done& done) {
  std::vector<Summary> summaries;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) summaries.push_back(summary_of(plan.rows[i], done[i]));
  return summaries;
}

std::string cell(const std::optional<Spread>& value, double factor) {
  if (!value) return "-";
  auto text = figure(factor * value->median);
  if (value->least == value->most) return text;
  return text + " (" + figure(factor * value->least) + " to " + figure(factor * value->most) + ")";
}

std::string lengths_text(double mean, double deviation) {
  return format("%.0f", mean) + (deviation > 0 ? format(" ± %.0f", deviation) : "") + " tokens";
}

std::string in_quotes(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return out + '"';
}

/// Draws throughput against one of the latencies; the rows of a label are joined.
chart::Chart chart_of(const Plan& plan, const std::vector<Summary>& summaries, std::string_view name,
                      std::optional<Spread> Summary::*latency) {
  chart::Chart drawn;
  drawn.title = "Throughput against " + std::string(name);
  drawn.hint = "A point for each row; beside it stands how many requests ran at once. All are medians.";
  drawn.x_label = std::string(name) + ", ms";
  drawn.y_label = "output tokens/s";
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    const auto& x = summaries[i].*latency;
    const auto& y = summaries[i].tokens_per_second;
    if (!x || !y) continue;
    auto series = std::ranges::find(drawn.series, row.label, &chart::Series::name);
    if (series == drawn.series.end()) series = drawn.series.insert(series, {row.label, {}});
    series->points.push_back({1e3 * x->median, y->median, std::to_string(row.concurrency),
                              row.label + ", " + std::to_string(row.concurrency) +
                                  " at once: " + figure(1e3 * x->median) + " ms, " + figure(y->median) + " tokens/s"});
  }
  for (chart::Series& series : drawn.series) std::ranges::sort(series.points, {}, &chart::Point::x);
  return drawn;
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return Spread{median, values.front(), values.back()};
}

Summary summary_of(const Row& row, const std::map<std::uint64_t, Repetition>& repetitions) {
  Summary summary;
  summary.repetitions = repetitions.size();
  std::vector<double> seconds, tokens_per_second, ttft, tpot, cost, cost_per_million;
  for (const auto& [number, one] : repetitions) {
    summary.failed += one.failed;
    if (!one.own_delay.empty()) summary.own_delay = one.own_delay;
    seconds.push_back(one.seconds);
    tokens_per_second.push_back(static_cast<double>(one.output_tokens) / one.seconds);
    if (one.ttft > 0) ttft.push_back(one.ttft);
    if (one.tpot > 0) tpot.push_back(one.tpot);
    if (!row.cost_per_hour) continue;
    cost.push_back(*row.cost_per_hour * one.seconds / 3600);
    if (one.output_tokens > 0) cost_per_million.push_back(1e6 * cost.back() / static_cast<double>(one.output_tokens));
  }
  summary.seconds = spread_of(std::move(seconds));
  summary.tokens_per_second = spread_of(std::move(tokens_per_second));
  summary.ttft = spread_of(std::move(ttft));
  summary.tpot = spread_of(std::move(tpot));
  summary.cost = spread_of(std::move(cost));
  summary.cost_per_million = spread_of(std::move(cost_per_million));
  return summary;
}

Document document_of(const Plan& plan, const Done& done) {
  Document document;
  const auto& lengths = plan.lengths;
  document.paragraph(std::to_string(plan.prompts) + " prompts of " +
                     lengths_text(lengths.input_tokens, lengths.input_stddev) + ", answers of " +
                     lengths_text(lengths.output_tokens, lengths.output_stddev) +
                     ", run to their end. A figure is the median of " + std::to_string(plan.repeat) +
                     " repetitions, with the least and the most of them; for TTFT and TPOT each repetition gives the "
                     "median of its requests. The cost is the hour's price for the time that the set took.");
  document.heading(plan.title, "experiment");
  const auto summaries = summaries_of(plan, done);
  metrics::compare::report::Table table;
  table.header = {"run"};
  const auto told = [&](const Fact& fact) {
    return std::ranges::any_of(plan.rows, [&](const Row& row) { return !fact.text(row).empty(); });
  };
  const auto measured = [&](const Figure& column) {
    return std::ranges::any_of(summaries, [&](const Summary& one) { return (one.*column.value).has_value(); });
  };
  for (const Fact& fact : facts) {
    if (told(fact)) table.header.emplace_back(fact.heading);
  }
  table.header.emplace_back("at once");
  for (const Figure& column : figures) {
    if (measured(column)) table.header.emplace_back(column.heading);
  }
  table.header.emplace_back("failed");
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    auto& cells = table.rows.emplace_back(std::vector<std::string>{row.label});
    for (const Fact& fact : facts) {
      if (told(fact)) cells.push_back(fact.text(row).empty() ? "-" : fact.text(row));
    }
    cells.push_back(std::to_string(row.concurrency));
    for (const Figure& column : figures) {
      if (measured(column)) cells.push_back(cell(summaries[i].*column.value, column.factor));
    }
    cells.push_back(std::to_string(summaries[i].failed));
  }
  document.table(std::move(table));
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const std::string row = plan.rows[i].label + ", " + std::to_string(plan.rows[i].concurrency) + " at once: ";
    if (!summaries[i].own_delay.empty()) document.item(row + summaries[i].own_delay);
    if (summaries[i].repetitions == plan.repeat) continue;
    document.item(row + std::to_string(summaries[i].repetitions) + " of " + std::to_string(plan.repeat) +
                  " repetitions are done.");
  }
  return document;
}

std::vector<chart::Figures> figures_of(const Plan& plan, const Done& done) {
  const auto summaries = summaries_of(plan, done);
  return {{"experiment",
           {chart_of(plan, summaries, "TTFT", &Summary::ttft), chart_of(plan, summaries, "TPOT", &Summary::tpot)}}};
}

std::string as_text(const Plan& plan, const Done& done, bool coloured) {
  const Document document = document_of(plan, done);
  return (coloured ? document.coloured() : document.plain()) + '\n' +
         chart::as_text(chart_of(plan, summaries_of(plan, done), "TPOT", &Summary::tpot), coloured);
}

std::string as_csv(const Plan& plan, const Done& done) {
  std::string out = "run,url,model";
  for (const Fact& fact : facts) out += ',' + std::string(fact.key);
  out += ",concurrency,repetitions,failed";
  for (const Figure& column : figures) {
    const std::string key(column.key);
    for (const auto* end : {"", "_least", "_most"}) out.append(",").append(key).append(end);
  }
  out += "\r\n";
  const auto summaries = summaries_of(plan, done);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    out += in_quotes(row.label) + ',' + in_quotes(row.url) + ',' + in_quotes(row.model);
    for (const Fact& fact : facts) out += ',' + in_quotes(fact.text(row));
    out += format(",%llu,%llu,%llu", static_cast<unsigned long long>(row.concurrency),
                  static_cast<unsigned long long>(summaries[i].repetitions),
                  static_cast<unsigned long long>(summaries[i].failed));
    for (const Figure& column : figures) {
      const auto& value = summaries[i].*column.value;
      out += value ? format(",%.6g,%.6g,%.6g", value->median, value->least, value->most) : ",,,";
    }
    out += "\r\n";
  }
  return out;
}

json::object as_json(const Plan& plan, const Done& done) {
  json::array rows;
  const auto summaries = summaries_of(plan, done);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    json::object line{
        {"run", row.label},
        {"url", row.url},
        {"concurrency", row.concurrency},
        {"repetitions", summaries[i].repetitions},
        {"failed", summaries[i].failed},
        {"own_delay", summaries[i].own_delay.empty() ? json::value(nullptr) : json::value(summaries[i].own_delay)}};
    for (const Fact& fact : facts)
      line[fact.key] = fact.text(row).empty() ? json::value(nullptr) : json::value(fact.text(row));
    if (row.speculation) line["speculation"] = *row.speculation;
    for (const Figure& column : figures) {
      const auto& value = summaries[i].*column.value;
      line[column.key] = value ? json::value{{"median", value->median}, {"least", value->least}, {"most", value->most}}
                               : json::value(nullptr);
    }
    rows.push_back(std::move(line));
  }
  return {{"title", plan.title}, {"prompts", plan.prompts}, {"repeat", plan.repeat}, {"runs", std::move(rows)}};
}

}  // namespace weir::lab::experiment
