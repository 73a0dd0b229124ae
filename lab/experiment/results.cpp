#include "lab/experiment/results.hpp"

#include <boost/json.hpp>

#include "lab/json_fields.hpp"

namespace weir::lab::experiment {
namespace {

namespace json = boost::json;

/// Returns all that the figures of a row depend on. What it costs is not among it, and its key is not either.
std::string identity(const Plan& plan, const Row& row) {
  const load::WorkloadSettings& lengths = plan.lengths;
  json::array all{row.label,
                  row.url,
                  row.model,
                  std::string(load::path_of(row.api)),
                  row.gpu,
                  row.engine,
                  row.concurrency,
                  load::json_of(row.speculation),
                  plan.prompts,
                  lengths.input_tokens,
                  lengths.input_stddev,
                  lengths.output_tokens,
                  lengths.output_stddev,
                  lengths.seed};
  if (plan.ignore_eos) all.emplace_back("ignore_eos");
  return json::serialize(all);
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
  return json::serialize(json::object{{"v", 1},
                                      {"row", identity(plan, row)},
                                      {"repetition", number},
                                      {"ok", repetition.ok},
                                      {"failed", repetition.failed},
                                      {"seconds", repetition.seconds},
                                      {"prompt_tokens", repetition.prompt_tokens},
                                      {"output_tokens", repetition.output_tokens},
                                      {"ttft_p50_s", repetition.ttft},
                                      {"tpot_p50_s", repetition.tpot},
                                      {"e2e_p50_s", repetition.e2e},
                                      {"own_delay", load::json_of(repetition.own_delay)}});
}

ResultsRead read_results(const Plan& plan, std::istream& lines) {
  ResultsRead read;
  read.done.resize(plan.rows.size());
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) places[identity(plan, plan.rows[i])] = i;
  for (std::string text; std::getline(lines, text);) {
    if (text.empty()) continue;
    const auto line = object_of(text).value_or(json::object());
    const double number = number_of(line, "repetition").value_or(-1), seconds = number_of(line, "seconds").value_or(0);
    if (number < 0 || seconds <= 0) {
      ++read.broken;
      continue;
    }
    const auto place = places.find(text_of(line, "row"));
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
    if (auto delay = text_of(line, "own_delay"); !delay.empty()) repetition.own_delay = std::move(delay);
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
