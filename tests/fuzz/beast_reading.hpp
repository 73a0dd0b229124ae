// Boost.Beast's reading of a message: method, target, fields, framing and body. Beast is another reader than weir's
// own, and what the two read differently could be smuggled.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::fuzz {

struct BeastReading {
  std::string method, target;
  unsigned status = 0;
  int version = 0;  ///< It is 10 or 11.
  std::vector<std::pair<std::string, std::string>> fields;
  // The framing as the head says it, because Beast lets trailers change it.
  bool has_head = false, chunked = false, keep_alive = false, needs_end = false;
  std::optional<std::uint64_t> length;
  std::string body;
  bool done = false;  ///< The message is whole.
  std::size_t consumed = 0;
  boost::beast::error_code error;  ///< It is set if Beast refuses the message.
};

template <bool is_request>
class BeastReader final : public boost::beast::http::basic_parser<is_request> {
  using error_code = boost::beast::error_code;
  using string_view = boost::beast::string_view;

 public:
  BeastReader() {
    this->eager(true);
    this->header_limit(std::numeric_limits<std::uint32_t>::max());
    this->body_limit(boost::none);
  }

  /// Reads the first message. `to_head` says that it answers HEAD.
  static BeastReading read(std::string_view bytes, bool to_head = false) {
    BeastReader reader;
    if (to_head) reader.skip(true);
    auto& seen = reader.seen_;
    while (!reader.is_done() && seen.consumed < bytes.size()) {
      const boost::asio::const_buffer rest(bytes.data() + seen.consumed, bytes.size() - seen.consumed);
      const auto n = reader.put(rest, seen.error);
      seen.consumed += n;
      if (seen.error || n == 0) break;
    }
    // Beast asserts that it is asked again only with more bytes, and there are none.
    if (seen.error == boost::beast::http::error::need_more) seen.error = {};
    seen.done = reader.is_done();
    return std::move(seen);
  }

 private:
  void on_request_impl(boost::beast::http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    seen_.method = std::string(method);
    seen_.target = std::string(target);
    seen_.version = version;
  }
  void on_response_impl(int code, string_view, int version, error_code&) override {
    seen_.status = static_cast<unsigned>(code);
    seen_.version = version;
  }
  void on_field_impl(boost::beast::http::field, string_view name, string_view value, error_code&) override {
    if (!seen_.has_head) seen_.fields.emplace_back(std::string(name), std::string(value));  // Else it is a trailer.
  }
  void on_header_impl(error_code&) override {
    seen_.has_head = true;
    seen_.chunked = this->chunked();
    seen_.keep_alive = this->keep_alive();
    seen_.needs_end = this->need_eof();
    if (const auto length = this->content_length()) seen_.length = *length;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override {
    seen_.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    seen_.body.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  BeastReading seen_;
};

}  // namespace weir::fuzz
