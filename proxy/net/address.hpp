// Addresses, owned descriptors, look-ups of names, and accounts of clients' addresses.
//
// Where a connection leads: an IP address and a port, or the path of a Unix-domain socket.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::net {

using StreamEndpoint = boost::asio::generic::stream_protocol::endpoint;

class Address {
 public:
  Address() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an endpoint is an address.
  Address(const boost::asio::ip::tcp::endpoint& endpoint) : endpoint_(endpoint) {}
  Address(const boost::asio::ip::address& address, std::uint16_t port) : endpoint_(address, port) {}
  /// Returns the address of the socket at this path, which has at most 107 bytes.
  static Address at_path(std::string path);

  bool is_path() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  /// The address and the port of an endpoint; meaningless for a path.
  boost::asio::ip::address address() const { return endpoint_.address(); }
  std::uint16_t port() const { return endpoint_.port(); }

  /// Returns the endpoint for system calls.
  StreamEndpoint endpoint() const;
  /// Returns the text as in settings: "127.0.0.1:80", "[::1]:80" or "unix:/path".
  std::string to_text() const;

  bool operator==(const Address&) const = default;

 private:
  boost::asio::ip::tcp::endpoint endpoint_;
  std::string path_;
};

/// Returns an address of the settings, TCP or a Unix-domain socket, as Asio takes it. Throws
/// boost::system::system_error if the host is no numeric address, which the settings have checked.
StreamEndpoint listen_endpoint(const config::ListenAddress& address);

namespace tls {
class Target;
}

/// Where to connect: an address, and the TLS target.
struct Destination {
  Destination() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): without TLS, an address is all.
  Destination(Address where, std::shared_ptr<const tls::Target> how = nullptr)
      : address(std::move(where)), tls(std::move(how)) {}
  bool operator==(const Destination&) const = default;

  Address address;
  std::shared_ptr<const tls::Target> tls;  ///< Null means plain.
};

// The address at the other end of a socket.

/// An IPv6 address, or an IPv4 address as IPv6 writes it (RFC 4291, 2.5.5.2). All zeros where it is not known.
using PeerAddress = std::array<unsigned char, 16>;

PeerAddress peer_address(int fd);
PeerAddress peer_address(const sockaddr_storage& peer);

/// True if it is an IPv4 address.
bool is_ipv4(const PeerAddress& address);

/// True if it is this machine's own: a process here, perhaps a proxy for many.
bool is_loopback(const PeerAddress& address);

/// Returns the part that identifies a client: an IPv4 address, or the first 64 bits of an IPv6 address.
PeerAddress client_part(PeerAddress address);

// An owned file descriptor.

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Looks up the addresses of a host's name as the system does (hosts file, then DNS), or with a nameserver of the
// settings' own.
//
// The system's resolver blocks, for 10 s and more where no server answers. So each look-up has a thread of its own,
// which outlives its owner if it has to.

/// The addresses, each once, in the order in which they are to be tried; or why there are none, as a clause.
using FoundAddresses = std::variant<std::vector<boost::asio::ip::address>, std::string>;

class NameLookup {
 public:
  /// Begins. `nameserver` is asked in place of the system's servers; it is an IPv4 address.
  NameLookup(std::string host, std::optional<config::ListenAddress> nameserver);

  /// Returns the result once it is there, and only once; nothing while the look-up is under way. Waits for `at_most`.
  std::optional<FoundAddresses> result(std::chrono::steady_clock::duration at_most = {});

 private:
  std::future<FoundAddresses> found_;
};

// The debts of client addresses: CPU that their handshakes took, and wrong tokens that they sent. A debt is paid off
// with time, at a rate that the caller gives, so an account says what an address has cost lately.

/// Any thread may use it. A call takes a lock and costs a search among the addresses that owe anything. It is bounded:
/// accounts that are paid off are forgotten, and beyond `most` all other addresses have one in common.
class AddressAccounts {
 public:
  static constexpr std::size_t most = 16'384;

  /// Returns what an address (of IPv6 the first 64 bits) owes, with so much paid off in a second.
  double owed(const PeerAddress& address, double rate, metrics::Moment now) const {
    const std::lock_guard lock(mutex_);
    const auto found = accounts_.find(client_part(address));
    const auto others = found == accounts_.end() && accounts_.size() >= most ? accounts_.find(PeerAddress{}) : found;
    return others == accounts_.end() ? 0 : left(others->second, rate, now);
  }
  void charge(const PeerAddress& address, double amount, double rate, metrics::Moment now) {
    const std::lock_guard lock(mutex_);
    sweep(rate, now);
    const auto client = client_part(address);
    const bool fits = accounts_.size() < most || accounts_.contains(client);
    auto& account = accounts_[fits ? client : PeerAddress{}];
    account = {left(account, rate, now) + amount, now};
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return accounts_.size();
  }

 private:
  struct Account {
    double owed = 0;
    metrics::Moment at{};
  };
  /// Forgets accounts that are paid off: when there are twice as many as the last time left, and each second at the
  /// bound.
  void sweep(double rate, metrics::Moment now) {
    const bool full = accounts_.size() >= most && now - swept_ >= std::chrono::seconds(1);
    if (accounts_.size() < sweep_at_ && !full) return;
    std::erase_if(accounts_, [&](const auto& one) { return left(one.second, rate, now) == 0; });
    sweep_at_ = std::max(least_to_sweep, 2 * accounts_.size());
    swept_ = now;
  }
  static double left(const Account& account, double rate, metrics::Moment now) {
    return std::max(0.0, account.owed - rate * std::chrono::duration<double>(now - account.at).count());
  }

  static constexpr std::size_t least_to_sweep = 64;
  mutable std::mutex mutex_;
  std::map<PeerAddress, Account> accounts_;  ///< Ordered: nobody can choose addresses that share a bucket.
  std::size_t sweep_at_ = least_to_sweep;
  metrics::Moment swept_{};
};

// How many connections each client address has. Connections are counted while no limit is set, too, so that a limit
// that a reload sets counts the connections that exist.

/// Any thread may use it. A call takes a lock and costs a search among the addresses that have a connection, so it is
/// for what happens once a connection.
class AddressCounts {
 public:
  /// Counts a connection of an address until its own end. AddressCounts outlives it.
  class CountGuard {
   public:
    CountGuard() = default;
    CountGuard(CountGuard&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)), client_(other.client_) {}
    CountGuard& operator=(CountGuard&& other) noexcept {
      std::swap(counts_, other.counts_);
      std::swap(client_, other.client_);
      return *this;
    }
    ~CountGuard() {
      if (counts_ != nullptr) counts_->leave(client_);
    }

   private:
    friend class AddressCounts;
    CountGuard(AddressCounts& counts, const PeerAddress& client) : counts_(&counts), client_(client) {}

    AddressCounts* counts_ = nullptr;
    PeerAddress client_{};
  };

  /// Takes a place for one more connection of this address; nothing if it has `most` of them. 0 means any number. An
  /// address that is not known has no number: it always gets a place.
  std::optional<CountGuard> take(const PeerAddress& address, std::size_t most);
  /// How many addresses have a connection.
  std::size_t size() const;

 private:
  void leave(const PeerAddress& client);

  mutable std::mutex mutex_;
  std::map<PeerAddress, std::size_t> counts_;  ///< An ordered map: nobody can choose addresses that share a bucket.
};

}  // namespace weir::proxy::net
