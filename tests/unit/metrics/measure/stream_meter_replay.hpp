// Plays bodies to a StreamMeter in pieces and writes, as JSON, all that came of it.
#pragma once

#include <boost/json.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/series/shard.hpp"

namespace weir::metrics::measure {

inline constexpr auto chat = Api::openai_chat, completions = Api::openai_completions, responses = Api::openai_responses,
                      anthropic = Api::anthropic_messages, tgi = Api::tgi_generate, sglang = Api::sglang_generate,
                      llamacpp = Api::llamacpp_completion;

inline constexpr Moment start{std::chrono::seconds(1000)};
inline Moment ms(int n) { return start + std::chrono::milliseconds(n); }

inline std::string sample(const std::string& name) {
  std::ifstream file(WEIR_TEST_DATA "/streams/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no sample " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A read lies as in the relay, in a buffer of its own, with something unrelated in the padding behind it.
class Buffer {
 public:
  explicit Buffer(std::string_view bytes) : bytes_(new char[bytes.size() + StreamMeter::padding]), size_(bytes.size()) {
    std::memcpy(bytes_.get(), bytes.data(), bytes.size());
    std::memset(bytes_.get() + size_, '"', StreamMeter::padding);
  }
  std::span<const char> span() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

/// A meter with a shard, fed from buffers that are gone after each call.
class Replay {
 public:
  explicit Replay(const StreamMeter::Options& options) : form(options.form), meter(options, shard) {}

  StreamMeter::Read feed(std::string_view bytes, Moment at) {
    const Buffer buffer(bytes);
    StreamMeter::Read read = meter.arrived(buffer.span(), at);
    unread |= read.unread;
    for (const std::string_view span : read.forward) forwarded += span;
    read.forward = {};
    return read;
  }
  void end(bool whole = true, bool framed = true, Moment at = ms(1'000'000)) {
    forwarded += meter.ended(whole, framed, at);
  }
  const record::Answer& answer() const { return meter.answer(); }

  BodyForm form;
  series::ReplicaShard shard;
  StreamMeter meter;
  std::string forwarded;
  bool unread = false;  // Some read brought what could not be read.
};

inline StreamMeter::Options options_for(Api api, BodyForm form = BodyForm::sse) {
  StreamMeter::Options options;
  options.api = api;
  options.form = form;
  options.received = ms(-100);
  options.sent = ms(-60);
  return options;
}

/// Feeds a body byte by byte, so that each event arrives in a read of its own, at ms(its index).
inline void feed_by_event(Replay& replay, std::string_view body, int first_ms = 0) {
  for (const char& byte : body) {
    replay.feed({&byte, 1}, ms(first_ms + static_cast<int>(replay.answer().events)));
  }
}

/// Returns a stream that has been read to its end.
inline std::unique_ptr<Replay> replayed(const std::string& body,
                                        StreamMeter::Options options = options_for(Api::openai_chat), bool whole = true,
                                        bool framed = true) {
  auto replay = std::make_unique<Replay>(options);
  feed_by_event(*replay, body);
  replay->end(whole, framed);
  return replay;
}

inline std::uint64_t count(const series::Histogram& h) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i <= h.bounds().size(); ++i) n += h.bucket(i);
  return n;
}

/// Returns all that a replay leaves behind but the bytes it forwarded. A member that has its usual value is left out,
/// and so is what follows from others. Moments are milliseconds from `start`, sums of gaps are nanoseconds.
boost::json::object seen(const Replay& replay);

/// Returns one chunk of an OpenAI chat stream: `rest` follows the choices.
inline std::string chunk(const std::string& choices, const std::string& rest = "") {
  return R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[)" + choices + "]" +
         rest + "}\n\n";
}
inline std::string delta(const std::string& members, const std::string& finish = "null", int index = 0,
                         const std::string& rest = "") {
  return R"({"index":)" + std::to_string(index) + R"(,"delta":{)" + members + R"(},"finish_reason":)" + finish + rest +
         "}";
}
inline std::string says(const std::string& text, int index = 0) {
  return chunk(delta(R"("content":")" + text + "\"", "null", index));
}
inline std::string usage(int prompt, int completion) {
  return R"(,"usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"completion_tokens":)" +
         std::to_string(completion) + "}";
}
inline std::string tgi_event(const std::string& json) { return "data:" + json + "\n\n"; }
inline const std::string done = "data: [DONE]\n\n";
inline const std::string stop = chunk(delta("", "\"stop\""));

}  // namespace weir::metrics::measure
