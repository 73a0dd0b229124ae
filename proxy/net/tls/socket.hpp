// TLS over a socket that does not block. OpenSSL reads through it with the arrival clock, so the moment of a read is
// when the kernel received the last of its ciphertext.
//
// The socket reads ahead, not OpenSSL: with a buffer of its own OpenSSL would go through hundreds of records without
// data in one call. Bytes not asked for when a turn ends are kept until the next one.
//
// Errors are as for the system's calls: -1 with errno. Only one thread uses it at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

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
  /// Returns why the handshake failed: see failure.hpp; or that the peer refused this side's certificate, which may
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

}  // namespace weir::proxy::net::tls
