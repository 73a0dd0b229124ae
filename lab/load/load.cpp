#include "lab/load/load.hpp"

#include <iostream>
#include <string_view>

#include "lab/load/connection.hpp"
#include "lab/load/prefill/prefill_cost.hpp"
#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::load {
namespace {

constexpr std::string_view command = "weir-lab load";

/// The figures of a load beyond the usual ones.
struct Extras {
  std::optional<Cost> cost;
  /// LLMPerf's own ITL, a value for each successful request: E2E / output tokens, so TTFT is counted in. In seconds.
  std::optional<std::vector<float>> llmperf_itl;
  std::optional<EndedEarly> early;
  std::optional<std::vector<prefill::Point>> points;
  std::optional<prefill::PrefillCost> prefill;
};

void print(std::ostream& out, const Measured& measured, const Extras& extras) {
  const Tally& all = measured.report.all;
  all.print(out, all.elapsed(), extras.llmperf_itl ? &*extras.llmperf_itl : nullptr);
  if (extras.cost) print_cost(out, *extras.cost);
  if (extras.points) prefill::print(out, extras.prefill);
  out << own_line(measured.own);
}

std::string json_of(const Measured& measured, const Extras& extras) {
  JsonWriter json;
  json.open('{');
  write_members(json, measured);
  if (extras.cost) {
    json.key("cost").open('{');
    write_members(json, *extras.cost);
    json.close('}');
  }
  if (extras.llmperf_itl) {
    json.key("llmperf").open('{');
    extras.cost ? write_members(json, *extras.cost) : void(json.key("cost_per_1000_requests").null());
    load::write(json.key("itl_s"), distribution(*extras.llmperf_itl));
    json.close('}');
  }
  if (extras.points) prefill::write(json.key("prefill_cost"), extras.prefill);
  return json.close('}').written();
}

void warn(const Measured& measured, const Extras& extras) {
  for (const auto& warning :
       {too_slow(measured.own, measured.report.all), extras.early ? extras.early->warning() : std::nullopt}) {
    if (warning) std::cerr << command << ": warning: " << *warning << "\n";
  }
}

}  // namespace

std::vector<NamedFile> inputs_of(const LoadSettings& settings, const LoadOutput& output) {
  return {{"the trace", output.trace}, {"the key file", output.api_key_file}, {"the file of authorities", settings.ca}};
}

int run_load(const LoadSettings& settings, const LoadOutput& output) {
  refuse_mixed({{"--json", output.json}, {"--log", output.log}}, inputs_of(settings, output));
  Sink json(output.json), log(output.log);
  RequestLines lines(output.label);
  Extras extras;
  if (output.llmperf) extras.llmperf_itl.emplace();
  if (settings.ignore_eos) extras.early.emplace();
  if (output.prefill_cost) extras.points.emplace();
  const Interrupt interrupt;
  const Measured measured = measure(settings, interrupt, [&](const Result& result) {
    if (log) log.stream() << lines.line(result) << '\n';
    if (result.warm_up) return;
    if (extras.early) extras.early->add(result);
    if (const auto tokens = result.stream.output_tokens(); extras.llmperf_itl && result.ok() && tokens > 0) {
      extras.llmperf_itl->push_back(
          static_cast<float>(metrics::seconds(result.ended - result.started) / static_cast<double>(tokens)));
    }
    if (extras.points) {
      if (const auto point = prefill::point_of(result)) extras.points->push_back(*point);
    }
  });
  const Tally& all = measured.report.all;
  extras.cost = cost_of(output.prices, {all.ok(), all.prompt_tokens(), all.output_tokens(), all.elapsed()});
  if (extras.points) extras.prefill = prefill::cost_of(*extras.points);
  if (json) json.stream() << json_of(measured, extras) << '\n';
  if (output.json != "-" && output.log != "-") print(std::cout, measured, extras);
  warn(measured, extras);
  if (settings.warm_up > 0 && all.ok() + all.failed() + all.unfinished() == 0) {
    std::cerr << command << ": nothing was sent after the warm-up; give more --requests, or a longer --duration\n";
    return said_unless(json.flush() && log.flush() && std::cout.flush(), command), 1;
  }
  const bool written = said_unless(json.flush() && log.flush() && std::cout.flush(), command);
  return written && (all.ok() > 0 || all.failed() == 0) ? 0 : 1;
}

}  // namespace weir::lab::load
