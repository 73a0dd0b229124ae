// A connection of weir's own to a replica, plain or TLS, for what is asked beside the data path: probes, pages, models.
//
// It is Asio's, because the control thread has no poller. Its moments are those of the reads.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proxy/net/address.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

class ReplicaStream {
 public:
  /// All that it does has `limit` together; then its operations fail. On the context's thread.
  ReplicaStream(const boost::asio::io_context::executor_type& executor, net::Destination to,
                std::chrono::steady_clock::duration limit);
  ~ReplicaStream();
  ReplicaStream(const ReplicaStream&) = delete;
  ReplicaStream& operator=(const ReplicaStream&) = delete;

  /// Connects to the first of its addresses that takes a connection, with the handshake. Returns 0 or an error as for
  /// net::connect_error_text().
  net::Awaitable<int> connect();
  /// Returns which of them it is, once it is connected.
  std::optional<net::Address> chosen() const;
  /// Returns false if that failed.
  net::Awaitable<bool> write(std::string_view bytes);
  /// Returns how many bytes have come; 0 at the end, -1 if that failed. An end of TLS without a close_notify is a
  /// failure, and so are tls::Socket::most_in_all records in a row without a byte.
  net::Awaitable<std::ptrdiff_t> read(std::span<char> into);
  /// Returns why the replica refused weir, if that is why read() failed: see net::Channel::refusal().
  int refusal() const;
  /// Returns why write() or read() failed, as a clause: "it did not come within 5 s".
  std::string failure() const;

 private:
  net::Awaitable<int> connect_plain();

  struct Streams;
  const std::unique_ptr<Streams> streams_;
};

}  // namespace weir::proxy::fleet
