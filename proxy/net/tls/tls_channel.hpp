// A socket that speaks TLS, as a channel. The channel is itself the watcher of its registration with the loop's poller.
//
// Until the handshake has ended, its watcher is told nothing. Then it is told EPOLLIN and EPOLLOUT, or EPOLLERR and
// EPOLLHUP if the handshake failed; connect_error() says why. The watcher has to set a deadline.
//
// A close_notify is the peer's end, as a FIN is. A FIN without one shows as an error in the read, because anyone on the
// way could have sent it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "proxy/net/address_accounts.hpp"
#include "proxy/net/socket_channel.hpp"
#include "proxy/net/tls/socket.hpp"

namespace weir::proxy::net::tls {

/// The other end. metrics::series has the names of these and of the results.
enum class Side : std::uint8_t { client, replica };

/// How a handshake ended. One that was given up, by a deadline or because its client was gone, has failed.
enum class Result : std::uint8_t { full, resumed, failed };

class Handshaking {
 public:
  using Ended = std::function<void(Side, Result)>;

  /// `ended` is called at the end of each handshake. The context may end before this object, and runs no more then.
  Handshaking(boost::asio::io_context& context, Ended ended) : context_(context), ended_(std::move(ended)) {}

  /// Something that takes steps. It gives up its turn when it goes.
  class Stepper : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    /// Takes its step. It may destroy itself and others.
    virtual void step() = 0;

   protected:
    ~Stepper() = default;
  };

  /// Lets it take a step when its turn comes. It has one turn, however often it asks.
  void ask(Stepper& stepper, Side side);
  void ended(Side side, Result result) const {
    if (ended_) ended_(side, result);
  }

 private:
  void post();
  void take_turn();

  using List = boost::intrusive::list<Stepper, boost::intrusive::constant_time_size<false>>;
  boost::asio::io_context& context_;
  const Ended ended_;
  List replicas_, clients_;  ///< Handshakes that wait for their turn.
  bool posted_ = false;
};

/// The account of a client's address, to which the CPU of its handshakes is charged. The address owes what they took
/// beyond `cpus` of each second. Once it owes `most`, its handshakes take no further step: they fail (costs_too_much).
struct CpuAccount {
  /// In seconds: the clients behind one address may well come together by the thousand.
  static constexpr double most = 1;

  AddressAccounts* all = nullptr;  ///< Null: nothing is charged. It outlives the channel.
  PeerAddress address{};
  double cpus = 0;

  bool owes_too_much(metrics::Moment now) const { return all != nullptr && all->owed(address, cpus, now) >= most; }
};

class TlsChannel final : public SocketChannel, Watcher, Handshaking::Stepper {
 public:
  /// The parts of a loop that all its channels share.
  struct Loop {
    Poller& poller;
    const ArrivalClock& clock;
    Handshaking& handshaking;
  };
  /// Speaks to a replica; `socket` has begun to connect. Returns null if OpenSSL refuses; errno says ENOMEM then.
  static std::unique_ptr<Channel> to_replica(const Loop& loop, UniqueFd socket, std::shared_ptr<const Target> target);
  /// Speaks to a client that has connected.
  static std::unique_ptr<TlsChannel> to_client(const Loop& loop, UniqueFd socket,
                                               std::shared_ptr<const ServerContext> context, CpuAccount account = {});
  ~TlsChannel() override;

  Read read(std::span<char> into) override;
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override;
  void watch(Watcher* watcher) override;
  bool may_read() const override;
  Ended ended() const override;
  bool is_quiet() override;
  bool connecting_waits_for_loop() const override;
  /// Returns an error of the system's, or a failure of the handshake (failure.hpp). A watcher of a handshake is told
  /// of its end, and this is 0 where it ended well.
  int connect_error() override { return error_; }
  int refusal() const override;
  void end_writing() override;
  void reset_on_close() override;

  /// True if the handshake is under way and nothing of the peer is there to go on with.
  bool handshake_waits_for_peer() const;
  /// Tells a peer that does not speak TLS, after its handshake has failed, and ends writing.
  void answer_plainly(std::string_view text);

 private:
  enum class State : unsigned char { connecting, handshaking, open, failed };
  template <class Context>
  static std::unique_ptr<TlsChannel> make(const Loop& loop, UniqueFd socket, std::shared_ptr<const Context> context,
                                          Side side);
  TlsChannel(const Loop& loop, UniqueFd socket, SslPtr ssl, std::shared_ptr<const void> context, Side side);

  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t tag, int ahead) const override;
  void step() override;
  Socket::Step shake_hands();
  void tell(std::uint32_t events);
  void fail(int error);

  const std::shared_ptr<const void> context_;  ///< Outlives the session that it made.
  Handshaking& handshaking_;
  Watcher* watcher_ = nullptr;
  int error_ = 0;
  CpuAccount account_;
  const Side side_;
  State state_;
  bool unread_ = false;  ///< Bytes may be left that OpenSSL has read.
  bool resets_ = false;
  Socket tls_;
};

}  // namespace weir::proxy::net::tls
