#include "lab/experiment/experiment.hpp"

#include <algorithm>
#include <set>

#include "lab/load/failure.hpp"

namespace weir::lab::experiment {
namespace {

constexpr std::uint64_t warm_up_seed = 1'000'000'000;

load::LoadSettings settings_of(const Plan& plan, const Row& row, std::uint64_t number) {
  load::LoadSettings load;
  load.url = row.url;
  load.model = row.model;
  load.api = row.api;
  load.usage = true;  // Speculative decoding brings several tokens in an event.
  load.concurrency = row.concurrency;
  load.requests = plan.prompts;
  load.workload = plan.lengths;
  load.workload.seed += number * 1'000'003;
  return load;
}

std::string reason_of(const std::vector<load::Result>& results) {
  for (const load::Result& result : results) {
    if (!result.ok()) return load::failure_of(result);
  }
  return "no request was sent";
}

}  // namespace

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
      if (warm.insert(i).second) {
        load::LoadSettings warm_up = settings_of(plan, row, number);
        warm_up.requests = std::min(row.concurrency, plan.prompts);
        warm_up.workload.seed += warm_up_seed;
        if (load::measure(warm_up, interrupt).interrupted) return false;
      }
      std::vector<load::Result> results;
      const auto keep = [&results](const load::Result& result) { results.push_back(result); };
      if (load::measure(settings_of(plan, row, number), interrupt, keep).interrupted) return false;
      const Repetition repetition = repetition_of(results);
      if (repetition.ok == 0) {
        on.failed(row, number, reason_of(results));
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
