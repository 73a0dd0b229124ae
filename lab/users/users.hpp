// Peak users: how many users at once a service bears, found as Locust does it.
//
// Users start at so many a second. Each sends a request, waits for its answer, thinks, and sends again. A stage is
// measured from the moment at which all of its users are there, for the time that was asked for. Locust counts from the
// first user's start.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lab/load/measure.hpp"
#include "lab/users/stage.hpp"

namespace weir::lab::users {

struct UsersSettings {
  load::LoadSettings load;           ///< Its concurrency, requests and duration do not count.
  std::vector<std::uint64_t> users;  ///< In rising order.
  double duration = 60;              ///< A stage is measured for so many seconds.
  std::optional<Objective> objective;
};

struct Users {
  std::vector<Stage> stages;
  std::optional<std::uint64_t> peak;  ///< It is there only with an objective.
  bool interrupted = false;
};

struct OnUsers {
  load::OnResult result;
  std::function<void(std::uint64_t users)> stage;  ///< A stage begins.
};

/// Runs until done or `interrupt`; then it has what was measured until then. Throws as load::measure does.
Users run_users(const UsersSettings& settings, const load::Interrupt& interrupt, const OnUsers& on = {});

}  // namespace weir::lab::users
