// Moves bytes both ways between a plain socket and one that may speak TLS, on one thread. A side that does not take its
// bytes holds up only the other's reading: what it sends itself passes meanwhile.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::integration {

/// Lets closing reset the connection.
void close_by_reset(int fd);

/// A pump runs once. A reset of one side is set up for the other before run() returns; its owner closes both.
class Pump {
 public:
  struct Options {
    bool half_closes = false;  ///< The end of the plain side is told by a close_notify alone, and run() goes on.
    bool to_server = false;    ///< The far side is the server.
  };
  /// `ssl` null: the far side is plain, too. run() returns when `called_off` is readable. The handshake has been made.
  Pump(int plain, int far, SSL* ssl, int called_off, Options options);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  void run();

 private:
  /// Bytes of one side that the other has not taken.
  struct Held {
    std::array<char, std::size_t{32} * 1024> bytes;
    std::size_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
    const char* data() const { return bytes.data() + begin; }
    std::size_t size() const { return end - begin; }
  };
  void read_plain();
  void read_far();
  void write_plain();
  void write_far();
  void plain_ended();
  void give_up(int other);
  /// Returns false once it is called off.
  bool wait();
  void await_end_of_handshake();

  const int plain_, far_;
  SSL* const ssl_;
  const int called_off_;
  const Options options_;
  const std::uint64_t read_by_handshake_;
  Held to_far_, to_plain_;
  bool plain_ended_ = false, over_ = false, moved_ = false;
};

}  // namespace weir::integration
