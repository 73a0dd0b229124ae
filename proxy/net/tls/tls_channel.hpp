// TLS over a socket that does not block: the channel, and turns of handshakes.
//
// A socket that speaks TLS, as a channel. The channel is itself the watcher of its registration with the loop's poller.
//
// Until the handshake has ended, its watcher is told nothing. Then it is told EPOLLIN and EPOLLOUT, or EPOLLERR and
// EPOLLHUP if the handshake failed; connect_error() says why. The watcher has to set a deadline.
//
// A close_notify is the peer's end, as a FIN is. A FIN without one shows as an error in the read, because anyone on the
// way could have sent it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/poller.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::net::tls {

class Socket {
 public:
  /// The most bytes of text that one record carries (RFC 8446, 5.1).
  static constexpr std::size_t record_size = 16 * 1024;

  /// The descriptor, the clock and the context of `ssl` outlive the socket.
  Socket(const ArrivalClock& clock, int fd, SslPtr ssl);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  enum class Step : unsigned char { done, reads, writes, failed };
  /// Goes on with the handshake as far as the socket lets it. Returns the event that it waits for.
  Step handshake();
  /// Returns why the handshake failed: see context.hpp; or that the peer refused this side's certificate, which may
  /// show only in the first read. 0: neither.
  int failure() const { return failure_; }
  bool resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

  /// Reads until `into` is full, or nothing is left. Returns 0 after the peer's close_notify. An end without one may
  /// have been forged, so that is an error: ECONNRESET.
  ///
  /// A record without data may cost more than one with data, and TLS 1.3 sets no limit to a peer's KeyUpdates. So a
  /// read ends after `most_without_data` of them, and has_more() then; after `most_in_all` without a byte between them
  /// the connection is broken: ECONNABORTED. Session tickets and changed keys are few.
  Read read(std::span<char> into);
  static constexpr unsigned most_without_data = 16, most_in_all = 64;
  /// The last read, or is_quiet(), left records behind for another turn.
  bool has_more() const { return has_more_; }
  /// Writes one record. EAGAIN means that it is partly written: the next call must bring the same bytes, and may
  /// bring more.
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset);
  /// Writes the close_notify, if that is possible now and was not done before. Takes no memory of weir's own.
  void say_end();

  /// The socket is read again only after this, once a read has found it empty. A short read finds it empty, unless the
  /// peer `has_ended`: then the end itself is still to be read.
  void may_have_bytes(bool has_ended) {
    empty_ = false;
    has_ended_ = has_ended;
  }
  bool empty() const { return empty_; }
  /// True if the peer has ended its half, or the connection is broken. It shows in a read.
  bool ended() const { return ended_; }
  /// True if nothing can be read or written any more, for a reason that is no event of the socket's.
  bool broken() const { return broken_; }
  /// True if nothing is there to be read. Session tickets do not count.
  bool is_quiet();
  /// A read has to wait until the socket takes bytes.
  bool read_waits_to_write() const { return read_waits_to_write_; }

 private:
  bool skip_record(unsigned& passed);

  template <class Work>
  auto in_turn(const Work& work);
  Read read_in_turn(std::span<char> into);
  ssize_t write_in_turn(std::span<const std::string_view> pieces, std::size_t offset);
  bool is_quiet_in_turn();
  void end_turn();
  bool refill();

  static int read_some(BIO* bio, char* into, int size);
  static int write_some(BIO* bio, const char* bytes, int size);
  static long control(BIO* bio, int command, long number, void* argument);
  static const BIO_METHOD* method();

  const ArrivalClock& clock_;
  const int fd_;
  const SslPtr ssl_;
  metrics::Moment at_{};
  std::string_view ahead_;  ///< The ciphertext that OpenSSL has not asked for yet.
  std::string kept_;        ///< Holds that ciphertext between two turns.
  int failure_ = 0;
  int io_error_ = 0;  ///< The errno of the socket's failure.
  bool empty_ = false, has_ended_ = false, at_end_ = false, ended_ = false, broken_ = false;
  bool partly_written_ = false, read_waits_to_write_ = false;
  bool heard_ = false;         ///< The peer has sent something.
  bool starved_ = false;       ///< OpenSSL asked for bytes, and there were none.
  bool has_more_ = false;      ///< See has_more().
  unsigned without_data_ = 0;  ///< The records without data since the last byte.
};

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
  /// Returns an error of the system's, or a failure of the handshake (context.hpp). A watcher of a handshake is told
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
