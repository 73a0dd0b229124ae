// A channel to nobody: it takes all that is written and brings nothing. A mirrored request's answer goes there.
#pragma once

#include <cerrno>

#include "proxy/net/channel.hpp"

namespace weir::proxy::net {

class SinkChannel final : public Channel {
 public:
  /// Tells the watcher that the peer has closed.
  void hang_up() {
    hung_up_ = true;
    if (watcher_ != nullptr) watcher_->ready(tag_, EPOLLRDHUP);
  }

  Read read(std::span<char>) override {
    if (hung_up_) return {};
    errno = EAGAIN;
    return {-1, {}};
  }
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override {
    std::size_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    return static_cast<ssize_t>(size - offset);
  }
  void attach(Watcher& watcher, std::uint32_t tag) override {
    watcher_ = &watcher;
    tag_ = tag;
  }
  void detach() override { watcher_ = nullptr; }
  void prioritize() override {}
  void rearm(std::uint32_t) override {}
  bool may_read() const override { return false; }
  bool hung_up() const override { return hung_up_; }
  bool is_quiet() override { return !hung_up_; }
  int connect_error() override { return 0; }
  int unacknowledged() const override { return 0; }
  void end_writing() override {}
  void reset_on_close() override {}

 private:
  Watcher* watcher_ = nullptr;
  std::uint32_t tag_ = 0;
  bool hung_up_ = false;
};

}  // namespace weir::proxy::net
