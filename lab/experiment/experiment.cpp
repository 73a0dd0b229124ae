#include "lab/experiment/experiment.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/load/failure.hpp"

namespace weir::lab::experiment {
namespace {

constexpr std::uint64_t warm_up_seed = 1'000'000'000;

std::string reason_of(const std::vector<load::Result>& results) {
  for (const load::Result& result : results) {
    if (!result.ok()) return load::failure_of(result);
  }
  return "no request was sent";
}

struct Ran {
  std::vector<load::Result> results;
  std::string own_delay;
  std::string problem;  ///< Nothing could be sent, such as to a name that is not known; "" if it could.
  bool interrupted = false;
};

Ran run(const load::LoadSettings& settings, const load::Interrupt& interrupt, const load::OnResult& on_result) {
  Ran ran;
  const auto keep = [&](const load::Result& result) {
    ran.results.push_back(result);
    if (on_result) on_result(result);
  };
  try {
    const load::Measured measured = load::measure(settings, interrupt, keep);
    ran.interrupted = measured.interrupted;
    ran.own_delay = load::too_slow(measured.own, measured.report.all).value_or("");
  } catch (const std::runtime_error& problem) {
    ran.problem = problem.what();
  }
  return ran;
}

}  // namespace

load::LoadSettings load_of(const Plan& plan, std::size_t i, std::uint64_t number) {
  const Row& row = plan.rows[i];
  load::LoadSettings load;
  load.url = row.url;
  load.model = row.model;
  load.api = row.api;
  load.api_key = row.api_key;
  load.ignore_eos = plan.ignore_eos;
  load.usage = true;  // Speculative decoding brings several tokens in an event.
  load.concurrency = row.concurrency;
  load.requests = plan.prompts;
  load.workload = plan.lengths;
  load.workload.seed += number * 1'000'003;
  load.workload.texts = i;
  return load;
}

load::LoadSettings warm_up_of(const Plan& plan, std::size_t i, std::uint64_t number) {
  load::LoadSettings load = load_of(plan, i, number);
  load.requests = std::min(load.concurrency, plan.prompts);
  load.workload.seed += warm_up_seed;
  return load;
}

std::uint64_t left(const Plan& plan, const Done& done) {
  std::uint64_t runs = 0;
  for (const auto& of_row : done) runs += plan.repeat - of_row.size();
  return runs;
}

bool run_rest(const Plan& plan, Done& done, const load::Interrupt& interrupt, const OnRun& on) {
  std::set<std::size_t> warm;
  for (std::uint64_t number = 0; number < plan.repeat; ++number) {
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      if (done[i].contains(number)) continue;
      const Row& row = plan.rows[i];
      on.begin(row, number);
      load::OnResult told;
      if (on.result) told = [&](const load::Result& result) { on.result(row, result); };
      Ran ran;
      if (warm.insert(i).second) ran = run(warm_up_of(plan, i, number), interrupt, {});
      if (!ran.interrupted && ran.problem.empty()) {
        load::LoadSettings load = load_of(plan, i, number);
        load.facts = told != nullptr;  // A request log needs them.
        ran = run(load, interrupt, told);
      }
      if (ran.interrupted) return false;
      Repetition repetition = repetition_of(ran.results);
      repetition.own_delay = ran.own_delay;
      if (!ran.problem.empty()) {
        on.failed(row, number, ran.problem);
      } else if (repetition.ok == 0) {
        on.failed(row, number, reason_of(ran.results));
      } else {
        done[i][number] = repetition;
        on.done(row, number, repetition);
      }
      if (interrupt.seen() && left(plan, done) > 0) return false;  // A short load ends before it looks.
    }
  }
  return true;
}

}  // namespace weir::lab::experiment
