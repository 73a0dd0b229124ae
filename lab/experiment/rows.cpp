#include "lab/experiment/rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lab/text.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::lab::experiment {
namespace {

using metrics::compare::report::short_number;

constexpr std::uint64_t warm_up_seed = 1'000'000'000;

std::optional<double> known(double figure) { return figure > 0 ? std::optional(figure) : std::nullopt; }

std::optional<double> cost_of(const Row& row, const Repetition& one) {
  if (!row.cost_per_hour) return std::nullopt;
  return *row.cost_per_hour * one.seconds / 3600;
}

/// A figure's columns: what it is called in a table and in CSV and JSON, by what it is multiplied in the table, and
/// what it is of one repetition.
struct Figure {
  std::string_view heading, key;
  double factor;
  std::optional<double> (*of)(const Row& row, const Repetition& one);
};
constexpr Figure seconds{"set, s", "seconds", 1,
                         [](const Row&, const Repetition& one) { return std::optional(one.seconds); }};
constexpr Figure rate{"tokens/s", "output_tokens_per_second", 1, [](const Row&, const Repetition& one) {
                        return std::optional(static_cast<double>(one.output_tokens) / one.seconds);
                      }};
constexpr Figure ttft{"TTFT ms", "ttft_s", 1e3, [](const Row&, const Repetition& one) { return known(one.ttft); }};
constexpr Figure tpot{"TPOT ms", "tpot_s", 1e3, [](const Row&, const Repetition& one) { return known(one.tpot); }};
constexpr Figure per_million{"cost / 1M tokens", "cost_per_million_output_tokens", 1,
                             [](const Row& row, const Repetition& one) {
                               const auto cost = one.output_tokens > 0 ? cost_of(row, one) : std::nullopt;
                               return cost ? std::optional(1e6 * *cost / static_cast<double>(one.output_tokens)) : cost;
                             }};
constexpr Figure figures[]{seconds, rate, ttft, tpot, {"cost", "cost", 1, &cost_of}, per_million};

/// The figures of a row that are told where any row has them.
struct Fact {
  std::string_view heading, key;
  std::string (*text)(const Row& row);
  bool is_number = false;  ///< As JSON.
};
constexpr Fact facts[]{
    {"GPU", "gpu", [](const Row& row) { return row.gpu; }},
    {"engine", "engine", [](const Row& row) { return row.engine; }},
    {"speculation", "speculation",
     [](const Row& row) { return row.speculation ? std::to_string(*row.speculation) : std::string(); }, true}};

using Repetitions = std::map<std::uint64_t, Repetition>;

std::optional<Spread> spread_of(const Figure& figure, const Row& row, const Repetitions& repetitions) {
  std::vector<double> values;
  for (const auto& [number, one] : repetitions) {
    if (const auto value = figure.of(row, one)) values.push_back(*value);
  }
  return experiment::spread_of(std::move(values));
}

std::uint64_t failed_of(const Repetitions& repetitions) {
  std::uint64_t failed = 0;
  for (const auto& [number, one] : repetitions) failed += one.failed;
  return failed;
}

/// Returns the words of the last repetition in which the load tool itself was too slow.
std::optional<std::string> own_delay_of(const Repetitions& repetitions) {
  std::optional<std::string> delay;
  for (const auto& [number, one] : repetitions) {
    if (one.own_delay) delay = one.own_delay;
  }
  return delay;
}

std::string cell(const std::optional<Spread>& value, double factor) {
  if (!value) return "-";
  auto text = short_number(factor * value->median);
  if (value->least == value->most) return text;
  return text + " (" + short_number(factor * value->least) + " to " + short_number(factor * value->most) + ")";
}

std::string lengths_text(double mean, double deviation) {
  return fmt::format("{:.0f}", mean) + (deviation > 0 ? fmt::format(" ± {:.0f}", deviation) : "") + " tokens";
}

std::string in_quotes(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return out + '"';
}

/// Draws throughput against one of the latencies; the rows of a label are joined.
chart::Chart chart_of(const Plan& plan, const Done& done, const Figure& latency) {
  const std::string name(latency.heading.substr(0, latency.heading.find(' ')));
  chart::Chart drawn{"Throughput against " + name,
                     "A point for each row; beside it stands how many requests ran at once. All are medians.",
                     name + ", ms",
                     "output tokens/s",
                     {}};
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    const auto x = spread_of(latency, row, done[i]), y = spread_of(rate, row, done[i]);
    if (!x || !y) continue;
    auto series = std::ranges::find(drawn.series, row.label, &chart::Series::name);
    if (series == drawn.series.end()) series = drawn.series.insert(series, {row.label, {}});
    series->points.push_back(
        {1e3 * x->median, y->median, std::to_string(row.concurrency),
         row.name() + ": " + short_number(1e3 * x->median) + " ms, " + short_number(y->median) + " tokens/s"});
  }
  for (chart::Series& series : drawn.series) std::ranges::sort(series.points, {}, &chart::Point::x);
  return drawn;
}

metrics::compare::report::Table table_of(const Plan& plan, const Done& done) {
  metrics::compare::report::Table table{{"run"}, {}};
  for (const Row& row : plan.rows) table.rows.push_back({row.label});
  const auto add = [&](std::string_view heading, const auto& cell_of) {
    table.header.emplace_back(heading);
    for (std::size_t i = 0; i < plan.rows.size(); ++i) table.rows[i].push_back(cell_of(i));
  };
  const auto add_unless_empty = [&](std::string_view heading, const auto& cell_of) {
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      if (cell_of(i) != "-") return add(heading, cell_of);
    }
  };
  for (const Fact& fact : facts) {
    add_unless_empty(fact.heading, [&](std::size_t i) {
      const std::string text = fact.text(plan.rows[i]);
      return text.empty() ? "-" : text;
    });
  }
  add("at once", [&](std::size_t i) { return std::to_string(plan.rows[i].concurrency); });
  for (const Figure& figure : figures) {
    add_unless_empty(figure.heading,
                     [&](std::size_t i) { return cell(spread_of(figure, plan.rows[i], done[i]), figure.factor); });
  }
  add("failed", [&](std::size_t i) { return std::to_string(failed_of(done[i])); });
  return table;
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
  document.table(table_of(plan, done));
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const std::string row = plan.rows[i].name() + ": ";
    if (const auto delay = own_delay_of(done[i])) document.item(row + *delay);
    if (done[i].size() == plan.repeat) continue;
    document.item(row + std::to_string(done[i].size()) + " of " + std::to_string(plan.repeat) +
                  " repetitions are done.");
  }
  return document;
}

std::string csv_of(const Plan& plan, const Done& done) {
  std::string out = "run,url,model";
  for (const Fact& fact : facts) out += ',' + std::string(fact.key);
  out += ",concurrency,repetitions,failed";
  for (const Figure& figure : figures) {
    const std::string key(figure.key);
    for (const auto* end : {"", "_least", "_most"}) out.append(",").append(key).append(end);
  }
  out += "\r\n";
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    out += in_quotes(row.label) + ',' + in_quotes(row.url) + ',' + in_quotes(row.model);
    for (const Fact& fact : facts) out += ',' + in_quotes(fact.text(row));
    for (const std::uint64_t count : {row.concurrency, std::uint64_t{done[i].size()}, failed_of(done[i])}) {
      out += ',' + std::to_string(count);
    }
    for (const Figure& figure : figures) {
      const auto value = spread_of(figure, row, done[i]);
      out += value ? fmt::format(",{:.6g},{:.6g},{:.6g}", value->median, value->least, value->most) : ",,,";
    }
    out += "\r\n";
  }
  return out;
}

std::string json_of(const Plan& plan, const Done& done) {
  load::JsonWriter json;
  json.open('{').key("title").text(plan.title).key("prompts").count(plan.prompts).key("repeat").count(plan.repeat);
  json.key("runs").open('[');
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    json.open('{').key("run").text(row.label).key("url").text(row.url).key("concurrency").count(row.concurrency);
    json.key("repetitions").count(done[i].size()).key("failed").count(failed_of(done[i]));
    json.key("own_delay").known_text(own_delay_of(done[i]).value_or(""));
    for (const Fact& fact : facts) {
      json.key(fact.key);
      const std::string text = fact.text(row);
      fact.is_number && !text.empty() ? json.raw(text) : json.known_text(text);
    }
    for (const Figure& figure : figures) {
      json.key(figure.key);
      const auto value = spread_of(figure, row, done[i]);
      if (!value) {
        json.null();
        continue;
      }
      json.open('{').key("median").exact(value->median).key("least").exact(value->least);
      json.key("most").exact(value->most).close('}');
    }
    json.close('}');
  }
  return json.close(']').close('}').written();
}

}  // namespace

std::vector<Point> Rows::points() const {
  std::vector<Point> points;
  std::vector<bool> warm(plan_.rows.size());
  const std::uint64_t to_run = left(plan_, done_);
  for (std::uint64_t number = 0; number < plan_.repeat; ++number) {
    for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
      if (done_[i].contains(number)) continue;
      const Row& row = plan_.rows[i];
      Point point{i,
                  number,
                  '[' + std::to_string(points.size() + 1) + '/' + std::to_string(to_run) + "] " + row.name() +
                      ", repetition " + std::to_string(number + 1) + " of " + std::to_string(plan_.repeat),
                  {}};
      load::LoadSettings& load = point.load;
      load.url = row.url;
      load.model = row.model;
      load.api = row.api;
      load.api_key = row.api_key;
      load.ca = row.ca;
      load.ignore_eos = plan_.ignore_eos;
      load.usage = true;  // Speculative decoding brings several tokens in an event.
      load.concurrency = row.concurrency;
      load.requests = plan_.prompts;
      load.workload = plan_.lengths;
      load.workload.seed += number * 1'000'003;
      load.workload.texts = i;
      if (!warm[i]) {
        warm[i] = true;
        point.warm_up = load;
        point.warm_up->requests = std::min(load.concurrency, plan_.prompts);
        point.warm_up->workload.seed += warm_up_seed;
      }
      load.facts = facts_;
      points.push_back(std::move(point));
    }
  }
  return points;
}

void Rows::take(const Point& point, Ran ran) {
  if (ran.cut) return;
  const Row& row = plan_.rows[point.row];
  Repetition repetition = repetition_of(ran.all);
  repetition.own_delay = std::move(ran.own_delay);
  if (!ran.problem.empty() || repetition.ok == 0) {
    failed_ = true;
    const std::string reason = !ran.problem.empty()  ? ran.problem
                               : ran.results.empty() ? "no request was sent"
                                                     : ran.results.front().failure();
    progress_ << "        " << row.url << " answered no request (" << reason << "); it is tried again next time\n";
    return;
  }
  results_ << line_of(plan_, row, point.number, repetition) << std::endl;
  progress_ << "        " << fmt::format("{:.1f} s", repetition.seconds)
            << (repetition.failed > 0 ? ", " + counted(repetition.failed, "request") + " failed" : "") << '\n';
  done_[point.row][point.number] = std::move(repetition);
}

Report Rows::report(bool cut) const {
  if (!results_) throw std::runtime_error("cannot write " + plan_.results + "; is the disk full?");
  Report report = report_of(plan_, done_);
  const bool ended = cut && left(plan_, done_) > 0;
  if (ended) report.notes.emplace_back("ended by its user; the same command goes on from here");
  report.whole = !failed_ && !ended;
  return report;
}

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(values);
  return Spread{metrics::compare::statistics::median(std::span(values)), least, most};
}

Report report_of(const Plan& plan, const Done& done) {
  const Document document = document_of(plan, done);
  Report report{
      plan.title, document, document, {{"experiment", {chart_of(plan, done, ttft), chart_of(plan, done, tpot)}}}};
  report.json = json_of(plan, done);
  report.csv = csv_of(plan, done);
  return report;
}

namespace {

/// Returns all that the figures of a row depend on. What it costs is not among it, and its key is not either.
std::string identity(const Plan& plan, const Row& row) {
  const load::WorkloadSettings& lengths = plan.lengths;
  load::JsonWriter all;
  all.open('[').text(row.label).text(row.url).text(row.model);
  all.text(load::path_of(row.api)).text(row.gpu).text(row.engine);
  all.count(row.concurrency).count(row.speculation).count(plan.prompts).exact(lengths.input_tokens);
  all.exact(lengths.input_stddev).exact(lengths.output_tokens).exact(lengths.output_stddev).count(lengths.seed);
  if (plan.ignore_eos) all.text("ignore_eos");
  return all.close(']').written();
}

double median(const std::optional<load::Distribution>& of) { return of ? of->p50 : 0; }

}  // namespace

Repetition repetition_of(const load::Tally& requests) {
  return {requests.ok(),
          requests.failed(),
          requests.elapsed(),
          requests.prompt_tokens(),
          requests.output_tokens(),
          median(requests.ttft()),
          median(requests.tpot()),
          median(requests.e2e())};
}

std::string line_of(const Plan& plan, const Row& row, std::uint64_t number, const Repetition& repetition) {
  load::JsonWriter json;
  json.open('{').key("v").count(1).key("row").text(identity(plan, row)).key("repetition").count(number);
  json.key("ok").count(repetition.ok).key("failed").count(repetition.failed).key("seconds").exact(repetition.seconds);
  json.key("prompt_tokens").count(repetition.prompt_tokens).key("output_tokens").count(repetition.output_tokens);
  json.key("ttft_p50_s").exact(repetition.ttft).key("tpot_p50_s").exact(repetition.tpot);
  json.key("e2e_p50_s").exact(repetition.e2e);
  return json.key("own_delay").known_text(repetition.own_delay.value_or("")).close('}').written();
}

ResultsRead read_results(const Plan& plan, std::istream& lines) {
  ResultsRead read;
  read.done.resize(plan.rows.size());
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) places[identity(plan, plan.rows[i])] = i;
  for (std::string text; std::getline(lines, text);) {
    if (text.empty()) continue;
    const auto line = object_or_empty(text);
    const double number = number_of(line, "repetition").value_or(-1), seconds = number_of(line, "seconds").value_or(0);
    if (number < 0 || seconds <= 0) {
      ++read.broken;
      continue;
    }
    const auto place = places.find(std::string(text_at(line, "row")));
    if (place == places.end()) {
      ++read.others;
      continue;
    }
    if (number >= static_cast<double>(plan.repeat)) {
      ++read.beyond;
      continue;
    }
    const auto seconds_at = [&](std::string_view key) { return number_of(line, key).value_or(0); };
    Repetition repetition{count_of(line, "ok"),
                          count_of(line, "failed"),
                          seconds,
                          count_of(line, "prompt_tokens"),
                          count_of(line, "output_tokens"),
                          seconds_at("ttft_p50_s"),
                          seconds_at("tpot_p50_s"),
                          seconds_at("e2e_p50_s")};
    if (const auto delay = text_at(line, "own_delay"); !delay.empty()) repetition.own_delay = delay;
    read.done[place->second][static_cast<std::uint64_t>(number)] = repetition;
  }
  return read;
}

std::uint64_t left(const Plan& plan, const Done& done) {
  std::uint64_t runs = 0;
  for (const auto& of_row : done) runs += plan.repeat - of_row.size();
  return runs;
}

}  // namespace weir::lab::experiment
