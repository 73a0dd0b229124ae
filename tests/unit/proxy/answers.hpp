// Answers of replicas, as tests write them, and answers as clients read them.
#pragma once

#include <string>
#include <string_view>

#include "tests/http.hpp"

namespace weir::proxy {

using tests::chunk;
inline const std::string last_chunk(tests::last_chunk);

/// An answer as a client reads it from `bytes`.
struct ClientView {
  unsigned status = 0;
  std::string head, body;
  bool whole = false;        ///< Its framing came to its end.
  bool until_close = false;  ///< Only the end of the connection ends it; it is whole if that is no reset.
  std::string rest;          ///< Bytes behind the answer.
};

inline ClientView read_answer(std::string_view bytes) {
  const auto read = tests::read_answer(bytes);
  if (!read.head) return {};
  return {read.head->status(), read.head->bytes, read.body, read.whole, read.until_close, std::string(read.rest)};
}

inline std::string whole_answer(const std::string& status, const std::string& body, const std::string& fields = "",
                                const std::string& type = "application/json") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline const std::string completion =
    R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}})";

inline std::string sse_head(const std::string& framing = "Transfer-Encoding: chunked\r\n",
                            const std::string& version = "HTTP/1.1") {
  return version + " 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" + framing + "\r\n";
}
inline std::string token(const std::string& text) {
  return R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":")" + text +
         R"("},"finish_reason":null}]})"
         "\n\n";
}
inline const std::string finish_event = R"(data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
                                        "\n\n";
inline const std::string usage_event =
    R"(data: {"id":"c","choices":[],"usage":{"prompt_tokens":90,"completion_tokens":3,"total_tokens":93}})"
    "\n\n";
inline const std::string done_event = "data: [DONE]\n\n";
inline const std::string refusing_event = R"(data: {"error":{"message":"overloaded","code":503}})"
                                          "\n\n";
inline const std::string stream_end = chunk(finish_event) + chunk(usage_event) + chunk(done_event) + last_chunk;
inline std::string streamed_answer() {
  return sse_head() + chunk(token("a")) + chunk(token("b")) + chunk(token("c")) + stream_end;
}

}  // namespace weir::proxy
