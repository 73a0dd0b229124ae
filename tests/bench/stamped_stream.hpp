// Reads an answer of bench_upstream, whose tokens are stamps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/bench/relay_sockets.hpp"

namespace weir::bench {

/// Takes chunked framing off and finds stamps, byte by byte over any split.
class StampedStream {
 public:
  template <class Stamp>
  void read(std::string_view bytes, Stamp&& stamp) {
    while (!bytes.empty() && state_ != State::whole) {
      if (state_ == State::chunk) {
        const auto part = bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size())));
        payload(part, stamp);
        bytes.remove_prefix(part.size());
        left_ -= part.size();
        if (left_ == 0) state_ = State::chunk_end;
      } else {
        framing(bytes.front());
        bytes.remove_prefix(1);
      }
    }
  }
  bool whole() const { return state_ == State::whole; }
  bool accepted() const { return status_ok_; }
  std::uint64_t tokens() const { return tokens_; }

 private:
  enum class State { head, size, chunk, chunk_end, last, whole };

  void framing(char c) {
    switch (state_) {
      case State::head:
        head_ += c;
        if (head_.ends_with("\r\n\r\n")) {
          status_ok_ = head_.starts_with("HTTP/1.1 200");
          head_ = {};
          state_ = State::size;
        }
        return;
      case State::size:
        if (c == '\n') {
          state_ = left_ == 0 ? State::last : State::chunk;
        } else if (c != '\r') {
          left_ = left_ * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return;
      case State::chunk_end:
        if (c == '\n') state_ = State::size;
        return;
      case State::last:
        if (c == '\n') state_ = State::whole;
        return;
      case State::chunk:
      case State::whole:
        return;
    }
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

  State state_ = State::head;
  std::string head_;
  std::uint64_t left_ = 0, stamp_ = 0, tokens_ = 0;
  bool in_stamp_ = false, status_ok_ = false;
};

}  // namespace weir::bench
