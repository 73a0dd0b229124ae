// The words for a pool's policy and for a rollout's answers, in the settings file and in weir's log.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "config/settings.hpp"

namespace weir::config {

inline constexpr std::array<std::pair<std::string_view, Policy>, 5> policy_words{
    {{"least_queued_tokens", Policy::least_queued_tokens},
     {"round_robin", Policy::round_robin},
     {"random", Policy::random},
     {"least_requests", Policy::least_requests},
     {"power_of_two", Policy::power_of_two}}};

inline constexpr std::array<std::pair<std::string_view, OtherAnswers>, 3> other_answers_words{
    {{"look", OtherAnswers::look}, {"same", OtherAnswers::same}, {"any", OtherAnswers::any}}};

constexpr std::string_view name_of(Policy policy) {
  return std::ranges::find(policy_words, policy, &std::pair<std::string_view, Policy>::second)->first;
}

}  // namespace weir::config
