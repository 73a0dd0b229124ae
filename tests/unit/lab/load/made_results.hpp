// Results of a load as tests need them, made by feeding a stream's reader at given moments.
#pragma once

#include <chrono>
#include <string>

#include "lab/load/connection.hpp"

namespace weir::lab::load {

struct Made {
  double sent = 0, ttft = 0.1, gap = 0.01;
  std::size_t events = 20;
  std::uint64_t prompt_tokens = 100;
  std::uint64_t output_tokens = 0;  ///< 0: usage says nothing.
  bool closed_empty = false;        ///< An event without text ends the answer.
  std::uint64_t cached_tokens = 0;  ///< 0: usage says nothing of them.
  std::string outcome = "ok", replica{};
};

constexpr Moment at(int ms) { return Moment(std::chrono::milliseconds(ms)); }

inline Moment moment(double seconds) {
  return Moment(std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(seconds)));
}

/// Lets a reader read bytes from a place of their own, with something unrelated behind them.
inline void feed(StreamReader& reader, std::string_view bytes, Moment at) {
  std::string padded(bytes);
  padded.append(StreamReader::padding, '"');
  reader.feed(std::string_view(padded).substr(0, bytes.size()), at);
}

inline Result made_result(const Made& made) {
  Result result;
  StreamReader reader(Api::chat);
  result.outcome = made.outcome;
  result.replica = made.replica;
  result.started = moment(made.sent);
  result.prompt_target = made.prompt_tokens;
  double at = made.sent + made.ttft;
  for (std::size_t i = 0; i < made.events; ++i) {
    feed(reader, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", moment(at));
    at += made.gap;
  }
  if (made.closed_empty) {
    feed(reader, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", moment(at));
  }
  if (made.output_tokens > 0) {
    feed(reader,
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" + std::to_string(made.prompt_tokens) +
             ",\"completion_tokens\":" + std::to_string(made.output_tokens) +
             (made.cached_tokens > 0
                  ? ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(made.cached_tokens) + "}"
                  : "") +
             "}}\n\n",
         moment(at));
  }
  feed(reader, "data: [DONE]\n\n", moment(at));
  reader.end(true, moment(at));
  result.stream = reader.stream();
  result.ended = moment(at);
  return result;
}

}  // namespace weir::lab::load
