#include "lab/users/users.hpp"

#include <algorithm>
#include <chrono>

#include "lab/load/course.hpp"

namespace weir::lab::users {

Users run_users(const UsersSettings& settings, const load::Interrupt& interrupt, const OnUsers& on) {
  Users measured;
  for (const std::uint64_t users : settings.users) {
    if (on.stage) on.stage(users);
    const double ramp = settings.load.ramp;
    const double all_there = ramp > 0 ? static_cast<double>(users - 1) / ramp : 0;
    load::LoadSettings load = settings.load;
    load.concurrency = users;
    load.requests = 0;
    load.duration = all_there + settings.duration;
    load.workload.seed += 100'000 * users;
    std::vector<load::Result> results;
    const auto keep = [&](const load::Result& result) {
      results.push_back(result);
      if (on.result) on.result(result);
    };
    const double begun = load::seconds_of(std::chrono::steady_clock::now());
    const load::Measured run = load::measure(load, interrupt, keep);
    measured.interrupted = run.interrupted || interrupt.seen();  // A short load ends before it looks.
    const double ended = load::seconds_of(std::chrono::steady_clock::now());
    const Window window{begun + all_there, std::min(begun + *load.duration, ended)};
    measured.stages.push_back(stage_of(users, results, window, settings.objective));
    measured.stages.back().own_delay = load::too_slow(run.own, run.report.all).value_or("");
    if (measured.interrupted) break;
  }
  if (settings.objective) measured.peak = peak_users(measured.stages);
  return measured;
}

}  // namespace weir::lab::users
