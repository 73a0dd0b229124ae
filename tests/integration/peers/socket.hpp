// A blocking socket on the loopback interface, or a Unix-domain one, as both the scripted replica and the client use
// it. Every operation is bounded by `patience`, and another thread can cancel it through a descriptor that becomes
// readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "tests/integration/peers/event.hpp"

namespace weir::integration {

/// The peer closed or reset the connection while we were writing or reading.
struct PeerGone : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The owner of the socket wants its thread back.
struct CalledOff : std::runtime_error {
  CalledOff() : std::runtime_error("called off") {}
};

/// Returns a port on which nobody listens, outside the range that the system gives to outgoing connections.
std::uint16_t free_port();

/// True if the peer's system has acknowledged all that was sent, or the connection has ended.
bool system_has_all(int fd);

/// A socket is for one thread at a time. The destructor closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd, int called_off = -1) : fd_(fd), called_off_(called_off) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// Listens on a port of 127.0.0.`machine`; 0 lets the system choose.
  static Socket listen(int called_off, std::uint16_t port = 0, unsigned machine = 1, int backlog = 256);
  /// Listens on a Unix-domain path.
  static Socket listen(int called_off, const std::filesystem::path& path);
  /// Connects, from 127.0.0.`from`. `receive_buffer` > 0 sets SO_RCVBUF before. Throws PeerGone if nobody listens.
  static Socket connect(std::uint16_t port, int receive_buffer = 0, unsigned from = 1);
  /// Connects to a Unix-domain socket.
  static Socket connect(const std::filesystem::path& path);

  Socket accept();
  std::uint16_t port() const;

  /// Writes all of it. Throws PeerGone, TimedOut.
  void send(std::string_view bytes);
  /// Writes what the system takes now and returns its number; 0 if it takes nothing for `at_most`.
  std::size_t send_some(std::string_view bytes, std::chrono::milliseconds at_most);
  /// Reads some bytes; 0 is the peer's FIN. Throws PeerGone on a reset, and TimedOut.
  std::size_t receive(char* to, std::size_t size);
  /// Returns whether something is there to be read, an end too, within that time.
  bool has_bytes(std::chrono::milliseconds at_most) const;
  /// Returns whether the connection is reset within that time. It reads nothing.
  bool breaks_within(std::chrono::milliseconds at_most) const { return ready(0, at_most); }
  /// Waits until the peer closes or resets, and drops what it sends until then. Returns the moment.
  Clock::time_point wait_for_close();

  /// Waits until the peer's system has all that was sent, or the connection has ended. The peer can read it then, even
  /// behind a reset; a reset before takes back what is still on its way. Throws TimedOut.
  void wait_until_taken() const;

  void small_send_buffer();
  void small_receive_buffer();  ///< Connections that a listener accepts have it, too.
  void finish_sending();        ///< Sends a FIN; reading goes on.
  void close();                 ///< Sends a FIN, or an RST if unread bytes lie in the buffer.
  void reset();                 ///< Sends an RST.
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  /// Returns false if nothing happened for `at_most`.
  bool ready(short events, std::chrono::milliseconds at_most) const;

  int fd_ = -1;
  int called_off_ = -1;
};

}  // namespace weir::integration
