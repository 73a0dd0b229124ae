#include "lab/experiment/results.hpp"

#include "lab/json_fields.hpp"

namespace weir::lab::experiment {
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
