// A connection to a name with several addresses: the channel that wins the race among them, plain or TLS.
//
// Until one has connected, with its handshake of TLS, its watcher is told nothing. Then the winner tells it as if it
// had been there from the start; if all have failed, it is told EPOLLERR and EPOLLHUP, and connect_error() says why.
// The loop's tick begins attempts that are due, so up to 100 ms late.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include "proxy/net/address.hpp"
#include "proxy/net/address_race.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/deadline.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::net {

class RacingChannel final : public Channel, Watcher, public Timed {
 public:
  /// Begins to connect. Returns null if each address fails at once; errno says why.
  static std::unique_ptr<Channel> begin(const tls::TlsChannel::Loop& loop, Deadlines& deadlines,
                                        const Destination& destination);

  Read read(std::span<char> into) override;
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override;
  void attach(Watcher& watcher, std::uint32_t tag) override;
  void detach() override;
  void prioritize() override;
  void rearm(std::uint32_t events) override;
  bool may_read() const override { return won_ && won_->may_read(); }
  bool hung_up() const override { return won_ ? won_->hung_up() : race_.lost(); }
  bool broken() const override { return won_ ? won_->broken() : race_.lost(); }
  bool is_quiet() override { return won_ && won_->is_quiet(); }
  bool connecting_waits_for_loop() const override;
  int connect_error() override { return won_ ? won_->connect_error() : error_; }
  int refusal() const override { return won_ ? won_->refusal() : 0; }
  int unacknowledged() const override { return won_ ? won_->unacknowledged() : 0; }
  bool vanished() const override { return won_ && won_->vanished(); }
  void break_off() override;
  void end_writing() override;
  void reset_on_close() override;
  std::optional<Address> chosen() const override { return chosen_; }

 private:
  struct Attempt {
    std::unique_ptr<Channel> channel;
    std::uint32_t address;
  };

  RacingChannel(const tls::TlsChannel::Loop& loop, const Destination& destination);
  void begin_due(metrics::Moment now);
  void win(Attempt& attempt, std::uint32_t events);
  void lose();

  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t, int) const override {}
  metrics::Moment deadline() const override { return won_ ? metrics::Moment::max() : race_.due(); }
  void deadline_passed(metrics::Moment now) override;

  const Address& address(std::size_t i) const { return i == 0 ? to_.address : to_.others[i - 1]; }

  const tls::TlsChannel::Loop loop_;
  const Destination to_;
  AddressRace race_;
  std::list<Attempt> attempts_;
  std::unique_ptr<Channel> won_;
  std::optional<Address> chosen_;
  Watcher* watcher_ = nullptr;
  std::uint32_t tag_ = 0;
  bool prioritized_ = false;
  int error_ = 0;
};

}  // namespace weir::proxy::net
