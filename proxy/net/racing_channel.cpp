#include "proxy/net/racing_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proxy/net/connector.hpp"

namespace weir::proxy::net {

std::unique_ptr<Channel> RacingChannel::begin(const tls::TlsChannel::Loop& loop, Deadlines& deadlines,
                                              const Destination& destination) {
  std::unique_ptr<RacingChannel> channel(new RacingChannel(loop, destination));
  channel->begin_due(std::chrono::steady_clock::now());
  if (channel->race_.lost()) {
    errno = channel->race_.error();
    return nullptr;
  }
  deadlines.attach(*channel);
  return channel;
}

RacingChannel::RacingChannel(const tls::TlsChannel::Loop& loop, const Destination& destination)
    : loop_(loop), to_(destination), race_(1 + destination.others.size()) {}

/// An attempt may fail at once, so the next one begins in the same call.
void RacingChannel::begin_due(metrics::Moment now) {
  while (const auto which = race_.next(now)) {
    auto channel = connect_channel(loop_, address(*which), to_.tls);
    if (!channel) {
      race_.failed(errno, address(*which));
      continue;
    }
    channel->attach(*this, static_cast<std::uint32_t>(*which));
    attempts_.push_back({std::move(channel), static_cast<std::uint32_t>(*which)});
  }
}

void RacingChannel::ready(std::uint32_t tag, std::uint32_t events) {
  const auto attempt = std::ranges::find(attempts_, tag, &Attempt::address);
  if (attempt == attempts_.end()) return;
  const int error = attempt->channel->connect_error();
  if (error == 0 && (events & EPOLLOUT) == 0) return;
  if (error == 0) return win(*attempt, events);
  attempts_.erase(attempt);
  race_.failed(error, address(tag));
  deadline_passed(std::chrono::steady_clock::now());
}

void RacingChannel::deadline_passed(metrics::Moment now) {
  begin_due(now);
  if (race_.lost()) lose();
}

/// The watcher gets the event that this one has used up, and may end this object.
void RacingChannel::win(Attempt& attempt, std::uint32_t events) {
  chosen_ = address(attempt.address);
  won_ = std::move(attempt.channel);
  won_->detach();
  attempts_.clear();
  Timed::unlink();
  if (watcher_ == nullptr) return;
  won_->attach(*watcher_, tag_);
  if (prioritized_) won_->prioritize();
  watcher_->ready(tag_, events);
}

void RacingChannel::lose() {
  error_ = race_.error();
  if (watcher_ != nullptr) watcher_->ready(tag_, EPOLLERR | EPOLLHUP);  // May end this object.
}

bool RacingChannel::connecting_waits_for_loop() const {
  return std::ranges::any_of(attempts_, [](const auto& one) { return one.channel->connecting_waits_for_loop(); });
}

Channel::Read RacingChannel::read(std::span<char> into) {
  if (won_) return won_->read(into);
  errno = EAGAIN;
  return {-1, {}};
}

ssize_t RacingChannel::write(std::span<const std::string_view> pieces, std::size_t offset) {
  if (won_) return won_->write(pieces, offset);
  errno = EAGAIN;
  return -1;
}

void RacingChannel::attach(Watcher& watcher, std::uint32_t tag) {
  watcher_ = &watcher;
  tag_ = tag;
  if (won_) won_->attach(watcher, tag);
}

void RacingChannel::detach() {
  watcher_ = nullptr;
  prioritized_ = false;
  if (won_) won_->detach();
}

void RacingChannel::prioritize() {
  prioritized_ = true;
  if (won_) won_->prioritize();
}

void RacingChannel::rearm(std::uint32_t events) {
  if (won_) won_->rearm(events);
}

void RacingChannel::break_off() {
  if (won_) won_->break_off();
}

void RacingChannel::end_writing() {
  if (won_) won_->end_writing();
}

void RacingChannel::reset_on_close() {
  if (won_) won_->reset_on_close();
}

}  // namespace weir::proxy::net
