#include "lab/users/stage.hpp"

#include "lab/load/course.hpp"
#include "lab/load/failure.hpp"

namespace weir::lab::users {
namespace {

double tokens_within(const load::Course& course, const Window& window) {
  double tokens = 0;
  for (std::size_t i = 0; i < course.events.size(); ++i) {
    if (window.holds(course.events[i])) tokens += i == 0 ? 1 : course.tokens_per_event;
  }
  return tokens;
}

void add(Stage& stage, const load::Result& result, const std::optional<Objective>& objective) {
  if (load::was_ended(result)) {
    ++stage.unfinished;
    return;
  }
  if (!result.ok()) {
    ++stage.failed;
    if (stage.failure.empty()) stage.failure = load::failure_of(result);
    return;
  }
  ++stage.ok;
  if (objective && meets(*objective, result)) ++stage.good;
  const double sent = load::seconds_of(result.begun());
  stage.e2e.push_back(static_cast<float>(load::seconds_of(result.ended) - sent));
  if (const auto first = result.stream.first_token()) {
    stage.ttft.push_back(static_cast<float>(load::seconds_of(*first) - sent));
  }
  if (const auto tpot = result.stream.tpot()) stage.tpot.push_back(static_cast<float>(*tpot));
}

}  // namespace

std::optional<double> Stage::attainment() const {
  if (ok + failed == 0) return std::nullopt;
  return static_cast<double>(good) / static_cast<double>(ok + failed);
}

Stage stage_of(std::uint64_t users, std::span<const load::Result> results, const Window& window,
               const std::optional<Objective>& objective) {
  Stage stage;
  stage.users = users;
  if (window.seconds() <= 0) return stage;
  stage.seconds = window.seconds();
  for (const load::Result& result : results) {
    if (const auto course = load::course_of(result)) stage.output_tokens += tokens_within(*course, window);
    if (window.holds(load::seconds_of(result.started))) add(stage, result, objective);
  }
  return stage;
}

std::optional<std::uint64_t> peak_users(std::span<const Stage> stages) {
  std::optional<std::uint64_t> peak;
  for (const Stage& stage : stages) {
    if (stage.attainment().value_or(0) < least_attainment) break;
    peak = stage.users;
  }
  return peak;
}

}  // namespace weir::lab::users
