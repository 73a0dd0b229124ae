#include "lab/experiment/batch.hpp"

#include <algorithm>
#include <limits>

namespace weir::lab::experiment {
namespace {

BatchPhase prefill_of(std::span<const load::Course> courses) {
  BatchPhase prefill;
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const load::Course& course : courses) {
    prefill.latency.push_back(static_cast<float>(course.events.front() - course.sent));
    prefill.tokens += static_cast<double>(course.prompt_tokens);
    begin = std::min(begin, course.sent);
    end = std::max(end, course.events.front());
  }
  prefill.seconds = end - begin;
  return prefill;
}

}  // namespace

Batch batch_of(std::span<const load::Course> courses) {
  Batch batch;
  batch.prefill = prefill_of(courses);
  double begin = -std::numeric_limits<double>::infinity(), end = -begin;
  for (const load::Course& course : courses) {
    if (course.events.size() < 2) {
      batch.unsteady = Unsteady::one_token;
      return batch;
    }
    begin = std::max(begin, course.events.front());
    end = std::min(end, course.events.back());
  }
  if (end <= begin) {
    batch.unsteady = Unsteady::not_together;
    return batch;
  }
  BatchPhase decode;
  decode.seconds = end - begin;
  for (const load::Course& course : courses) {
    const auto first = std::ranges::lower_bound(course.events, begin);
    const auto last = std::ranges::upper_bound(course.events, end);
    // Events of one read share a moment. How long those of the first moment took is not known, so one of them counts.
    const auto behind = first == last ? last : std::upper_bound(first, last, *first);
    if (behind == last || last - behind + 1 < static_cast<std::ptrdiff_t>(least_events)) {
      batch.unsteady = Unsteady::too_short;
      return batch;
    }
    // Events of one step come a little apart, so a request's rate is taken between its own events.
    const double gaps = static_cast<double>(last - behind);
    decode.tokens += decode.seconds * course.tokens_per_event * gaps / (*(last - 1) - *first);
    for (auto event = behind; event != last; ++event) {
      decode.latency.push_back(static_cast<float>((*event - *(event - 1)) / course.tokens_per_event));
    }
  }
  batch.decode = std::move(decode);
  return batch;
}

}  // namespace weir::lab::experiment
