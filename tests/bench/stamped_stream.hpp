// Reads an answer of bench_upstream, whose tokens are stamps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/bench/relay_sockets.hpp"
#include "tests/http.hpp"

namespace weir::bench {

/// Takes chunked framing off and finds stamps, over any split.
class StampedStream {
 public:
  template <class Stamp>
  void read(std::string_view bytes, Stamp&& stamp) {
    if (!in_body_) bytes = head(bytes);
    body_.read(bytes, [&](std::string_view part) { payload(part, stamp); });
  }
  bool whole() const { return body_.whole(); }
  bool accepted() const { return status_ok_; }
  std::uint64_t tokens() const { return tokens_; }

 private:
  /// Returns what stands behind the head.
  std::string_view head(std::string_view bytes) {
    const auto before = head_.size();
    head_ += bytes;
    const auto size = tests::head_size(head_);
    if (!size) return {};
    status_ok_ = head_.starts_with("HTTP/1.1 200");
    in_body_ = true;
    head_ = {};
    return bytes.substr(*size - before);
  }

  template <class Stamp>
  void payload(std::string_view part, Stamp&& stamp) {
    while (!part.empty()) {
      if (!in_stamp_) {
        const auto at = part.find(stamp_mark);
        if (at == std::string_view::npos) return;
        part.remove_prefix(at + 1);
        in_stamp_ = true;
        stamp_ = 0;
      }
      while (!part.empty() && part.front() >= '0' && part.front() <= '9') {
        stamp_ = stamp_ * 10 + static_cast<std::uint64_t>(part.front() - '0');
        part.remove_prefix(1);
      }
      if (part.empty()) return;
      in_stamp_ = false;
      ++tokens_;
      stamp(stamp_);
    }
  }

  std::string head_;
  tests::BodyReader body_{tests::BodyReader::Framing::chunked, 0, tests::BodyReader::Sizes::any};
  std::uint64_t stamp_ = 0, tokens_ = 0;
  bool in_body_ = false, in_stamp_ = false, status_ok_ = false;
};

}  // namespace weir::bench
