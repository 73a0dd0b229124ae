// The head of an event stream that weir sends before a replica has answered, and the comments behind it, for clients
// and balancers that give up a connection on which nothing comes (keep_alive of a pool). From then on an answer that is
// no event stream, an error among them, can only be told inside the stream. Nothing of a replica's answer has reached
// the client, so the request may go on to other replicas as before.
//
// The exchange of one request owns it; the request's wait and its attempts write what it gives. No I/O, no clock.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/moment.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// A comment in an event stream, as a chunk: it shows whatever stands between weir and the client that the stream
/// lives.
inline constexpr std::string_view comment_chunk = "13\r\n: weir keep-alive\n\n\r\n";

class EarlyHead {
 public:
  /// `head` promises a chunked event stream, and says whether the connection stays open. `begun` is set once bytes may
  /// be on their way.
  EarlyHead(std::string head, bool keep_alive, std::chrono::steady_clock::duration interval, Moment since, bool& begun)
      : text_(std::move(head)), keep_alive_(keep_alive), interval_(interval), last_(since), answered_(begun) {
    text_ += comment_chunk;
  }

  /// Returns when bytes are to be written, if nothing else is until then.
  Moment due() const { return last_ + interval_; }
  /// Returns what is to be written: the head and a comment, and later a comment alone. Valid until the next call.
  std::string_view bytes() const { return begun_ ? comment_chunk : std::string_view(text_); }
  /// Says that these bytes were written.
  void written(Moment now) {
    last_ = now;
    begun_ = answered_ = true;
  }
  /// Says that the client takes no bytes now.
  void put_off(Moment now) { last_ = now; }

  bool begun() const { return begun_; }
  bool keep_alive() const { return keep_alive_; }

 private:
  std::string text_;
  const bool keep_alive_;
  const std::chrono::steady_clock::duration interval_;
  Moment last_;
  bool& answered_;
  bool begun_ = false;
};

}  // namespace weir::proxy::exchange
