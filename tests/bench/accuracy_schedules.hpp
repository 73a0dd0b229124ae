// The schedules of the accuracy bench: what a replica writes, and when, in answer to a request for model NAME-NUMBER.
//
//   steady    a token every 20 ms, each its own event; an empty event closes the choice, counted as a token (as vLLM
//             counts the end of sequence)
//   bursty    5 tokens at once every 100 ms, each its own event and its own write; the finish comes with the last
//   several   3 tokens an event every 60 ms, usage in every chunk
//   untold    the same without usage in the chunks: k and n1 are unknown
//   prefill   head and role chunk at once, a comment every 100 ms, the first token after 1 s, then as steady
//   merged    a token every 20 ms, the finish with the last
//   batch     steady, but all streams of each of two engines step together, every 20 ms
//   spread    steady, the streams' steps spread evenly over the 20 ms
//   pair      two tokens on batch's steps, the finish with the second: tL - t1 is one single gap
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::bench {

inline constexpr std::uint64_t millisecond = 1'000'000;

/// A write of the replica.
struct Step {
  std::uint64_t at = 0;  ///< Nanoseconds of CLOCK_MONOTONIC.
  unsigned tokens = 0;   ///< Tokens of its event; 0 means no token event.
  bool comment = false;
  bool role = false;    ///< A role chunk comes before the token event.
  bool finish = false;  ///< The last step: the finish comes with the token event, or in an empty event.
};

struct Schedule {
  std::string_view name;
  std::uint64_t first_after = 50 * millisecond;
  unsigned tokens_a_step = 1;
  std::uint64_t every = 20 * millisecond;
  unsigned at_once = 1;           ///< So many steps are due together.
  bool early_role = false;        ///< The role chunk comes at once, then comments.
  bool empty_finish = false;      ///< The end of sequence is an event of its own, counted as a token.
  bool continuous_usage = false;  ///< Each chunk says how many tokens there have been.
  bool engines = false;           ///< Follows the steps of two engines.
  bool spread = false;            ///< Each stream has a phase of its own.
};

inline constexpr Schedule schedules[] = {
    {.name = "steady", .empty_finish = true},
    {.name = "bursty", .every = 100 * millisecond, .at_once = 5},
    {.name = "several", .tokens_a_step = 3, .every = 60 * millisecond, .continuous_usage = true},
    {.name = "untold", .tokens_a_step = 3, .every = 60 * millisecond},
    {.name = "prefill", .first_after = 1000 * millisecond, .early_role = true, .empty_finish = true},
    {.name = "merged"},
    {.name = "batch", .empty_finish = true, .engines = true},
    {.name = "spread", .empty_finish = true, .spread = true},
    {.name = "pair", .engines = true},
};

inline const Schedule* schedule_of(std::string_view name) {
  for (const auto& one : schedules)
    if (one.name == name) return &one;
  return nullptr;
}

/// Returns when the first token is due. Engines step at multiples of 20 ms, the second of them 10 ms later.
inline std::uint64_t first_token_at(const Schedule& of, std::uint64_t stream, std::uint64_t arrived) {
  auto first = arrived + of.first_after;
  if (of.engines) {
    const std::uint64_t phase = stream % 2 * of.every / 2;
    first = (first + of.every - phase) / of.every * of.every + phase;
  }
  // Multiplying by 89 visits every hundredth of the period before any of them twice.
  if (of.spread) first = (first / of.every + 1) * of.every + stream * 89 % 100 * of.every / 100;
  return first;
}

/// Returns the writes of one stream of `tokens` tokens, in order.
inline std::vector<Step> steps_of(const Schedule& of, std::uint64_t stream, std::uint64_t tokens,
                                  std::uint64_t arrived) {
  std::vector<Step> steps;
  auto at = first_token_at(of, stream, arrived);
  if (of.early_role) {
    steps.push_back({.at = arrived, .role = true});
    for (auto comment = arrived + 100 * millisecond; comment < at; comment += 100 * millisecond)
      steps.push_back({.at = comment, .comment = true});
  }
  const auto in_events = tokens - (of.empty_finish ? 1 : 0);
  for (std::uint64_t made = 0; made < in_events;) {
    for (unsigned i = 0; i < of.at_once && made < in_events; ++i) {
      const auto now = static_cast<unsigned>(of.tokens_a_step < in_events - made ? of.tokens_a_step : in_events - made);
      steps.push_back({.at = at, .tokens = now, .role = made == 0 && !of.early_role});
      made += now;
    }
    at += of.every;
  }
  if (of.empty_finish) steps.push_back({.at = at});
  steps.back().finish = true;
  return steps;
}

}  // namespace weir::bench
