// Reads a streamed answer as a client would, and measures it. It shares nothing with weir's own measurement, so that
// the two can be compared.
//
// One thread uses it, and each answer has one object. Each event is parsed as whole JSON (about 1 us in a buffer of its
// own), because the text of an answer may look like anything.
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

  std::string partial_;  ///< It is a line that has not ended yet.
  std::string data_;     ///< They are the data lines of this event.
  bool has_data_ = false;
  bool skip_lf_ = false;  ///< The last byte was a CR; an LF behind it belongs to it.
  bool first_line_ = true;
};

class StreamReader {
 public:
  /// With `keep_text` the text is kept; otherwise its characters are only counted.
  explicit StreamReader(Api api, bool keep_text = false) : api_(api), keep_text_(keep_text) {}

  /// Takes body bytes that were read at `at`; each call is a read.
  void feed(std::string_view bytes, Moment at);

  /// True once the end marker was seen: [DONE], or a TGI event with generated_text.
  bool complete() const { return complete_; }
  /// Returns what an error event said; "" if there was none.
  const std::string& error() const { return error_; }

  std::uint64_t token_events() const { return token_events_; }
  std::optional<Moment> first_token() const { return first_token_; }
  std::optional<Moment> last_token() const { return last_token_; }
  /// Returns when the last event that brought or ended output came.
  std::optional<Moment> last_choice() const { return last_choice_; }
  /// Returns the seconds between token events.
  const std::vector<float>& gaps() const { return gaps_; }
  std::optional<std::uint64_t> prompt_tokens() const { return prompt_tokens_; }
  std::optional<std::uint64_t> output_tokens() const { return output_tokens_; }
  std::optional<std::uint64_t> cached_tokens() const { return cached_tokens_; }

  /// Returns the generated text, without reasoning; "" unless it was to be kept.
  const std::string& text() const { return text_; }
  /// Returns how many code points were generated, reasoning included.
  std::uint64_t chars() const { return chars_; }
  /// Returns "" if there was none.
  const std::string& finish_reason() const { return finish_reason_; }
  std::optional<Moment> first_choice() const { return first_choice_; }
  /// Returns when the first token came that is no reasoning.
  std::optional<Moment> first_output() const { return first_output_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t reads() const { return reads_; }
  /// Returns how many reads brought token events, and how many brought several.
  std::uint64_t token_reads() const { return token_reads_; }
  std::uint64_t coalesced_reads() const { return coalesced_reads_; }
  /// True if the event that ended the choice brought no text.
  bool closed_empty() const { return closed_empty_; }

  /// Returns (last - first) / (n - 1). With usage it is taken over n to the last choice, else over token events. It is
  /// absent for one token.
  std::optional<double> tpot() const;

 private:
  void event(std::string_view data, Moment at);
  void token(Moment at);

  Api api_;
  bool keep_text_;
  EventSplitter splitter_;
  bool complete_ = false;
  std::string error_;
  std::uint64_t token_events_ = 0;
  std::optional<Moment> first_token_, last_token_, last_choice_;
  std::vector<float> gaps_;
  std::optional<std::uint64_t> prompt_tokens_, output_tokens_, cached_tokens_;
  std::optional<Moment> first_choice_, first_output_;
  std::string text_, finish_reason_;
  std::uint64_t chars_ = 0, events_ = 0, reads_ = 0, token_reads_ = 0, coalesced_reads_ = 0;
  bool closed_empty_ = false;
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
