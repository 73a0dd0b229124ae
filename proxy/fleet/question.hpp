// A request of weir's own to a replica, and its answer as it comes. The probe and the model directory use it. It has no
// I/O and no clock.
//
// Heads go through the same gate and bodies through the same decoder as on the data path.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::fleet {

struct Question {
  std::string_view method = "GET";
  std::string path;        ///< The replica's prefix is put before it.
  std::string body;        ///< JSON, for POST.
  std::string credential;  ///< Fields, each with its CRLF.
  std::string_view user_agent = "weir";
};

/// Returns the field for weir's own key; "" without one.
std::string bearer(std::string_view api_key);

/// Returns the whole request. It asks for the connection to be closed behind its answer.
std::string bytes_of(const config::ReplicaUrl& url, const Question& question);

/// Takes an answer as it comes.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  /// Takes the head. `sent` is when the first byte of the request was written.
  virtual void head(const http::ResponseHead& head, metrics::Moment sent, metrics::Moment at) = 0;
  /// Takes body bytes. Returns false if enough was read. StreamMeter::padding bytes behind the span are readable.
  virtual bool body(std::span<const char> bytes, metrics::Moment at) = 0;
  /// Takes the end. `framed` is false if the close was the end.
  virtual void end(bool whole, bool framed, metrics::Moment at) = 0;
};

enum class QuestionEnd : std::uint8_t { answered, failed, timed_out };
struct QuestionResult {
  QuestionEnd end = QuestionEnd::failed;
  std::string why;  ///< A sentence without its end, set if there was no answer.
};

/// Reads one answer, piece by piece, until it has ended.
class ReplicaAnswer {
 public:
  ReplicaAnswer(AnswerReader& reader, metrics::Moment sent) : reader_(reader), sent_(sent) {}

  /// Takes a piece. Returns the end, or nothing while more is to come. `piece` has StreamMeter::padding bytes behind
  /// it.
  std::optional<QuestionResult> arrived(std::span<char> piece, metrics::Moment at);
  QuestionResult closed(metrics::Moment at);

 private:
  std::optional<QuestionResult> body(std::span<char> piece, metrics::Moment at);

  AnswerReader& reader_;
  metrics::Moment sent_;
  std::string head_;
  bool in_body_ = false;
  http::BodyDecoder decoder_;
};

}  // namespace weir::proxy::fleet
