// A channel whose far end is the test: it reads and writes in any pieces, and any call can fail. It has no socket and
// never waits.
//
// The channel behaves as a TCP socket under the poller does. Events at the far end are noted and told only by report(),
// once an edge. A read that does not fill its buffer uses EPOLLIN up. A broken connection gives its error once, and the
// end after that.
#pragma once

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/net/channel.hpp"

namespace weir::proxy::net {

/// Counts the reads and writes of several channels together, and can make one of them fail.
struct Calls {
  int made = 0;
  int failing = -1;  ///< The number of the call that fails, from 0 on.
  int error = 0;     ///< The call fails with this, or throws as a bug of weir's would.
  static constexpr int throws = -1;
  bool fails_now() { return made++ == failing; }
};

/// The far end of one channel. It outlives the channel.
class Peer {
 public:
  static constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

  explicit Peer(Calls& calls, bool connected = true) : calls_(calls), connected_(connected), edge_(connected) {}

  // The far end does these; weir's side is told at the next report().
  /// Sends these bytes, in pieces of this size, one at each report.
  void says(std::string_view bytes, std::size_t piece = any) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
      coming_.emplace_back(bytes.substr(0, piece));
  }
  void vanishes() { vanished_ = true; }  ///< Its system answers nothing any more.
  void ends() { ending_ = true; }        ///< Closes its direction, behind what it has sent.
  void breaks(int error = ECONNRESET) { breaking_ = error; }
  void connects() { connected_ = edge_ = true; }
  void refuses(int error) {
    connect_error_ = error;
    edge_ = true;
  }
  /// Has room for so many bytes more, and tells if there was none.
  void takes(std::size_t bytes) {
    room_ = bytes == any ? any : room_ + bytes;
    if (std::exchange(blocked_, false)) edge_ = true;
  }
  /// Has room for so many bytes now, and for as many more at each report.
  void takes_a_round(std::size_t bytes) { room_ = room_a_round_ = bytes; }
  void takes_nothing() { room_ = 0; }

  std::string got;                         ///< weir has written this to it.
  int unacknowledged = 0;                  ///< As the kernel would tell it.
  std::optional<metrics::Moment> arrival;  ///< The stamp of what is read; without one it is the moment of the
                                           ///< read.

  /// Lets bytes arrive of which weir has not been told.
  void arrives_unseen(const std::string& bytes) {
    inbox_ += bytes;
    edge_ = true;
  }

  // The state of weir's side.
  bool closed() const { return !open_; }
  bool closed_by_reset() const { return !open_ && reset_on_close_; }
  bool writing_ended() const { return writing_ended_; }
  /// True if the channel is told before others.
  bool prioritized() const { return hastened_; }
  bool watched() const { return watcher_ != nullptr; }
  std::size_t unread() const { return inbox_.size(); }
  int writes() const { return writes_; }  ///< How often weir wrote to it.

  /// Tells weir's side what has happened. Returns false if nothing has.
  bool report() {
    if (!open_) return false;
    if (const auto events = std::exchange(again_, 0); events != 0) return tell(events);
    if (!coming_.empty()) {
      inbox_ += coming_.front();
      coming_.pop_front();
      edge_ = true;
    } else if (std::exchange(ending_, false)) {
      ended_ = edge_ = true;
    } else if (breaking_ != 0) {
      error_ = std::exchange(breaking_, 0);
      ended_ = broken_ = edge_ = true;
    }
    if (room_a_round_ != 0 && blocked_) takes(room_a_round_);
    return std::exchange(edge_, false) && tell(events_now());
  }

 private:
  friend class ScriptedChannel;

  bool tell(std::uint32_t events) {
    noted_ |= events;
    if (watcher_ != nullptr) watcher_->ready(0, events);
    return true;
  }
  std::uint32_t events_now() const {
    if (connect_error_ != 0) return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP;
    if (!connected_) return 0;
    std::uint32_t events = 0;
    if (!inbox_.empty() || ended_) events |= EPOLLIN;
    if (room_ > 0 || broken_) events |= EPOLLOUT;
    if (ended_) events |= EPOLLRDHUP;
    if (broken_) events |= EPOLLERR | EPOLLHUP;
    return events;
  }
  /// Fails the call that is to fail: a fatal error breaks the connection, another one is reported again.
  ssize_t fail() {
    edge_ = true;
    if (calls_.error == Calls::throws) throw std::runtime_error("a test");
    if (calls_.error != EAGAIN && calls_.error != EINTR) {
      ended_ = broken_ = true;
      inbox_.clear();
      coming_.clear();
    }
    errno = calls_.error;
    return -1;
  }
  ssize_t read(std::span<char> into) {
    if (calls_.fails_now()) return fail();
    const auto size = inbox_.copy(into.data(), into.size());
    inbox_.erase(0, size);
    if (size > 0 || into.empty()) return static_cast<ssize_t>(size);
    if (const int error = std::exchange(error_, 0); error != 0) {
      errno = error;
      return -1;
    }
    if (ended_) return 0;
    errno = EAGAIN;
    return -1;
  }
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) {
    ++writes_;
    if (calls_.fails_now()) return fail();
    if (broken_ || !connected_) {
      const int error = std::exchange(error_, 0);
      errno = !connected_ ? EAGAIN : error != 0 ? error : EPIPE;
      return -1;
    }
    std::size_t left = std::min(room_, Channel::bytes_in_a_row);
    std::size_t wanted = 0;
    const auto before = got.size();
    for (auto piece : pieces) {
      piece.remove_prefix(std::exchange(offset, 0));
      wanted += piece.size();
      got += piece.substr(0, left);
      left -= std::min(left, piece.size());
    }
    const auto written = got.size() - before;
    if (room_ != any) room_ -= written;
    if (room_ == 0 && written < wanted) blocked_ = true;
    if (written > 0 || wanted == 0) return static_cast<ssize_t>(written);
    errno = EAGAIN;
    return -1;
  }

  Calls& calls_;
  std::deque<std::string> coming_;
  std::string inbox_;
  std::size_t room_ = any, room_a_round_ = 0;
  int breaking_ = 0, error_ = 0, connect_error_ = 0, writes_ = 0;
  bool connected_, ending_ = false, ended_ = false, broken_ = false, blocked_ = false;
  bool vanished_ = false, open_ = true, reset_on_close_ = false, writing_ended_ = false, hastened_ = false;
  bool edge_;  ///< Something has happened since the last report.
  std::uint32_t noted_ = 0, again_ = 0;
  Watcher* watcher_ = nullptr;
};

class ScriptedChannel final : public Channel {
 public:
  explicit ScriptedChannel(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) {}
  ~ScriptedChannel() override {
    peer_->open_ = false;
    peer_->watcher_ = nullptr;
  }
  ScriptedChannel(const ScriptedChannel&) = delete;
  ScriptedChannel& operator=(const ScriptedChannel&) = delete;

  Read read(std::span<char> into) override {
    const auto size = peer_->read(into);
    const bool empty = size < 0 ? errno == EAGAIN : static_cast<std::size_t>(size) < into.size();
    if (empty) peer_->noted_ &= ~std::uint32_t{EPOLLIN};
    return {size, peer_->arrival.value_or(std::chrono::steady_clock::now())};
  }
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override {
    return peer_->write(pieces, offset);
  }
  void watch(Watcher* watcher) override { peer_->watcher_ = watcher; }
  void prioritize() override { peer_->hastened_ = true; }
  void rearm(std::uint32_t events) override { peer_->again_ |= events; }
  bool may_read() const override { return (peer_->noted_ & (EPOLLIN | hang_up)) != 0; }
  Ended ended() const override {
    if ((peer_->noted_ & hang_up) == 0) return Ended::no;
    return (peer_->noted_ & (EPOLLHUP | EPOLLERR)) != 0 ? Ended::broken : Ended::by_peer;
  }
  bool is_quiet() override { return peer_->inbox_.empty() && !peer_->ended_; }
  bool connecting_waits_for_loop() const override { return peer_->edge_; }
  int connect_error() override { return peer_->connect_error_; }
  int unacknowledged() const override { return peer_->unacknowledged; }
  void break_off_if_vanished() override {
    if (!peer_->vanished_) return;
    reset_on_close();
    peer_->breaks();
  }
  void end_writing() override { peer_->writing_ended_ = true; }
  void reset_on_close() override { peer_->reset_on_close_ = true; }

 private:
  static constexpr std::uint32_t hang_up = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  const std::shared_ptr<Peer> peer_;
};

}  // namespace weir::proxy::net
