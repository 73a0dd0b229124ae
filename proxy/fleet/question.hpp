// A request of weir's own to a replica, and its answer as it comes: what the probe asks, and what the model directory
// asks. No I/O and no clock: the one blocks, the other does not.
//
// Not the data path. Yet heads go through the same gate and bodies through the same decoder as there.
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

/// The field for weir's own key; "" without one.
std::string bearer(std::string_view api_key);

/// The whole request; the connection is to be closed behind its answer.
std::string bytes_of(const config::ReplicaUrl& url, const Question& question);

/// Takes an answer as it comes.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  /// `sent`: the first byte of the request was written.
  virtual void head(const http::ResponseHead& head, metrics::Moment sent, metrics::Moment at) = 0;
  /// False: enough was read. StreamMeter::padding bytes behind the span are readable.
  virtual bool body(std::span<const char> bytes, metrics::Moment at) = 0;
  /// `framed`: not by the close.
  virtual void end(bool whole, bool framed, metrics::Moment at) = 0;
};

enum class AskingEnd : std::uint8_t { answered, failed, timed_out };
struct Asked {
  AskingEnd end = AskingEnd::failed;
  std::string why;  ///< A sentence without its end, where not answered.
};

/// Reads one answer, piece by piece, until it has ended.
class ReplicaAnswer {
 public:
  ReplicaAnswer(AnswerReader& reader, metrics::Moment sent) : reader_(reader), sent_(sent) {}

  /// An end, or nothing while there is more to come. `piece` has StreamMeter::padding bytes behind it.
  std::optional<Asked> arrived(std::span<char> piece, metrics::Moment at);
  Asked closed(metrics::Moment at);

 private:
  std::optional<Asked> body(std::span<char> piece, metrics::Moment at);

  AnswerReader& reader_;
  metrics::Moment sent_;
  std::string head_;
  bool in_body_ = false;
  http::BodyDecoder decoder_;
};

}  // namespace weir::proxy::fleet
