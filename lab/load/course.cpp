#include "lab/load/course.hpp"

namespace weir::lab::load {

double seconds_of(Moment moment) { return std::chrono::duration<double>(moment.time_since_epoch()).count(); }

std::optional<Course> course_of(const Result& result) {
  const Stream& stream = result.stream;
  const auto first_token = stream.answer.first_token;
  if (!first_token) return std::nullopt;
  Course course;
  course.sent = seconds_of(result.started);
  course.prompt_tokens = result.prompt_tokens();
  double at = seconds_of(*first_token);
  course.events.push_back(at);
  for (const float gap : stream.gaps) course.events.push_back(at += static_cast<double>(gap));
  // The event that ends an answer may be empty, and yet stand for a token, the end of the sequence.
  const std::uint64_t empty = stream.closed_empty() ? 1 : 0;
  const std::uint64_t tokens = stream.output_tokens();
  if (course.events.size() > 1 && tokens > course.events.size() + empty) {
    course.tokens_per_event = static_cast<double>(tokens - empty - 1) / static_cast<double>(course.events.size() - 1);
  }
  return course;
}

}  // namespace weir::lab::load
