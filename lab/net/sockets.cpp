#include "lab/net/sockets.hpp"

#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <list>
#include <optional>
#include <stdexcept>
#include <utility>

namespace weir::lab::net {
namespace {

std::chrono::nanoseconds duration_of(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Reads both clocks, as nearly at once as this thread gets to it. What else runs may come between two readings.
std::pair<Moment, std::chrono::nanoseconds> both_clocks() {
  constexpr std::chrono::microseconds at_once{5};
  Moment now = std::chrono::steady_clock::now();
  timespec wall{};
  for (int attempt = 0; attempt < 5; ++attempt) {
    ::clock_gettime(CLOCK_REALTIME, &wall);
    const Moment after = std::chrono::steady_clock::now();
    if (after - now <= at_once) break;
    now = after;
  }
  return {now, duration_of(wall)};
}

/// Returns when the kernel received what `message` has brought; `now` where it does not say so.
Moment arrival_in(msghdr& message, Moment now) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(part), sizeof stamp);
    const auto [steady, wall] = both_clocks();
    return arrival_of(duration_of(stamp), wall, steady);
  }
  return now;
}

}  // namespace

Moment arrival_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, Moment now) {
  const auto age = wall_now - stamp;
  const bool believed = age >= std::chrono::nanoseconds(0) && age <= std::chrono::seconds(10);
  return believed ? now - age : now;
}

void stamp_arrivals(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

std::size_t StampedSocket::receive(boost::asio::mutable_buffer room, boost::system::error_code& ec) {
  iovec piece{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(timespec))> control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  const int error = errno;
  const Moment now = std::chrono::steady_clock::now();
  ec = {};
  if (n > 0) {
    arrived_ = arrival_in(message, now);
    return static_cast<std::size_t>(n);
  }
  if (n < 0 && (error == EAGAIN || error == EINTR)) {
    ec = boost::asio::error::would_block;
    return 0;
  }
  arrived_ = now;
  ec = n == 0 ? boost::system::error_code(boost::asio::error::eof)
              : boost::system::error_code(error, boost::system::system_category());
  return 0;
}

namespace ssl = boost::asio::ssl;

std::shared_ptr<ssl::context> client_context(const std::string& ca) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(ssl::verify_peer);
  boost::system::error_code error;
  if (ca.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(ca, error);
  }
  if (error) throw std::invalid_argument("\"" + ca + "\" must be a file of certificates in PEM: " + error.message());
  return context;
}

void expect_host(SSL* connection, const std::string& host) {
  boost::system::error_code no_address;
  boost::asio::ip::make_address(host, no_address);
  if (!no_address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str());
    return;
  }
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  SSL_set1_host(connection, host.c_str());
  SSL_set_tlsext_host_name(connection, host.c_str());
}

std::string handshake_problem(const SSL* connection, const boost::system::error_code& error) {
  std::string problem = "TLS: " + error.message();
  if (const long verdict = SSL_get_verify_result(connection); verdict != X509_V_OK)
    problem = std::string("TLS: certificate verify failed: ") + X509_verify_cert_error_string(verdict);
  return problem;
}

using boost::asio::ip::tcp;

tcp::endpoint first_that_connects(const tcp::resolver::results_type& found) {
  boost::asio::io_context io;
  std::optional<tcp::endpoint> first;
  std::list<tcp::socket> sockets;
  std::size_t open = 0;
  const auto wait = [&](std::chrono::milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (!first && open > 0 && io.run_one_until(until) > 0) continue;
    io.restart();
  };
  for (const auto& entry : found) {
    ++open;
    sockets.emplace_back(io).async_connect(entry.endpoint(),
                                           [&, to = entry.endpoint()](const boost::system::error_code& failed) {
                                             --open;
                                             if (!failed && !first) first = to;
                                           });
    wait(std::chrono::milliseconds(250));
    if (first) break;
  }
  wait(std::chrono::seconds(5));
  return first.value_or(found.begin()->endpoint());
}

}  // namespace weir::lab::net
