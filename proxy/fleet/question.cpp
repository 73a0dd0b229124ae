#include "proxy/fleet/question.hpp"

#include <vector>

#include "metrics/measure/stream_meter.hpp"

namespace weir::proxy::fleet {
namespace {

constexpr std::size_t longest_head = 64 * 1024;

QuestionResult failed(const char* why) { return {QuestionEnd::failed, why}; }

/// True if this may be the beginning of an answer.
bool begins_like_http(std::string_view head) {
  constexpr std::string_view begin = "HTTP/1.";
  return head.substr(0, begin.size()) == begin.substr(0, head.size());
}

}  // namespace

std::string bearer(std::string_view api_key) {
  return api_key.empty() ? std::string() : "authorization: Bearer " + std::string(api_key) + "\r\n";
}

std::string bytes_of(const config::ReplicaUrl& url, const Question& question) {
  std::string bytes(question.method);
  bytes += " " + url.prefix + question.path + " HTTP/1.1\r\nhost: " + url.authority + "\r\nuser-agent: ";
  bytes.append(question.user_agent).append("\r\naccept: */*\r\nconnection: close\r\n").append(question.credential);
  if (question.method == "POST")
    bytes += "content-type: application/json\r\ncontent-length: " + std::to_string(question.body.size()) + "\r\n";
  return bytes + "\r\n" + question.body;
}

std::optional<QuestionResult> ReplicaAnswer::arrived(std::span<char> piece, metrics::Moment at) {
  if (in_body_) return body(piece, at);
  head_.append(piece.data(), piece.size());
  for (;;) {
    // A server of another protocol may greet with a line, and wait for one.
    if (!begins_like_http(head_)) return failed("it does not answer in HTTP/1.1");
    const auto length = http::head_length(head_, 0);
    if (!length && head_.size() > longest_head) return failed("the head of its answer is too long");
    if (!length) return std::nullopt;
    const auto parsed = http::parse_response_head(std::string_view(head_).substr(0, *length), false);
    if (!parsed || parsed->status == 101) return failed("it does not answer in HTTP/1.1");
    if (parsed->status >= 200) {
      reader_.head(*parsed, sent_, at);
      decoder_ = http::BodyDecoder(parsed->framing, parsed->content_length);
      break;
    }
    head_.erase(0, *length);
  }
  in_body_ = true;
  std::vector<char> rest(head_.begin() + static_cast<std::ptrdiff_t>(*http::head_length(head_, 0)), head_.end());
  const auto size = rest.size();
  rest.resize(size + metrics::measure::StreamMeter::padding);
  return body({rest.data(), size}, at);
}

QuestionResult ReplicaAnswer::closed(metrics::Moment at) {
  if (!in_body_) return failed("it closes the connection without an answer");
  const bool whole = decoder_.ends_with_close();
  reader_.end(whole, false, at);
  return whole ? QuestionResult{QuestionEnd::answered, ""} : failed("its answer breaks off");
}

std::optional<QuestionResult> ReplicaAnswer::body(std::span<char> piece, metrics::Moment at) {
  const auto decoded = decoder_.decode(piece);
  if (!decoded.payload.empty() && !reader_.body(decoded.payload, at)) return failed("its answer is too long");
  if (decoder_.failed()) return failed("the framing of its answer is broken");
  if (!decoder_.finished()) return std::nullopt;
  reader_.end(true, true, at);
  return QuestionResult{QuestionEnd::answered, ""};
}

}  // namespace weir::proxy::fleet
