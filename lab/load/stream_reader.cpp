#include "lab/load/stream_reader.hpp"

#include <chrono>

#include "lab/text.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace weir::lab::load {
namespace {

using metrics::measure::StreamMeter;

metrics::Api api_of(Api api) { return metrics::wire::api_of("POST", path_of(api)); }

/// The meter counts into series, which nobody reads here.
metrics::series::ReplicaShard& unread_series() {
  thread_local metrics::series::ReplicaShard shard;
  return shard;
}

/// Calls `on_event` with the data of each event that ends in these bytes.
template <class OnEvent>
void each_event(metrics::wire::SseFramer& framer, std::string_view bytes, OnEvent on_event) {
  framer.feed(bytes);
  metrics::wire::SseEvent event;
  while (framer.next(event)) on_event(event.data);
}

/// Returns the words of an event that is an error: its message, or the whole of it.
std::string words_of(std::string_view event) {
  const auto root = object_of(event);
  const auto error = root ? value_at(*root, "error") : std::nullopt;
  if (!error || error->is_null()) return std::string(event);
  std::string_view text;
  if (error->get(text) == simdjson::SUCCESS) return std::string(text);
  JsonObject object;
  const auto told = error->get(object) == simdjson::SUCCESS ? field<std::string_view>(object, "message") : std::nullopt;
  return told ? std::string(*told) : simdjson::minify(*error);
}

}  // namespace

bool StreamReader::reads(unsigned status, std::string_view content_type, bool coded) const {
  using metrics::measure::BodyForm;
  return metrics::measure::body_form(api_of(api_), status, content_type, coded, true) == BodyForm::sse;
}

void StreamReader::feed(std::string_view bytes, Moment at) {
  if (!meter_) {
    StreamMeter::Options options;
    options.api = api_of(api_);
    options.form = metrics::measure::BodyForm::sse;
    meter_ = std::make_unique<StreamMeter>(options, unread_series());
  }
  const std::uint32_t token_events = meter_->arrived(bytes, at).token_events;
  for (std::uint32_t i = 0; i < token_events; ++i) {
    if (stream_.last_token) stream_.gaps.push_back(std::chrono::duration<float>(at - *stream_.last_token).count());
    stream_.last_token = at;
  }
  if (stream_.error.empty()) find_error(bytes);
}

void StreamReader::end(bool framed, Moment at) {
  if (!meter_) return;
  meter_->ended(true, framed, at);
  if (stream_.error.empty()) find_error("\n\n");
}

/// Takes the error's words from its event, of which earlier reads may have brought a part.
void StreamReader::find_error(std::string_view bytes) {
  constexpr std::size_t most = 16 * 1024;
  const bool failed = meter_->answer().in_band_error;
  if (!failed && meter_->at_event_boundary()) return unended_.clear();
  if (unended_.size() + bytes.size() > most) unended_.clear();
  unended_ += bytes;
  if (!failed) return;
  const std::size_t size = unended_.size();
  unended_.append(padding, ' ');
  metrics::wire::SseFramer framer(StreamMeter::carry_limit);
  metrics::wire::EventFacts facts;
  each_event(framer, std::string_view(unended_).substr(0, size), [&](std::string_view data) {
    facts.clear();
    metrics::wire::read_event(api_of(api_), data, facts);
    if (facts.error && stream_.error.empty()) stream_.error = words_of(data);
  });
  if (stream_.error.empty()) stream_.error = "an error event";
}

Stream StreamReader::stream() const {
  Stream all = stream_;
  if (meter_) all.answer = meter_->answer();
  return all;
}

std::optional<double> Stream::tpot() const {
  if (!answer.first_token) return std::nullopt;
  const std::uint64_t n = output_tokens(), n1 = answer.first_output_tokens.value_or(1);
  const Moment end = answer.output_tokens ? *answer.last_choice : *last_token;
  if (n <= n1 || end == *answer.first_token) return std::nullopt;
  return metrics::seconds(end - *answer.first_token) / static_cast<double>(n - n1);
}

}  // namespace weir::lab::load
