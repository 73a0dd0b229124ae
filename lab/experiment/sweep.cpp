#include "lab/experiment/sweep.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "lab/text.hpp"
#include "metrics/compare/report/document.hpp"

namespace weir::lab::experiment {
namespace {

/// Adds one phase up, batch by batch.
class PhaseSum {
 public:
  void add(const BatchPhase& batch) {
    if (batch.seconds <= 0) return;  // The clock did not move, so there is no rate.
    phase_.latency.insert(phase_.latency.end(), batch.latency.begin(), batch.latency.end());
    const double rate = batch.tokens / batch.seconds;
    phase_.slowest = batches_ == 0 ? rate : std::min(phase_.slowest, rate);
    phase_.fastest = std::max(phase_.fastest, rate);
    seconds_ += batch.seconds;
    tokens_ += batch.tokens;
    ++batches_;
  }
  std::optional<Phase> phase() const {
    if (batches_ == 0) return std::nullopt;
    Phase phase = phase_;
    phase.tokens_per_second = tokens_ / seconds_;
    phase.batch_seconds = seconds_ / static_cast<double>(batches_);
    return phase;
  }

 private:
  Phase phase_;
  double seconds_ = 0, tokens_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace

BatchSize batch_size(std::uint64_t concurrency, std::span<const BatchResults> batches, std::size_t warm_up) {
  BatchSize size;
  size.concurrency = concurrency;
  PhaseSum prefill, decode;
  for (const BatchResults& results : batches) {
    std::vector<load::Course> courses;
    for (const load::Result& result : results) {
      if (result.ok()) {
        auto course = load::course_of(result);
        course ? courses.push_back(std::move(*course)) : void(++size.without_token);
      } else if (!result.was_ended()) {
        ++size.failed;
        if (size.failure.empty()) size.failure = result.failure();
      }
    }
    if (&results < batches.data() + warm_up) continue;
    if (courses.size() < concurrency) {
      if (std::ranges::none_of(results, &load::Result::was_ended)) ++size.left_out;
      continue;
    }
    const Batch batch = batch_of(courses);
    ++size.batches;
    prefill.add(batch.prefill);
    if (batch.decode) {
      ++size.steady;
      decode.add(*batch.decode);
    } else {
      size.unsteady = batch.unsteady;
    }
  }
  size.prefill = prefill.phase();
  size.decode = decode.phase();
  return size;
}

std::vector<Operation> operations_of(std::span<const BatchSize> sizes, std::optional<Phase> BatchSize::* phase) {
  std::vector<Operation> operations;
  for (const BatchSize& size : sizes) {
    const auto& measured = size.*phase;
    const auto latency = measured ? load::distribution(measured->latency) : std::nullopt;
    if (!latency || latency->mean <= 0) continue;
    operations.push_back({size.concurrency, latency->mean, measured->tokens_per_second});
  }
  return operations;
}

/// Each load is one batch. No two batches have a prompt in common, so that no prefix cache shortens prefill.
std::vector<Point> Sweep::points() const {
  std::vector<Point> points;
  const std::uint64_t batches = settings_.warm_up + settings_.runs;
  for (std::size_t row = 0; row < settings_.concurrencies.size(); ++row) {
    const std::uint64_t concurrency = settings_.concurrencies[row];
    load::LoadSettings load = settings_.load;
    load.concurrency = load.requests = concurrency;
    load.duration.reset();
    load.workload.input_stddev = load.workload.output_stddev = 0;
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      load.warm_up = batch < settings_.warm_up ? std::numeric_limits<double>::infinity() : 0;
      load.workload.seed = settings_.load.workload.seed + 100'000 * concurrency + batch;
      points.push_back({row, batch,
                        at_once(concurrency) + ", batch " + std::to_string(batch + 1) + " of " +
                            std::to_string(batches) + (batch == 0 ? " (warm-up)" : ""),
                        load});
    }
  }
  return points;
}

void Sweep::take(const Point& point, Ran ran) {
  if (!ran.problem.empty()) throw std::runtime_error(ran.problem);
  rows_.resize(point.row + 1);
  Row& row = rows_.back();
  row.batches.push_back(std::move(ran.results));
  if (ran.own_delay) row.own_delay = std::move(ran.own_delay);
}

Report Sweep::report(bool cut) const {
  std::vector<BatchSize> sizes;
  for (const Row& row : rows_) {
    sizes.push_back(batch_size(settings_.concurrencies[sizes.size()], row.batches, settings_.warm_up));
    sizes.back().own_delay = row.own_delay;
  }
  return report_of(settings_, sizes, cut);
}

namespace {

BatchPhase prefill_of(std::span<const load::Course> courses) {
  BatchPhase prefill;
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const load::Course& course : courses) {
    prefill.latency.push_back(static_cast<float>(course.events.front() - course.sent));
    prefill.tokens += static_cast<double>(course.prompt_tokens);
    begin = std::min(begin, course.sent);
    end = std::max(end, course.events.front());
  }
  prefill.seconds = end - begin;
  return prefill;
}

}  // namespace

Batch batch_of(std::span<const load::Course> courses) {
  Batch batch;
  batch.prefill = prefill_of(courses);
  double begin = -std::numeric_limits<double>::infinity(), end = -begin;
  for (const load::Course& course : courses) {
    if (course.events.size() < 2) {
      batch.unsteady = Unsteady::one_token;
      return batch;
    }
    begin = std::max(begin, course.events.front());
    end = std::min(end, course.events.back());
  }
  if (end <= begin) {
    batch.unsteady = Unsteady::not_together;
    return batch;
  }
  BatchPhase decode;
  decode.seconds = end - begin;
  for (const load::Course& course : courses) {
    const auto first = std::ranges::lower_bound(course.events, begin);
    const auto last = std::ranges::upper_bound(course.events, end);
    // Events of one read share a moment. How long those of the first moment took is not known, so one of them counts.
    const auto behind = first == last ? last : std::upper_bound(first, last, *first);
    if (behind == last || last - behind + 1 < static_cast<std::ptrdiff_t>(least_events)) {
      batch.unsteady = Unsteady::too_short;
      return batch;
    }
    // Events of one step come a little apart, so a request's rate is taken between its own events.
    const double gaps = static_cast<double>(last - behind);
    decode.tokens += decode.seconds * course.tokens_per_event * gaps / (*(last - 1) - *first);
    for (auto event = behind; event != last; ++event) {
      decode.latency.push_back(static_cast<float>((*event - *(event - 1)) / course.tokens_per_event));
    }
  }
  batch.decode = std::move(decode);
  return batch;
}

Knee knee_of(std::span<const Operation> operations) {
  if (operations.size() < 3) return {};
  const auto best =
      std::ranges::max_element(operations, {}, [](const Operation& one) { return one.throughput / one.latency; });
  if (best == operations.end() - 1) return {Knee::State::not_reached, std::nullopt};
  if (best == operations.begin() && best->concurrency > 1) return {Knee::State::at_or_below, std::nullopt};
  return {Knee::State::found, best->concurrency};
}

namespace {

using metrics::compare::report::short_number;

/// The names of the two phases, and where their figures are.
struct PhaseWords {
  std::string_view name, heading, latency, throughput;
  std::optional<Phase> BatchSize::* figures;
  std::uint64_t BatchSize::* batches;
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
