// The answers of /api/live, /api/live/window and /api/events (docs/reference/api.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/api.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::admin {

/// An answer of the window has no more numbers than this: more would hold up the control thread.
inline constexpr std::size_t most_window_numbers = 200'000;
/// So much of the window is shown where the query does not say.
inline constexpr std::size_t usual_window_seconds = 60;

/// The refusal of a weir without figures.
ApiAnswer not_yet();
/// Answers with the states and books of now.
ApiAnswer live_answer(std::string_view query, live::Live& live, metrics::Moment now);
ApiAnswer window_answer(std::string_view query, const live::Live& live);
/// Returns the last seconds of every figure, as window_answer writes them. Where these would be more than
/// `most_window_numbers`, "step_s" is above 1, and each number is the mean of so many seconds.
std::string whole_window_json(const live::Live& live, std::size_t seconds);
/// Returns the means of `step` numbers each, of those that are known (not NaN). The last mean ends where the numbers
/// end.
std::vector<float> thinned(std::vector<float> numbers, std::size_t step);
ApiAnswer events_answer(std::string_view query, const live::Live& live);

/// Returns why there is no stream now; an answer of status 200 and type text/event-stream if there is one.
ApiAnswer stream_answer(std::string_view query, const live::Live& live);
inline constexpr std::string_view event_stream = "text/event-stream";

/// Makes the events of one stream. It keeps the document that its client has.
class LiveStream {
 public:
  static constexpr std::chrono::seconds still_here_every{15};

  LiveStream(live::Live& live, metrics::Moment now) : live_(live), sent_at_(now) {}

  /// Returns what is to be sent now; "" for nothing.
  std::string next(metrics::Moment now);

 private:
  live::Live& live_;
  std::shared_ptr<const live::Document> has_;
  metrics::Moment sent_at_;
};

}  // namespace weir::proxy::admin
