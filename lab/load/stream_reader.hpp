// Reads a streamed answer as a client would, and measures it. It shares nothing with weir's own measurement, so that
// the two can be compared.
//
// A single thread uses it, and each answer has one object. Each event is parsed as whole JSON (about 1 us), because the
// text of an answer may look like anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/load/workload.hpp"

namespace weir::lab::load {

using Moment = std::chrono::steady_clock::time_point;

/// Splits an event stream into the data of its events (WHATWG HTML, "Server-sent events"). Lines end in LF, CRLF or CR;
/// comments and other fields are skipped; one BOM may lead. An event that no blank line ends is not an event.
class EventSplitter {
 public:
  template <class OnData>
  void feed(std::string_view bytes, OnData&& on_data);

 private:
  template <class OnData>
  void line(std::string_view text, OnData& on_data);

  std::string partial_;  ///< A line that has not ended yet.
  std::string data_;     ///< The data lines of this event.
  bool has_data_ = false;
  bool skip_lf_ = false;  ///< The last byte was a CR; an LF behind it belongs to it.
  bool first_line_ = true;
};

/// The figures of an answer, as far as it was read.
struct Stream {
  bool complete = false;  ///< The end marker was seen: [DONE], or a TGI event with generated_text.
  std::string error;      ///< The words of an error event; "" if there was none.
  std::uint64_t token_events = 0;
  std::optional<Moment> first_token, last_token;
  std::optional<Moment> first_output;               ///< The first token came that is no reasoning.
  std::optional<Moment> first_choice, last_choice;  ///< Events came that brought or ended output.
  std::vector<float> gaps;                          ///< The seconds between token events.
  std::optional<std::uint64_t> prompt_tokens, output_tokens, cached_tokens;
  std::string text;         ///< The generated text, without reasoning; "" unless it was to be kept.
  std::uint64_t chars = 0;  ///< Code points that were generated, reasoning included.
  std::string finish_reason;
  bool closed_empty = false;  ///< The event that ended the choice brought no text.
  std::uint64_t events = 0, reads = 0;
  std::uint64_t token_reads = 0, coalesced_reads = 0;  ///< Reads that brought token events, and several of them.

  /// Returns (last - first) / (n - 1). With usage it is taken over n to the last choice, else over token events. It is
  /// absent for one token.
  std::optional<double> tpot() const;
};

class StreamReader : public Stream {
 public:
  /// With `keep_text` the text is kept; otherwise its characters are only counted.
  explicit StreamReader(Api api, bool keep_text = false) : api_(api), keep_text_(keep_text) {}

  /// Takes body bytes that were read at `at`; each call is a read.
  void feed(std::string_view bytes, Moment at);

 private:
  void event(std::string_view data, Moment at);
  void token(Moment at);

  Api api_;
  bool keep_text_;
  EventSplitter splitter_;
};

template <class OnData>
void EventSplitter::feed(std::string_view bytes, OnData&& on_data) {
  if (skip_lf_ && !bytes.empty()) {
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    skip_lf_ = false;
  }
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      partial_ += bytes;
      return;
    }
    const std::string_view text = bytes.substr(0, end);
    const bool cr = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (cr && bytes.empty()) skip_lf_ = true;
    if (cr && !bytes.empty() && bytes.front() == '\n') bytes.remove_prefix(1);
    if (partial_.empty()) {
      line(text, on_data);
    } else {
      partial_ += text;
      line(partial_, on_data);
      partial_.clear();
    }
  }
}

template <class OnData>
void EventSplitter::line(std::string_view text, OnData& on_data) {
  if (first_line_ && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  first_line_ = false;
  if (text.empty()) {
    if (has_data_) on_data(std::string_view(data_));
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = text.find(':');
  if (text.substr(0, colon) != "data") return;
  std::string_view value = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace weir::lab::load
