#include "metrics/compare/comparison/looks.hpp"

#include "metrics/compare/comparison/moments.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// The last request of a window need not lie at its very end.
constexpr double slack = 0.01;

bool lacks_a_side(const Comparison& comparison) {
  if (comparison.apart) return true;
  if (comparison.mode != pairs::Mode::split) return comparison.pairs == 0;
  return comparison.requests_a == 0 || comparison.requests_b == 0;
}

bool ends_before(const statistics::Window& window, std::int64_t last_us) {
  return window.to_us - last_us > microseconds(slack * window.seconds());
}

/// Returns the last look that a window has had, and when the next one comes.
Look last_look(const Comparison& comparison, const Past* past, double needed_s) {
  const bool none = lacks_a_side(comparison);
  const statistics::Window& window = comparison.window;
  Look look;
  for (const double at_s : look_seconds) {
    if (at_s < needed_s) continue;
    // More requests came than a past keeps values of.
    if (past && past->has_gap() && window.from_us + microseconds(at_s) > past->early_until_us) break;
    if (none || !reaches(window.seconds(), at_s)) {
      look.next_s = at_s;
      break;
    }
    ++look.number;
    look.at_s = at_s;
  }
  return look;
}

}  // namespace

bool reaches(double seconds, double needed_s) { return seconds >= (1 - slack) * needed_s; }

Judged judged_part(const Comparison& comparison, const Past* past, double needed_s, std::int64_t last_us) {
  Judged judged{.window = comparison.window, .needed_s = needed_s};
  judged.ended = comparison.declared && !ends_before(comparison.window, last_us);
  if (comparison.declared || comparison.apart) {
    judged.too_short = lacks_a_side(comparison) || !reaches(comparison.window.seconds(), needed_s);
    return judged;
  }
  judged.look = last_look(comparison, past, needed_s);
  judged.too_short = judged.look->number == 0;
  if (judged.too_short) {
    // Where even the last look is too early, a declared window would do.
    judged.needed_s = judged.look->next_s.value_or(needed_s);
  } else {
    judged.window.to_us = judged.window.from_us + microseconds(judged.look->at_s);
  }
  return judged;
}

}  // namespace weir::metrics::compare::comparison
