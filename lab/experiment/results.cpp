#include "lab/experiment/results.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <istream>
#include <utility>

#include "lab/json_fields.hpp"
#include "lab/load/course.hpp"
#include "lab/load/report.hpp"

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
                  row.speculation ? json::value(*row.speculation) : json::value(nullptr),
                  plan.prompts,
                  lengths.input_tokens,
                  lengths.input_stddev,
                  lengths.output_tokens,
                  lengths.output_stddev,
                  lengths.seed};
  if (plan.ignore_eos) all.emplace_back("ignore_eos");
  return json::serialize(all);
}

double median(std::vector<float> values) {
  const auto found = load::distribution(std::move(values));
  return found ? found->p50 : 0;
}

}  // namespace

Repetition repetition_of(const std::vector<load::Result>& results) {
  Repetition repetition;
  std::vector<float> ttft, tpot, e2e;
  double first = 0, last = 0;
  for (const load::Result& result : results) {
    const double sent = load::seconds_of(result.begun()), ended = load::seconds_of(result.ended);
    first = &result == results.data() ? sent : std::min(first, sent);
    last = &result == results.data() ? ended : std::max(last, ended);
    repetition.output_tokens += result.output_tokens();
    if (result.stream.first_token()) repetition.prompt_tokens += result.prompt_tokens();
    if (!result.ok()) {
      ++repetition.failed;
      continue;
    }
    ++repetition.ok;
    e2e.push_back(static_cast<float>(ended - sent));
    if (const auto token = result.stream.first_token()) {
      ttft.push_back(static_cast<float>(load::seconds_of(*token) - sent));
    }
    if (const auto per_token = result.stream.tpot()) tpot.push_back(static_cast<float>(*per_token));
  }
  repetition.seconds = last - first;
  repetition.ttft = median(std::move(ttft));
  repetition.tpot = median(std::move(tpot));
  repetition.e2e = median(std::move(e2e));
  return repetition;
}

std::string line_of(const Plan& plan, const Row& row, std::uint64_t number, const Repetition& repetition) {
  return json::serialize(json::object{
      {"v", 1},
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
      {"own_delay", repetition.own_delay.empty() ? json::value(nullptr) : json::value(repetition.own_delay)}});
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
    Repetition repetition;
    repetition.ok = count_of(line, "ok");
    repetition.failed = count_of(line, "failed");
    repetition.seconds = seconds;
    repetition.prompt_tokens = count_of(line, "prompt_tokens");
    repetition.output_tokens = count_of(line, "output_tokens");
    repetition.ttft = number_of(line, "ttft_p50_s").value_or(0);
    repetition.tpot = number_of(line, "tpot_p50_s").value_or(0);
    repetition.e2e = number_of(line, "e2e_p50_s").value_or(0);
    repetition.own_delay = text_of(line, "own_delay");
    read.done[place->second][static_cast<std::uint64_t>(number)] = repetition;
  }
  return read;
}

}  // namespace weir::lab::experiment
